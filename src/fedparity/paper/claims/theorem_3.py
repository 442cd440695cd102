"""Theorem 3: how far a step along a biased aggregate can end from one along the true aggregate.

    |f(w - g G~) - f(w - g G)| <= g |df| |D| + L g^2 |G| |D| + L g^2 / 2 |D|^2,    D = G~ - G

True if the *gradient* is L-Lipschitz. (A3) as printed bounds f from above only: f = -5x^2 satisfies it with L = 1, and
at w = 0, G = D = g = 1 the left side is 15, the right 1.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Lines


def gap_sides(hessian: FloatArray, w: FloatArray, G: FloatArray, bias: FloatArray, rate: float) -> FloatArray:
    """Both sides for f(x) = x' H x / 2 and L = 1."""

    def f(x: FloatArray) -> float:
        return float(x @ hessian @ x) / 2

    left = abs(f(w - rate * (G + bias)) - f(w - rate * G))
    d = float(np.linalg.norm(bias))
    right = rate * float(np.linalg.norm(hessian @ w)) * d + rate**2 * (float(np.linalg.norm(G)) * d + d * d / 2)
    return np.array([left, right])


@dataclass(frozen=True, slots=True)
class Theorem3(Claim):
    """The counterexample, then random quadratics whose gradient is L-Lipschitz."""

    id = "theorem-3"
    where = "Section 2 and appendix E, Theorem 3: descent gap"
    statement = "|f(w−γG̃) − f(w−γG)| ≤ γ‖∇f‖‖Δ‖ + Lγ²‖G‖‖Δ‖ + (Lγ²/2)‖Δ‖²."
    assumptions = "(A3) f(w') ≤ f(w) + ⟨∇f(w), w'−w⟩ + (L/2)‖w'−w‖², an upper bound only."
    corrected = "True if the gradient is L-Lipschitz, which (A3) does not imply."
    method = "A counterexample by hand; 5,000 random quadratics in 1 to 5 dimensions"
    expected = "needs-assumption"

    curvature: float = -10.0
    """Second derivative of the counterexample; (A3) holds with L = 1 for anything up to 1."""
    reach: float = 1.0
    """Largest size of an eigenvalue of the random quadratics, in units of L."""
    draws: int = 5_000

    def examine(self) -> Finding:
        """Both sides of both."""
        one = np.ones(1)
        left, right = gap_sides(np.array([[self.curvature]]), 0 * one, one, one, 1.0)
        rng = stream(SEED, self.id)
        ratios = np.sort([self._ratio(rng) for _ in range(self.draws)])
        return Finding(
            "holds" if left <= right else "needs-assumption",
            bool(ratios[-1] <= 1 + 1e-9),
            f"f = {self.curvature / 2:g}x², L = 1, w = 0, G = Δ = γ = 1: {left:g} > {right:g}. With an L-Lipschitz"
            f" gradient the left side is at most {ratios[-1]:.3f} of the right in {self.draws:,} cases."
            if left > right
            else f"{left:g} ≤ {right:g}: this curvature is within L.",
            {"left": left, "right": right, "draws": self.draws, "largest_ratio_lipschitz": ratios[-1]},
            Lines.of_ratios(
                "Theorem 3: left side over right side, Lipschitz gradients", {"cases, sorted": ratios}, bound=1
            ),
        )

    def _ratio(self, rng: np.random.Generator) -> float:
        dim = int(rng.integers(1, 6))
        basis, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
        hessian = basis @ np.diag(rng.uniform(-self.reach, self.reach, dim)) @ basis.T
        w, G, bias = rng.normal(size=(3, dim)) * rng.exponential(size=(3, 1))
        left, right = gap_sides(hessian, w, G, bias, float(rng.exponential()))
        return float(left / right)
