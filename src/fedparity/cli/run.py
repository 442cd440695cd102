"""A spec carried out for the command line: progress, a way to stop, the store, plain files and the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedparity.cli.show import Rounds, say

if TYPE_CHECKING:
    from fedparity.experiment.results import Results
    from fedparity.experiment.spec import Spec
    from fedparity.store import Store


@contextmanager
def carried_out(
    spec: Spec, text: str, out: Path, *, resume: bool, overwrite: bool, quiet: bool
) -> Iterator[tuple[Results, Store]]:
    """What came out, its files written, and the store while it is still open."""
    from fedparity import report
    from fedparity.experiment.results import open_store
    from fedparity.experiment.runner import Watch, ready, run_spec
    from fedparity.experiment.stop import Stop

    report.require()
    with Rounds(spec, quiet=quiet) as rounds:
        trace = ready(spec, rounds.prepare)
    with open_store(out, spec, resume=resume, overwrite=overwrite) as store:
        with Stop() as stop, Rounds(spec, quiet=quiet) as rounds:
            watch = Watch(rounds.tell, lambda: stop.asked, lambda: stop.overdue, store, data=rounds.prepare)
            results = run_spec(spec, watch, trace)
        results.save(out, text)
        report.write(results, out / "report.html", text)
        for notice in store.notices:
            say(f"fedparity: {notice}", stderr=True)
        yield results, store
