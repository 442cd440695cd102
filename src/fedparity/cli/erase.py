"""`fedparity erase`: a client's data out of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedparity.cli.console import RunFolder, say


def erase_command(
    run: RunFolder,
    client: Annotated[int, typer.Argument(metavar="CLIENT", help="The client's number.")],
    totals: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--totals", help="Of all rounds, keep only what each of the others had in all.")
    ] = False,
) -> None:
    """Erase a client from a run: its updates, models, surrogates, row, and all sums that it is in.

    The other clients' rounds stay, and where every slot was filled they tell by one name fewer when the erased one took
    part; with --totals they go, too.

    fedparity erase runs/demo 17
    """
    from fedparity import report
    from fedparity.experiment.erasing import relogged
    from fedparity.experiment.results import REPORT
    from fedparity.experiment.run import Run
    from fedparity.experiment.runner import fresh_state
    from fedparity.report.export import export_folder
    from fedparity.store import Disk, Store, erase
    from fedparity.store.manifest import not_ours

    lines = erase(run, client, fresh_state, relogged, totals=totals)
    with Store.open(run, create=False) as store:
        left = Run.stored(store)
        left.save(run)
        report.write_report(left, run / REPORT)
    say(f"Erased client {client} from {lines} rounds of {run}")
    beside = export_folder(run)
    others = [
        *map(str, sorted(beside.glob("*") if beside.is_dir() else ())),
        *(f"{run}/{n}" for n in not_ours(Disk(run))),
    ]
    if others:
        say(f"Not looked into, and perhaps about it: {', '.join(others)}", wrap=True)
