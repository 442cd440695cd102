"""Appendix E, the proof of Theorem 3: the bias bound and the descent inequality hold, one step of the rest does not.

|D_t| <= eps eta0 sum exp(-lam delta_k)                     holds
f(w - g G~) <= f(w) - g c |df| |G~| + L g^2/2 |G~|^2        holds under (A3) and the angle condition
|df(w_true)| <= |df(w)| + L g |G|                           "implied by L-smoothness": not by (A3) as printed
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Lines


@dataclass(frozen=True, slots=True)
class AppendixE(Claim):
    """All three inequalities on random cases and on f = -5x^2."""

    id = "appendix-e"
    where = "Appendix E, proof of Theorem 3, steps 1 to 3"
    statement = "Bias ≤ ε·η0·Σe^(−λδ); one-step descent; ‖∇f(w_true)‖ ≤ ‖∇f(w)‖ + Lγ‖G‖ by (A3)."
    assumptions = "(A1) surrogates within ε, (A2) weights η0·e^(−λδ), (A3), (A4), the angle condition."
    corrected = "Step 3 needs an L-Lipschitz gradient; steps 1 and 2 hold as printed."
    method = "5,000 random cases for each inequality, f = x'Hx/2 with eigenvalues from −10 to L = 1"
    expected = "needs-assumption"

    curvature: float = -10.0
    """Least eigenvalue of the quadratics; (A3) allows any, an L-Lipschitz gradient none below -L."""
    lipschitz: float = 1.0
    """Size of eigenvalues in the check of the corrected step."""
    lam: float = 0.5
    decay_in_bound: float | None = None
    """The decay that the bound of step 1 uses; None: that of the weights."""
    draws: int = 5_000

    def examine(self) -> Finding:
        """The worst ratio of left to right of every inequality."""
        rng = stream(SEED, self.id)
        decay = self.lam if self.decay_in_bound is None else self.decay_in_bound
        bias, descent, step, mended = (np.empty(self.draws) for _ in range(4))
        for i in range(self.draws):
            dim = int(rng.integers(1, 5))
            ages = rng.integers(1, 8, int(rng.integers(1, 10)))
            error = rng.normal(size=(len(ages), dim))
            error /= np.maximum(1.0, np.linalg.norm(error, axis=1, keepdims=True))
            bias[i] = np.linalg.norm(np.exp(-self.lam * ages) @ error) / np.exp(-decay * ages).sum()
            w, G = rng.normal(size=(2, dim))
            rate = float(rng.exponential())
            H = np.diag(rng.uniform(self.curvature, 1.0, dim))
            small = np.diag(rng.uniform(-self.lipschitz, self.lipschitz, dim))
            slope = H @ w
            before, after = w @ H @ w / 2, (w - rate * G) @ H @ (w - rate * G) / 2
            descent[i] = after - (before - rate * slope @ G + rate**2 / 2 * G @ G)
            for kept, matrix in ((step, H), (mended, small)):
                bound = np.linalg.norm(matrix @ w) + rate * np.linalg.norm(G)
                kept[i] = np.linalg.norm(matrix @ (w - rate * G)) / bound
        fine = bool(bias.max() <= 1 + 1e-9 and descent.max() <= 1e-9)
        return Finding(
            "fails" if not fine else "holds" if step.max() <= 1 + 1e-9 else "needs-assumption",
            bool(fine and mended.max() <= 1 + 1e-9),
            f"Step 1: left over right at most {bias.max():.3f}. Step 2: violated in {(descent > 1e-9).sum()} cases."
            f" Step 3: left over right up to {step.max():.1f} under (A3), at most {mended.max():.3f} with an"
            " L-Lipschitz gradient.",
            {
                "draws": self.draws,
                "bias_largest_ratio": bias.max(),
                "descent_violated": int((descent > 1e-9).sum()),
                "step_3_largest_ratio": step.max(),
                "step_3_largest_ratio_lipschitz": mended.max(),
            },
            Lines.of_ratios(
                "Appendix E, step 3: left side over right side", {"(A3) as printed": step, "Lipschitz gradient": mended}
            ),
        )
