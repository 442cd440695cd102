"""A scheduler of your own: a frozen dataclass with `init` and `select`, compared with parity on one population.

Every round online earns a client a ticket. Those with most tickets are asked, and hand theirs in. That is fair per
opportunity, not in counts: a client that is rarely there is rarely asked. tests/test_examples.py holds it to the laws
that all schedulers keep. Three ways to a name, none of which needs a change of the library:

    SCHEDULERS.register("tickets", Tickets)                     in a script, as below
    scheduler = "own_scheduler:Tickets:per_round=2"             in a spec beside this file, or after --scheduler
    [project.entry-points."fedparity.schedulers"]               in the pyproject.toml of a package of yours
    tickets = "your_package.own_scheduler:Tickets"
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity import SCHEDULERS, Cohort, RoundView, Scheduler, Setting, schedule


@dataclass(frozen=True)
class Tickets(Scheduler[NDArray[np.float64]]):
    """The most tickets first, ties by lot."""

    per_round: float = 1.0

    def init(self, num_clients: int) -> NDArray[np.float64]:
        """Nobody has a ticket."""
        return np.zeros(num_clients)

    def select(
        self, state: NDArray[np.float64], view: RoundView, rng: np.random.Generator
    ) -> tuple[Cohort, NDArray[np.float64]]:
        """At most `view.cohort` of the available: all memory is in the state, all chance comes from `rng`."""
        state[view.available] += self.per_round
        lots = rng.random(len(view.available))
        ranking = view.available[np.lexsort((lots, -state[view.available]))]
        asked = np.sort(ranking[: view.cohort])
        state[asked] = 0
        return Cohort(asked, np.ones(len(asked)), "unknown"), state  # we do not work out inclusion probabilities


def main() -> None:
    """Three schedulers on the same draws of the same population."""
    SCHEDULERS.register("tickets", Tickets)
    where = Setting("paper_like", clients=100, rounds=200, cohort=5, draws=3)
    print(f"{'scheduler':10}  {'gap':>5} (limit)  {'Gini':>5} (limit)  {'CV per round online':>19}")
    for name in ("uniform", "tickets", "parity"):
        m = schedule(name, where).means()
        gap, gini = (f"{m[key]:5.3f}  ({m[key + '_limit']:.3f})" for key in ("selection_gap", "gini"))
        print(f"{name:10}  {gap}  {gini}  {m['cv_per_opportunity']:19.3f}")


if __name__ == "__main__":
    main()
