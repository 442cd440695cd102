"""`fedparity attack`: what lying clients gain under a scheduler."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from fedparity.cli.console import AsJson, Bar, print_json, say, show_table, split_list


def attack_command(
    *,
    scheduler: Annotated[
        str, typer.Option(help="NAME[:key=value,...] (fedparity list schedulers).")
    ] = "parity_deployment",
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", metavar="A,B,...", help="Which attacks.", show_default="all")
    ] = None,
    availability: Annotated[
        str, typer.Option(help="When honest clients are there: NAME[:key=value,...].")
    ] = "bernoulli",
    weighting: Annotated[str, typer.Option(help="How much each update counts.")] = "mean",
    max_weight: Annotated[
        float | None, typer.Option(help="Most that one update counts, in 1/m.", show_default="as the weighting says")
    ] = None,
    clients: Annotated[int, typer.Option(help="Registered clients, attackers among them (N).")] = 100,
    cohort: Annotated[int, typer.Option(help="Clients asked per round (m).")] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds (T).")] = 1000,
    attackers: Annotated[int, typer.Option(help="How many clients are attackers.")] = 10,
    seeds: Annotated[int, typer.Option(help="Seeds that figures are means over.")] = 8,
    quick: Annotated[bool, typer.Option("--quick", help="300 rounds and one seed, for a first look.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a tenth of the clients gain by lying or by choosing when to be there; nothing is trained.

    fedparity attack --scheduler parity_deployment --quick
    fedparity attack --scheduler oort --attack inflated_utility,sleep --json
    """
    from fedparity.core.errors import unknown
    from fedparity.core.gate import Gate
    from fedparity.testing import ATTACKS, Arena, attack

    names = [name for text in attacks or ["all"] for name in split_list(text)]
    names = [n for name in names for n in (ATTACKS if name == "all" else (name,))]
    for name in names:
        if name not in ATTACKS:
            raise unknown("attack", name, ATTACKS)
    arena = Arena(availability, clients, cohort, 300 if quick else rounds, attackers, 1 if quick else seeds)
    found = []
    with Bar() as bar:
        for done, name in enumerate(names):
            bar.tell("attacks", done, len(names), name)
            found.append(attack(name, arena, scheduler, weighting=weighting, gate=Gate(max_weight=max_weight)))
    if as_json:
        head = {key: value for key, value in asdict(arena).items() if key != "window"}
        print_json({"scheduler": scheduler, "weighting": weighting, **head, "attacks": [asdict(one) for one in found]})
        return
    rows = [
        (one.attack, *(f"{100 * part:.1f}" for part in (one.share, one.worst_window_share, one.weight_share)),
         f"{100 * one.rounds_with_a_third:.1f}")
        for one in found
    ]  # fmt: skip
    show_table(("attack", "slots %", "worst window", "weight %", "a third"), rows)
    say(
        f"{attackers} of {clients} clients attack {scheduler}; dealt evenly they get {100 * arena.fair_share:g} % of "
        f"the slots. Worst window: of {arena.window} rounds, in %. A third: rounds in which they hold that, in %.",
        wrap=True,
    )
