"""Appendix A: E[u_k/pi_k] = T mu_k / (C pi_k), C = sum_j 1/pi_j. Right algebra on a premise that Lemma 2 does not give.

The premise P(S_k | A_k) = (1/pi_k) / C normalises over *all* clients; Lemma 2 draws among the *available*, where

    P(S_k | A_k) = E[q_k / (q_k + sum_{j != k} q_j A_j)] -> m / (N pi_k)      E[u_k/pi_k] -> T m mu_k / (N pi_k)

Either way E[u_k/pi_k] differs between clients, which is what Theorem 1 says inverse sampling removes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.paper.claims.claim import SEED, Z95, Claim, Finding
from fedparity.paper.claims.lemma_2 import drawn_with_replacement
from fedparity.paper.claims.plot import Curve, Lines


@dataclass(frozen=True, slots=True)
class AppendixA(Claim):
    """E[u_k/pi_k] per round of Lemma 2's rule beside the printed one, m = 1 and mu = 1."""

    id = "appendix-a"
    where = "Appendix A"
    statement = "Under inverse-availability sampling E[u_k/π_k] = Tμ_k/(Cπ_k), C = Σ 1/π_j."
    assumptions = "P(S_k | A_k) = (1/π_k)/C, “as in Lemma 2”; gains bounded with constant mean."
    corrected = (
        "Lemma 2's rule gives E[u_k/π_k] ≈ T·m·μ_k/(N·π_k) for many clients; it is unequal across clients either way."
    )
    method = "Monte Carlo over availability: 2,000 draws, N = 300, m = 1, π from .2 to 1"
    expected = "needs-assumption"

    clients: int = 300
    low: float = 0.2
    draws: int = 2_000

    def examine(self) -> Finding:
        """Measured, printed and corrected."""
        pi = np.linspace(self.low, 1.0, self.clients)
        served, error = drawn_with_replacement(pi, self.draws, stream(SEED, self.id))
        measured = served / pi
        printed = 1 / ((1 / pi).sum() * pi)
        corrected = 1 / (self.clients * pi)
        off = float(np.abs(printed / measured - 1).max())
        left = float(np.abs(corrected / measured - 1).max())
        sure = Z95 * float((error / served).max())
        unequal = float(measured.max() / measured.min())
        bound = 2 / ((1 / pi).sum() * self.low)
        within = bool((np.abs(printed - printed.mean()) <= bound + 1e-12).all())
        return Finding(
            "holds" if off < 0.02 and within else "needs-assumption",
            left < 0.02,
            f"Lemma 2's rule gives {measured.mean() / printed.mean():.2f} times the printed E[u/π] (N ="
            f" {self.clients}); the corrected form is within {left:.2%}, drawn to ± {sure:.2%}. Clients"
            f" still differ by a factor {unequal:.2f}.",
            {
                "draws": self.draws,
                "measured_over_printed": float(measured.mean() / printed.mean()),
                "largest_relative_error_printed": off,
                "largest_relative_error_corrected": left,
                "relative_ci95_half_of_the_measured": sure,
                "largest_over_smallest": unequal,
                "uniform_bound_holds_for_the_printed_form": within,
            },
            Lines(
                "Appendix A: E[u/π] per round",
                "availability π",
                "N × E[u/π] per round",
                tuple(
                    Curve(name, pi[:: max(1, self.clients // 10)], self.clients * y[:: max(1, self.clients // 10)])
                    for name, y in (("Lemma 2's rule", measured), ("as printed", printed), ("corrected", corrected))
                ),
            ),
        )
