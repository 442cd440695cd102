"""The attacks, one row each: when attackers are there, what they say, and whether they come back as somebody else.

Presence is given as rounds x attackers. An attacker that does not choose when to be there comes and goes like anybody
of the population. Availability cannot be declared to fedparity, since there is no field for it; what can be declared is
how many samples there are and how long the work took.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedparity.core.types import BoolArray, ClientReport

Presence: TypeAlias = Callable[[int, int, np.random.Generator], BoolArray]
"""(rounds, attackers, rng) -> rounds x attackers."""


@dataclass(frozen=True, slots=True)
class Attack:
    """What attackers do."""

    summary: str
    presence: tuple[Presence, ...] = ()
    """When they are there; of several the one that gains most counts. None: as the population."""
    says: Callable[[ClientReport], ClientReport] = lambda report: report
    """What becomes of an honest report."""
    identities: int = 1
    """How many clients each attacker registers as; they are there in turns."""
    renews: bool = False
    """Whether an attacker registers anew after each selection."""


def _always(rounds: int, attackers: int, _: np.random.Generator) -> BoolArray:
    return np.ones((rounds, attackers), dtype=np.bool_)


def _duty(share: float) -> Presence:
    return lambda rounds, attackers, rng: np.asarray(rng.random((rounds, attackers)) < share)


def _when(there: Callable[[int, int], bool]) -> Presence:
    """All attackers alike: there(round, rounds)."""
    return lambda rounds, attackers, _: np.repeat(
        np.array([[there(t, rounds)] for t in range(rounds)], dtype=np.bool_), attackers, axis=1
    )


def _together(rounds: int, attackers: int, rng: np.random.Generator) -> BoolArray:
    return np.repeat(rng.random((rounds, 1)) < 0.3, attackers, axis=1)


def _gain(size: float) -> Callable[[ClientReport], ClientReport]:
    return lambda report: replace(report, loss_before=size, loss_after=0.0, loss_rms=size)


ATTACKS: dict[str, Attack] = {
    "always_on": Attack("Is always there, and honest: what it gets is what an honest client gets.", (_always,)),
    "inflated_utility": Attack("Reports a gain of 10 for each participation.", says=_gain(10.0)),
    "deflated_utility": Attack("Reports hardly any gain, to look neglected.", says=_gain(1e-3)),
    "claims": Attack(
        "Claims a billion samples and no time.", says=lambda r: replace(r, num_samples=10**9, duration=0.0)
    ),
    "duty_cycling": Attack(
        "Hides for a share of the rounds; the best of seven.", tuple(map(_duty, (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)))
    ),
    "sleep": Attack("Sleeps for half of the run, then stays.", (_when(lambda t, rounds: 2 * t >= rounds),)),
    "pulsing": Attack("Fifty rounds there, fifty away.", (_when(lambda t, _: t // 50 % 2 == 1),)),
    "false_failures": Attack(
        "Is always there and only sends failures.", (_always,), lambda r: ClientReport(r.client, failure="no")
    ),
    "collusion": Attack("All attackers share one coin: there together in 30 % of the rounds.", (_together,)),
    "rhythm": Attack(
        "Teaches the forecast that it comes one round in 24, then stays.",
        (_when(lambda t, rounds: t % 24 == 0 or 2 * t >= rounds),),
    ),
    "synchronised": Attack("All attackers come together every tenth round.", (_when(lambda t, _: t % 10 == 9),)),
    "re_registration": Attack("Registers anew after each selection.", (_always,), renews=True),
    "sybils": Attack("Each attacker is five clients that are there in turns.", (_always,), identities=5),
}
