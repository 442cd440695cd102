"""Power-of-Choice (Cho, Wang, Joshi 2020, arXiv 2010.01243; AISTATS 2022): of d candidates the m that lose most.

    candidates: d of the available, drawn one by one without replacement with chances proportional to p_k
    asked:      the m candidates with the largest loss

    variant = pow     loss of the model as it is on all of a client's data (every candidate evaluates it)
    variant = cpow    ... on `batch` random samples of it
    variant = rpow    the loss it last reported, of the model it then received; infinite before it took part

p_k is the share of all samples if clients have said what they hold, else uniform. d = m is nearly random, d = N greedy;
the paper has m = 3 and d = 6, 9, 15, hence the default of 3 m. A loss that is not known ranks last, so that nobody is
asked for keeping it secret. Ties are drawn by lot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Feedback, Scheduler
from fedparity.core.types import Cohort, FloatArray, Ids, ReportField, RoundView
from fedparity.schedulers.draws import lowest, shares, successive, unknown


@dataclass(frozen=True, slots=True)
class PowerOfChoice(Scheduler[FloatArray | None]):
    """Of a few candidates those that lose most (Power-of-Choice)."""

    variant: Literal["pow", "cpow", "rpow"] = "pow"
    """Loss that ranks: of the current model on all data (pow), on a batch (cpow), or the last known (rpow)."""
    d: int | None = None
    """Candidates per round, at least the cohort; more are greedier for high loss; none: three times the cohort."""
    batch: int = 64
    """cpow: samples that a candidate evaluates; more rank more precisely and cost more."""
    reference: ClassVar[str] = (
        "Cho et al., Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022"
    )

    def __post_init__(self) -> None:
        if self.d is not None:
            checks.at_least("d", self.d, 1)
        checks.at_least("batch", self.batch, 1)

    @property
    def requires(self) -> tuple[str, ...]:
        """What the view must hold."""
        return () if self.variant == "rpow" else ("losses",)

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """What clients report, whatever utility is credited by."""
        return ("loss_before",) if self.variant == "rpow" else ()

    def init(self, num_clients: int) -> FloatArray | None:
        """The loss that each client last reported, if one is asked for."""
        return np.full(num_clients, np.inf) if self.variant == "rpow" else None

    def learn(self, state: FloatArray | None, feedback: Feedback) -> FloatArray | None:
        """Keep what was reported."""
        if state is not None:
            for report in feedback.reports:
                state[report.client] = report.loss_before
        return state

    def select(
        self, state: FloatArray | None, view: RoundView, rng: np.random.Generator
    ) -> tuple[Cohort, FloatArray | None]:
        """Draw candidates, rank them by loss."""
        ids = view.available
        wanted = 3 * view.cohort if self.d is None else max(self.d, view.cohort)
        candidates = ids[successive(shares(view)[ids], wanted, rng)]
        loss = self._losses(view, candidates) if state is None else state[candidates]
        cohort = lowest(candidates, -np.where(np.isnan(loss), -np.inf, loss), view.cohort, rng)
        return cohort if len(candidates) == len(ids) else unknown(cohort.clients), state

    def _losses(self, view: RoundView, candidates: Ids) -> FloatArray:
        if view.losses is None:
            raise ConfigError(
                f"power_of_choice:variant={self.variant} asks for the losses of the model as it is, and there are none"
                " here; use variant=rpow, or give Coordinator.plan `losses`"
            )
        return view.losses(candidates, self.batch if self.variant == "cpow" else 0)
