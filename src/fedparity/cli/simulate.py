"""`fedparity simulate`: a whole system by seed, whose invariants are held after every step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from fedparity.cli.console import CHECK_FAILED, AsJson, Bar, print_json, say


def simulate_command(
    *,
    seed: Annotated[int, typer.Option(min=0, help="Which system; the same seed does the same.")] = 0,
    days: Annotated[int, typer.Option(min=1, help="How long each lives, in days of 12 rounds.")] = 10,
    seeds: Annotated[int, typer.Option(min=1, help="How many systems, from --seed on.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate clients, network, disk and a coordinator that dies, and check what must hold after every step.

    A broken invariant is named with its seed, which breaks it again; the exit code is 1 then. Needs apsw.

    fedparity simulate --seed 7 --days 3
    fedparity simulate --seeds 20 --days 1 --json
    """
    from fedparity.testing.simulation import BrokenInvariantError, simulate

    done, broken = [], []
    with Bar() as bar:
        for number in range(seed, seed + seeds):
            bar.tell("systems", number - seed, seeds, f"seed {number}")
            try:
                done.append(simulate(number, days))
            except BrokenInvariantError as error:
                broken.append({"seed": number, "problem": str(error)})
    rounds, deaths = sum(one.rounds for one in done), sum(sum(one.deaths.values()) for one in done)
    if as_json:
        print_json({"days": days, "systems": [asdict(one) for one in done], "broken": broken})
    else:
        for one in broken:
            say(str(one["problem"]))
        say(
            f"{len(done) * days} days of {len(done)} systems: {rounds} rounds, the coordinator went {deaths} times, "
            f"{sum(one.world.get('lies', 0) for one in done)} lies, {sum(one.erased for one in done)} clients erased; "
            f"{len(broken)} broken",
            wrap=True,
        )
    if broken:
        raise typer.Exit(CHECK_FAILED)
