"""F_k/pi_k as an objective: whether it undoes availability depends on who is summed over, which the paper leaves open.

    sum over those online of F_k/pi_k, over N     E = (1/N) sum of F_k: everybody counts the same      (form ht)
    the same over the sum of the 1/pi_k online    a ratio: biased                                       (form hajek)
    sum over everybody of F_k/pi_k                rare clients count 1/pi_k times as much                 (all)

The influence of a client is the expectation of its weight in a step, worked out over all 2^N sets of clients online; on
quadratic losses with centres c_k training ends at sum v_k c_k / sum v_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.claims.simulate import subsets

Form = Literal["mean", "ht", "hajek", "all"]


def influence(rates: FloatArray, form: Form) -> FloatArray:
    """E[weight of each client in a step], scaled to a mean of 1."""
    total = np.zeros(len(rates))
    for there, chance in subsets(rates):
        if there.any():
            weight = there / rates ** {"mean": 0, "ht": 1, "hajek": 1, "all": 2}[form]
            total += chance * weight / (weight.sum() if form in ("mean", "hajek") else 1.0)
    return np.asarray(total / total.mean())


@dataclass(frozen=True, slots=True)
class AdjustedObjective(Claim):
    """What each reading of F_k/pi_k makes of everybody's influence."""

    id = "adjusted-objective"
    where = "Section 2, definition of F̂_k = F_k/π_k"
    statement = "F_k/π_k is the availability-adjusted loss: minimising it undoes the effect of availability."
    assumptions = "None printed: neither who is summed over nor how the sum is divided."
    corrected = (
        "Summed over those online and divided by N it is the plain mean of all F_k in expectation; summed over"
        " everybody it favours rare clients by 1/π_k; divided by the weights online it is biased."
    )
    method = "Exact enumeration of the 2⁸ sets of clients online, π from .1 to .9"
    expected = "needs-assumption"

    rates: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9)
    form: Form = "ht"
    """The reading that the corrected statement says is right."""

    def examine(self) -> Finding:
        """Influences under every reading."""
        pi = np.array(self.rates)
        found: dict[str, FloatArray] = {form: influence(pi, form) for form in get_args(Form)}
        off = {form: float(np.abs(v - 1).max()) for form, v in found.items()}
        spread = {form: float(v.max() / v.min()) for form, v in found.items()}
        return Finding(
            "holds" if max(off["ht"], off["hajek"], off["all"]) < 1e-9 else "needs-assumption",
            off[self.form] < 1e-9,
            f"Largest over smallest influence, π from {pi.min():g} to {pi.max():g}: plain mean of those online"
            f" {spread['mean']:.1f}, F/π summed over those online {spread['ht']:.1f}, the same divided by its weights"
            f" {spread['hajek']:.1f}, F/π over everybody {spread['all']:.1f}.",
            {"rates": pi, "influence": found, "largest_over_smallest": spread},
            Lines(
                "F/π: how much each client counts",
                "availability π",
                "influence (1: equal)",
                tuple(
                    Curve(name, pi, found[form])
                    for form, name in (
                        ("mean", "plain mean"),
                        ("ht", "F/π, those online"),
                        ("hajek", "… over its weights"),
                        ("all", "F/π, everybody"),
                    )
                ),
                log_y=True,
            ),
        )
