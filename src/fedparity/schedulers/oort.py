"""Oort (Lai, Zhu, Madhyastha, Chowdhury, OSDI 2021): clients that lose much and answer fast, and some not yet known.

    U_k = |B_k| sqrt(mean over samples of loss^2)                                    from the last report
    score_k = (min(U_k, clip) + sqrt(.1 ln R / L_k)) (T / t_k)^(penalty 1[t_k > T])   R: round, L_k: the last with k

A share 1 - epsilon of the slots is drawn in proportion to score from those whose score is at least `cutoff` times that
of the last one that would get a slot; the others go to clients not yet explored. epsilon falls from `exploration` by
`decay` per round to `least`. Clients asked more than `blacklist` times are out. T is a percentile of known durations,
`threshold` at first, which the pacer raises by `delta` every `window` rounds: when utility falls (pacer=falling, the
paper) or is flat (pacer=flat, the code, which also lowers it when utility jumps).

`oort` has the paper's numbers, `oort_code` those of the released code, which also scales utility to [0, 1] and explores
by size among the largest. The paper's pacer counts seconds without a published step, so both use percentiles. What we
changed: an unexplored client's speed is not known, so "by speed" is by lot; no more than `blacklist_share` of all
clients are out, and they are asked if nobody else is there; slots that nobody is left to explore are exploited; a
client whose loss is not reported stays unexplored. The paper's fairness knob was never released and is left out.
The speed half acts on simulated durations alone (`population.speed`): a duration is journalled, and measured ones would
make no two runs alike, so clients of a deployment report none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Feedback, Scheduler
from fedparity.core.types import BoolArray, Cohort, FloatArray, Ids, ReportField, RoundView
from fedparity.schedulers.draws import everybody, shares, successive, unknown
from fedparity.schedulers.oort_parts import (
    Pacer,
    clipped,
    paced,
    preferred_duration,
    slowness,
    statistical_utility,
    uncertainty,
)


@dataclass(slots=True)
class Memory:
    """What reports said of each client (NaN: nothing yet), epsilon, T's percentile and the utility of past rounds."""

    utility: FloatArray = field(metadata=PER_CLIENT)
    duration: FloatArray = field(metadata=PER_CLIENT)
    exploration: float
    threshold: float
    history: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Oort(Scheduler[Memory]):
    """High loss and high speed first, with a share of slots to explore (Oort)."""

    exploration: float = 0.9
    """Share of slots for clients not yet known, at first; higher gets to know more of them early."""
    decay: float = 0.98
    """Factor on that share per round; closer to 1 explores for longer."""
    least: float = 0.2
    """Share of slots at which exploration stops falling; higher goes on exploring more."""
    cutoff: float = 0.95
    """Score needed for the draw, relative to that of the last slot; lower lets more clients in."""
    clip: float = 0.95
    """Quantile at which utilities are cut off; lower limits clients of extreme loss more."""
    penalty: float = 2.0
    """Power of T / duration for clients slower than T; higher avoids slow ones more, 0 ignores speed."""
    blacklist: int | None = 10
    """Selections after which a client is left out; higher leaves out later; none: never."""
    blacklist_share: float = 0.3
    """Largest share of all clients that may be left out so; higher allows more."""
    pacer: Pacer = "falling"
    """When T rises: as utility falls (the paper), or while it is flat (the released code)."""
    window: int = 20
    """Rounds in each of the two spans that the pacer compares; more make T move more rarely."""
    threshold: float = 10.0
    """Percentile of known durations at which T starts; higher accepts slower clients."""
    delta: float = 5.0
    """Percentile points by which the pacer moves T; higher accepts slow clients sooner."""
    normalise: bool = False
    """Whether utilities are scaled to [0, 1] before uncertainty is added, as in the released code."""
    explore: Literal["lot", "size"] = "lot"
    """Which unknown clients are tried: any by lot, or by lot with chances that grow with their size."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_rms",)
    reference: ClassVar[str] = (
        "Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021"
    )

    def __post_init__(self) -> None:
        for name in ("exploration", "decay", "least", "cutoff", "clip", "blacklist_share"):
            checks.between(name, getattr(self, name), 0, 1)
        for name in ("threshold", "delta"):
            checks.between(name, getattr(self, name), 0, 100)
        checks.not_negative("penalty", self.penalty)
        checks.at_least("window", self.window, 1)
        if self.blacklist is not None:
            checks.at_least("blacklist", self.blacklist, 1)

    def init(self, num_clients: int) -> Memory:
        """Nobody is explored."""
        unseen = np.full(num_clients, np.nan)
        return Memory(unseen, unseen.copy(), self.exploration, self.threshold)

    def select(self, state: Memory, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Memory]:
        """Exploit, explore, fill up; epsilon falls."""
        epsilon, ids, count = state.exploration, view.available, view.cohort
        # It falls in every round, also where everybody can be asked, but never rises to `least` from below.
        state.exploration = max(epsilon * self.decay, min(epsilon, self.least))
        if count >= len(ids):
            return everybody(ids), state
        out, explored = self._blacklisted(view), ~np.isnan(state.utility[ids])
        old, new, spare = ids[explored & ~out], ids[~explored & ~out], ids[out]
        # Slots that no unknown client is left for are exploited; those that neither can fill go to the blacklisted.
        exploited = self._exploit(state, view, old, max(round(count * (1 - epsilon)), count - len(new)), rng)
        fresh = self._explore(view, new, count - len(exploited), rng)
        rest = spare[successive(np.ones(len(spare)), count - len(exploited) - len(fresh), rng)]
        return unknown(np.concatenate([exploited, fresh, rest])), state

    def _blacklisted(self, view: RoundView) -> BoolArray:
        """Which of the available were asked too often: of all clients no more than a share, the most asked."""
        times = view.ledger.selected
        over = np.flatnonzero(times > (math.inf if self.blacklist is None else self.blacklist))
        most = int(self.blacklist_share * len(times))
        worst = over[np.argsort(-times[over], kind="stable")[:most]]
        return np.isin(view.available, worst, assume_unique=True)

    def _exploit(self, state: Memory, view: RoundView, old: Ids, count: int, rng: np.random.Generator) -> Ids:
        count = min(count, len(old))
        if count <= 0:
            return old[:0]
        score = self.scores(state, view, old)
        # Not simply the best: chance among all that come close keeps a few from being asked in every round.
        last = float(np.partition(score, len(score) - count)[len(score) - count])
        pool = score >= self.cutoff * last
        chosen = successive(score[pool], count, rng)
        return np.asarray(old[pool][chosen])

    def scores(self, state: Memory, view: RoundView, clients: Ids) -> FloatArray:
        """What each explored client promises."""
        utility = clipped(state.utility[clients], self.clip, normalise=self.normalise)
        last = view.ledger.last_completed[clients].astype(np.float64) + 1
        preferred = preferred_duration(state.duration, state.threshold)
        return (utility + uncertainty(view.round + 1, last)) * slowness(
            state.duration[clients], preferred, self.penalty
        )

    def _explore(self, view: RoundView, new: Ids, count: int, rng: np.random.Generator) -> Ids:
        if self.explore == "lot":
            return new[successive(np.ones(len(new)), count, rng)]
        sizes = shares(view)[new]
        largest = np.argsort(-sizes, kind="stable")[: 5 * count]  # the code's window; equal sizes by number, as there
        return new[largest[successive(sizes[largest], count, rng)]]

    def learn(self, state: Memory, feedback: Feedback) -> Memory:
        """Keep utilities and durations; the pacer looks at the utility of those that had been explored before."""
        again = []
        for report in feedback.reports:
            utility = statistical_utility(report.num_samples, report.loss_rms)
            if math.isfinite(utility):
                # A first report tells one client from others; only those that follow tell how training goes.
                again += [] if math.isnan(state.utility[report.client]) else [utility]
                state.utility[report.client] = utility
            if math.isfinite(report.duration) and report.duration > 0:
                state.duration[report.client] = report.duration
        if again:
            state.history = (*state.history, sum(again) / len(again))
        # Two whole windows are compared; the later one stays to be compared with the next.
        if len(state.history) >= 2 * self.window:
            earlier, later = state.history[: self.window], state.history[self.window :]
            state.threshold = paced(self.pacer, state.threshold, self.delta, earlier, later)
            state.history = later
        return state
