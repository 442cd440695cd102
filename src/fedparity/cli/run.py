"""A spec carried out for the command line: progress, a way to stop, the store, plain files and the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedparity.cli.show import Rounds, say

if TYPE_CHECKING:
    from fedparity.experiment.run import Run
    from fedparity.experiment.spec import Spec
    from fedparity.store import Store


@contextmanager
def carried_out(
    spec: Spec, text: str, out: Path, *, resume: bool, overwrite: bool, quiet: bool
) -> Iterator[tuple[Run, Store]]:
    """What came out, its files written, and the store while it is still open."""
    from fedparity import report
    from fedparity.experiment.results import open_store
    from fedparity.experiment.runner import Callbacks, execute, prepare
    from fedparity.experiment.stop import Stop

    report.require()
    with Rounds(spec, quiet=quiet) as rounds:
        trace = prepare(spec, rounds.prepare)
    with open_store(out, spec, resume=resume, overwrite=overwrite) as store:
        with Stop() as stop, Rounds(spec, quiet=quiet) as rounds:
            told = Callbacks(rounds.tell, lambda: stop.asked, lambda: stop.overdue, rounds.prepare)
            run = execute(spec, store=store, trace=trace, callbacks=told)
        run.save(out, text)
        report.write(run, out / "report.html", text)
        for notice in store.notices:
            say(f"fedparity: {notice}", stderr=True)
        yield run, store
