"""Lemma 2: inverse-availability sampling among the available selects everybody in m/N of the rounds. Not in general.

    P(k drawn | A) = A_k q_k / sum_j q_j A_j,    q_k = 1/pi_k        E = E[1 / (q_k + sum_{j != k} q_j A_j)]

The sum is replaced by its mean N, which takes many independent clients, none of them too rare (a law of large numbers
over clients; the proof cites one over rounds). Nobody can be served in more rounds than online, so pi_k >= m/N is
necessary; it is not sufficient. Drawn without replacement the deviation stays as N grows with m/N fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import BoolArray, FloatArray
from fedparity.paper.claims.claim import SEED, Z95, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.claims.simulate import coins, drawn, subsets

PARTS = 20
"""Into so many parts the draws are divided where an interval is taken from means of parts."""


def inverse_rates(rates: FloatArray, law: Iterable[tuple[BoolArray, float]] | None = None) -> FloatArray:
    """How often each of a few clients is selected with m = 1, by enumeration of who is there (None: independently)."""
    total = np.zeros(len(rates))
    for there, chance in subsets(rates) if law is None else law:
        if there.any():
            weight = there / rates
            total += chance * weight / weight.sum()
    return total


def drawn_with_replacement(rates: FloatArray, draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """E[1 / (q_k + sum of the others online)], the expected number of selections of k per draw; its standard error."""
    q = 1 / rates
    total, squares = np.zeros(len(rates)), np.zeros(len(rates))
    for _ in range(draws):
        weight = (rng.random(len(rates)) < rates) * q
        found = 1 / (weight.sum() - weight + q)
        total += found
        squares += found**2
    mean = total / draws
    return mean, np.sqrt(np.maximum(0.0, squares / draws - mean**2) / draws)


@dataclass(frozen=True, slots=True)
class Lemma2(Claim):
    """Selection rates under inverse availability: two clients exactly, many by simulation."""

    id = "lemma-2"
    where = "Section 2, Lemma 2"
    statement = "Sampling m of the available with chances ∝ 1/π_k selects every client in m/N of the rounds."
    assumptions = "Stationary ergodic availability with means π_k > 0; consistent estimates of π_k."
    corrected = (
        "A limit for many independent clients with π bounded below, drawn with replacement; impossible where π_k < m/N."
    )
    method = "Enumeration for N = 2; Monte Carlo over availability, 2,000 draws, for N = 10 to 1,000"
    expected = "fails"

    rates: tuple[float, ...] = (0.9, 0.1)
    """The population that is enumerated, m = 1."""
    sizes: tuple[int, ...] = (10, 100, 1_000)
    draws: int = 2_000
    low: float = 0.2
    """Least availability of the large populations."""
    share: float = 0.15
    """m/N where clients are drawn without replacement."""

    def examine(self) -> Finding:
        """The counterexample, then the limit."""
        rng = stream(SEED, self.id)
        pair = inverse_rates(np.array(self.rates))
        equal = bool(np.allclose(pair, 1 / len(pair), atol=1e-9))
        together = inverse_rates(np.full(2, 0.5), [(np.ones(2, dtype=np.bool_), 0.5)])
        hardly = inverse_rates(np.array([0.05] + [0.6] * 9))[0]
        off, sure, kept = [], [], []
        for size in self.sizes:
            pi = np.linspace(self.low, 1.0, size)
            found, error = drawn_with_replacement(pi, self.draws, rng)
            off.append(float(np.abs(size * found - 1).max()))
            sure.append(Z95 * size * float(error.max()))
            cohort = max(1, round(self.share * size))
            served = drawn(coins(pi, self.draws, rng), 1 / pi, cohort, rng)
            tenth = max(1, size // 10)
            rare, often = (part.reshape(PARTS, -1).mean(axis=1) for part in (served[:, :tenth], served[:, -tenth:]))
            kept.append(Estimate.of(np.abs(rare / often - 1)))
        shrinks = off[-1] < 0.01 and off[-1] < off[0] / 10
        shown = ", ".join(f"{rate:.3f}" for rate in pair)
        return Finding(
            "holds" if equal else "fails",
            shrinks,
            f"N = {len(pair)}, m = 1, π = {self.rates}: selected in ({shown}) of the rounds, not {1 / len(pair):g}"
            f" each. With replacement the largest relative error falls from {off[0]:.1%} at N = {self.sizes[0]} to"
            f" {off[-1]:.2%} at N = {self.sizes[-1]:,}; without, the rarest and the most available tenth still differ"
            f" by {kept[-1].mean:.1%} (95 % {kept[-1].low:.1%} to {kept[-1].high:.1%}).",
            {
                "rates": self.rates,
                "selected": pair,
                "two_clients_online_only_together_half_of_the_time": together,
                "a_client_online_in_5_percent_where_m_over_n_is_10_percent": hardly,
                "draws": self.draws,
                "clients": self.sizes,
                "largest_relative_error_with_replacement": off,
                "largest_relative_error_with_replacement_ci95_half": sure,
                "rarest_against_commonest_tenth_without_replacement": [one.to_json() for one in kept],
                "share": self.share,
            },
            Lines(
                "Lemma 2: how far selection is from m/N",
                "clients N",
                "relative error",
                (
                    Curve("with replacement", self.sizes, off),
                    Curve("without, m/N fixed", self.sizes, [one.mean for one in kept]),
                ),
                log_x=True,
                log_y=True,
            ),
        )
