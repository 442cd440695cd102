"""`fedparity attack`: what lying clients gain under a scheduler."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fedparity.cli.console import AsJson, Bar, names_of, print_json, say, show_table, split_list

if TYPE_CHECKING:
    from fedparity.testing import Result


def attack_command(
    *,
    scheduler: Annotated[
        str,
        typer.Option(help="NAME[:key=value,...] (fedparity list schedulers).", autocompletion=names_of("schedulers")),
    ] = "parity_deployment",
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            metavar="A,B,...",
            help="Which (fedparity list attacks).",
            show_default="all",
            autocompletion=names_of("attacks"),
        ),
    ] = None,
    availability: Annotated[
        str,
        typer.Option(
            help="When honest clients are there: NAME[:key=value,...].", autocompletion=names_of("availability")
        ),
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
    first_seed: Annotated[int, typer.Option(help="The first of them.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="300 rounds and one seed, for a first look.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a tenth of the clients gain by lying or by choosing when to be there; nothing is trained.

    fedparity attack --scheduler parity_deployment --max-weight 1 --quick
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
    arena = Arena(availability, clients, cohort, 300 if quick else rounds, attackers, 1 if quick else seeds, first_seed)
    found = []
    with Bar() as bar:
        for done, name in enumerate(names):
            bar.tell("attacks", done, len(names), name)
            found.append(attack(name, arena, scheduler, weighting=weighting, gate=Gate(max_weight=max_weight)))
    if as_json:
        head = {key: value for key, value in asdict(arena).items() if key != "window"}
        print_json({"scheduler": scheduler, "weighting": weighting, **head, "attacks": [asdict(one) for one in found]})
        return
    rows = [(one.attack, *(" / ".join(f"{100 * part:.1f}" for part in cell) for cell in _shown(one))) for one in found]
    show_table(("attack", "slots", "window", "weight", "a third", "thin", "fill"), rows)
    say(
        f"{attackers} of {clients} clients attack {scheduler}; dealt evenly they get {100 * arena.fair_share:g} % of "
        f"the slots. In %: their share of filled / of all slots, in the run and in its worst {arena.window} rounds; of "
        "the weight given / of steps of weight 1; rounds in which they are a third of those asked / have a third of a "
        "step of weight 1. Thin: rounds that counted for less than 1, as fewer were asked. Fill: slots filled.",
        wrap=True,
    )


def _shown(one: Result) -> tuple[tuple[float, ...], ...]:
    return (
        (one.share, one.offered_share),
        (one.worst_window_share, one.offered_window_share),
        (one.weight_share, one.step_share),
        (one.rounds_with_a_third, one.captured),
        (one.thin,),
        (one.fill,),
    )
