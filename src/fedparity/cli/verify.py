"""`fedparity verify`: whether a run is what was written."""

from __future__ import annotations

import typer

from fedparity.cli.console import CHECK_FAILED, AsJson, RunFolder, print_json, say


def verify_command(run: RunFolder, *, as_json: AsJson = False) -> None:
    """Check a run: every chain, every file, and that the ledger follows from the journal.

    fedparity verify runs/demo
    """
    from fedparity.experiment.runner import state_classes
    from fedparity.store import verify

    verdict = verify(run, state_classes)
    if as_json:
        found = {"run": str(run), "ok": verdict.ok, "rounds": verdict.rounds, "closed": verdict.closed}
        print_json({**found, "problems": list(verdict.problems)})
    else:
        for problem in verdict.problems:
            say(problem)
        state = "intact" if verdict.ok else "damaged"
        say(f"{run}: {state}, {verdict.rounds} rounds checked")
        if not verdict.closed:
            say("It was not closed cleanly, so there is no manifest to compare files with.")
    if not verdict.ok:
        raise typer.Exit(CHECK_FAILED)
