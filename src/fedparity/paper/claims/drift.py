"""Graceful degradation under drift: appendix C's bound beside what happens, with an estimator that lags behind.

    eps_T = max_t,k |pi^ - pi|,   Delta_T = max_k total variation of pi_k on the window,   bound 4 eps_T / pi_min

The bound is for a rule that selects anybody, online or not. Selecting among those online is another rule: with eps_T =
Delta_T = 0 it is near 1/N for everybody (Lemma 2), not at the target (1/pi_k)/sum 1/pi_j, so no bound of that form
holds. And the bound says nothing once eps_T reaches pi_min/4. Appendix C does not treat correlated dropout at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.appendix_c import inverse_chances
from fedparity.paper.claims.claim import SEED, Z95, Claim, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.claims.simulate import coins


@dataclass(frozen=True, slots=True)
class Drift(Claim):
    """Rates that follow a sine, tracked by a sliding mean, for more and more swing."""

    id = "drift"
    where = "Section 2, after Lemma 2, and appendix C"
    statement = (
        "Parity degrades gracefully under non-stationary availability: participation is within O(ε_T + Δ_T) of target."
    )
    assumptions = "Lemma 2's rule: selection ∝ 1/π̂_k(t) among the available."
    corrected = "The bound (C₁ = 4/π_min) holds if offline clients can be selected, too."
    method = "Monte Carlo: 40 draws, N = 20, m = 1, sliding mean of 50 rounds, a window of 200, swing 0 to .8"
    expected = "needs-assumption"

    clients: int = 20
    low: float = 0.2
    high: float = 0.9
    swings: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    memory: int = 50
    """Rounds of the sliding mean."""
    window: int = 200
    period: int = 400
    draws: int = 40
    constant: float = 4.0

    def examine(self) -> Finding:
        """Errors and bounds for every swing; the stationary case exactly known."""
        errors, online_errors, bounds, eps, delta, sure = [], [], [], [], [], []
        for swing in self.swings:
            found = np.array([self._draw(swing, draw) for draw in range(self.draws)])
            lag, drift, least = float(found[:, 0].max()), float(found[0, 1]), float(found[0, 2])
            each = found[:, 3:].reshape(self.draws, 2, self.clients)
            sides = each.mean(axis=0)
            sure.append(Z95 * float(each.std(axis=0, ddof=1).max()) / np.sqrt(self.draws))
            errors.append(float(np.abs(sides[0]).max()))
            online_errors.append(float(np.abs(sides[1]).max()))
            eps.append(lag)
            delta.append(drift)
            bounds.append(self.constant * lag / least)
        still = self._among_online_error()
        return Finding(
            "holds" if still < 2e-3 else "needs-assumption",
            all(error <= bound for error, bound in zip(errors, bounds, strict=True)),
            "Nothing drifts and π is known (ε_T = Δ_T = 0): selection among those online is off its target by"
            f" {still:.3f}. Over everybody the error goes from {errors[0]:.3f} without swing to {errors[-1]:.3f} at"
            f" {self.swings[-1]:g}; the bound there is {bounds[-1]:.0f} (ε_T = {eps[-1]:.2f}), so it says nothing.",
            {
                "draws": self.draws,
                "swing": self.swings,
                "eps_T": eps,
                "delta_T": delta,
                "bound": bounds,
                "error_selecting_from_everybody": errors,
                "error_selecting_from_those_online": online_errors,
                "ci95_half_of_an_error_at_most": sure,
                "error_selecting_from_those_online_nothing_drifts": still,
            },
            Lines(
                "Drift: error of window-averaged selection",
                "swing of availability",
                "largest error",
                (Curve("from everybody", self.swings, errors), Curve("from those online", self.swings, online_errors)),
            ),
        )

    def _rates(self, swing: float) -> FloatArray:
        """Rounds x clients; the window is the last rounds, before it the estimator warms up."""
        t = np.arange(self.memory + self.window)[:, None]
        phase = np.linspace(0, 2 * np.pi, self.clients, endpoint=False)
        base = np.linspace(self.low, self.high, self.clients)
        return np.clip(base * (1 + swing * np.sin(2 * np.pi * t / self.period + phase)), 0.02, 1.0)

    def _draw(self, swing: float, draw: int) -> FloatArray:
        """eps_T, Delta_T, pi_min, and both errors of every client in one draw."""
        pi = self._rates(swing)
        online = stream(SEED, self.id, draw).random(pi.shape) < pi
        seen = np.cumsum(np.vstack([np.zeros(self.clients), online]), axis=0)
        estimate = (seen[self.memory : -1] - seen[: -self.memory - 1] + 1) / (self.memory + 2)
        true, there = pi[self.memory :], online[self.memory :]
        target = inverse_chances(true).mean(axis=0)
        lag = np.abs(estimate - true).max()
        drift = np.abs(np.diff(true, axis=0)).sum(axis=0).max()
        everybody = inverse_chances(estimate).mean(axis=0) - target
        return np.concatenate([[lag, drift, true.min()], everybody, self._rates_among(there / estimate) - target])

    def _among_online_error(self) -> float:
        """The error of selecting among those online with known, constant pi."""
        pi = np.linspace(self.low, self.high, self.clients)
        weight = coins(pi, 200 * self.draws, stream(SEED, self.id, -2)) / pi
        return float(np.abs(self._rates_among(weight) - inverse_chances(pi)).max())

    @staticmethod
    def _rates_among(weight: FloatArray) -> FloatArray:
        """How often each client is selected with chances proportional to weights, 0 for who is offline."""
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0).mean(axis=0))
