"""`fedparity erase`: a client's data out of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedparity.cli.console import RunFolder, say


def erase_command(
    run: RunFolder, client: Annotated[int, typer.Argument(metavar="CLIENT", help="The client's number.")]
) -> None:
    """Erase a client from a run: its updates, models, surrogates and row; the chain stays verifiable.

    fedparity erase runs/demo 17
    """
    from fedparity import report
    from fedparity.experiment.results import REPORT
    from fedparity.experiment.run import Run
    from fedparity.experiment.runner import fresh_state
    from fedparity.store import Store, erase

    lines = erase(run, client, fresh_state)
    with Store.open(run, create=False) as store:
        left = Run.stored(store)
        left.save(run)
        report.write_report(left, run / REPORT)
    say(f"Erased client {client} from {lines} rounds of {run}")
