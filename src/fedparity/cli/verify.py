"""`fedparity verify`: whether a run is what was written."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from fedparity.cli.console import CHECK_FAILED, AsJson, RunFolder, print_json, say
from fedparity.core.errors import ConfigError


def verify_command(
    run: RunFolder,
    *,
    digest: Annotated[str | None, typer.Option(metavar="HEX", help="The digest that the run must have.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a run: every chain, every file, and that the ledger follows from the journal.

    The digest stands for spec, trace, inputs, every round and its outcome: two runs that share one are the same.

    fedparity verify runs/demo
    fedparity verify runs/demo --digest 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    """
    if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest := digest.strip().lower()):
        raise ConfigError(f"--digest {digest!r} must be 64 hexadecimal digits, as `fedparity verify RUN` prints them")
    from fedparity.experiment.runner import state_classes
    from fedparity.store import verify
    from fedparity.store.manifest import MANIFEST

    verdict = verify(run, state_classes)
    problems = list(verdict.problems)
    if digest is not None and digest != verdict.digest:
        problems.append(f"its digest is {verdict.digest}, not {digest}")
    if as_json:
        found = {"run": str(run), "ok": not problems, "rounds": verdict.rounds, "closed": verdict.closed}
        print_json({**found, "running": verdict.running, "digest": verdict.digest, "problems": problems})
    else:
        for problem in problems:
            say(problem)
        state = "damaged" if verdict.problems else "another run" if problems else "intact"
        say(f"{run}: {state}, {verdict.rounds} rounds checked")
        if verdict.digest is not None:
            say(f"Digest: {verdict.digest}")
        if verdict.running:
            say("It is being written: it was checked as far as it had come.")
        elif any(problem.startswith(MANIFEST) for problem in problems):
            say("Without its manifest the files beside the database were not compared with anything.")
        elif not verdict.closed:
            say("It was not closed cleanly, so there is no manifest to compare files with.")
    if problems:
        raise typer.Exit(CHECK_FAILED)
