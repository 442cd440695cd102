"""Label coverage around any scheduler: no label that somebody available holds is left out if it can be helped.

Start with the inner scheduler's cohort. As long as it helps, take in the client that holds most of the labels nobody in
the cohort holds, into a free slot or for the member whose going loses fewest; ties by lot. This is greedy: the authors'
first code (Behfar and Mortier) fills its cohort with label coverage in this way, and the best cover is a hard problem.
Whoever was swapped in or out had another chance than the inner scheduler says, so with two labels or more the inclusion
probabilities are unknown, unless nothing was random and nothing was swapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Feedback
from fedparity.core.types import BoolArray, Cohort, RoundView
from fedparity.schedulers.draws import unknown
from fedparity.schedulers.inner import Wrapper


@dataclass(frozen=True, slots=True)
class WithLabelCoverage(Wrapper):
    """Any scheduler, with clients swapped in for labels that its cohort does not hold."""

    @property
    def requires(self) -> tuple[str, ...]:
        """What a view must hold."""
        return ("labels", *(need for need in self.policy.requires if need != "labels"))

    def init(self, num_clients: int) -> Any:
        """The inner scheduler's memory."""
        return self.policy.init(num_clients)

    def select(self, state: Any, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Any]:
        """The inner scheduler's choice, then swaps."""
        if view.labels is None:
            raise ConfigError(
                "with_label_coverage covers the labels that clients hold, which are not known here;"
                " give Coordinator `labels`, or use the inner scheduler alone"
            )
        cohort, state = self.policy.select(state, view, rng)
        ids, asked = view.available, np.isin(view.available, cohort.clients, assume_unique=True)
        holds = view.labels[ids] > 0
        there = holds.any(0)
        if np.count_nonzero(there) <= 1 or len(cohort.clients) == len(ids):
            return cohort, state
        kept = covering(holds[:, there], asked, view.cohort - cohort.wasted, rng)
        if np.array_equal(kept, asked) and cohort.design == "deterministic":
            return cohort, state
        found = unknown(ids[kept])
        return Cohort(found.clients, found.probs, found.design, cohort.wasted), state

    def learn(self, state: Any, feedback: Feedback) -> Any:
        """As the inner scheduler does."""
        return self.taught(state, feedback)


def covering(holds: BoolArray, asked: BoolArray, slots: int, rng: np.random.Generator) -> BoolArray:
    """`asked` after swaps, given which labels each client `holds`."""
    asked = asked.copy()
    lots = rng.random(len(asked))  # below 1: they only part equals
    while True:
        covers = holds[asked].sum(0)
        gain = np.where(asked, 0, (holds & (covers == 0)).sum(1))
        if not gain.any():
            return asked
        best = int(np.argmax(gain + lots / 2))
        if np.count_nonzero(asked) < slots:
            asked[best] = True
            continue
        alone = holds & (covers + holds[best] == 1)
        loss = np.where(asked, alone.sum(1), len(covers) + 1)
        worst = int(np.argmin(loss + lots / 2))
        if loss[worst] >= gain[best]:
            return asked
        asked[best], asked[worst] = True, False
