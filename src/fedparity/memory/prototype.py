"""Class prototypes (Behfar and Mortier): a head-only step on what a missing client's data last looked like.

    grad = gradient of sum_c (n_c / n) CE(head(mean feature of label c), c) under the model as it is now
    complete: for each missing client a stale row, -rate grad in the head's entries and 0 elsewhere; its size is n

A client's report has the mean of each label's features before the last layer, and how many samples there are; for a
missing one the server takes a step of the last layer alone. Where that lies in the vector (after it may come running
means of batch norm, which are nobody's to step on) and its shape are what most prototypes of the first round say; those
for another place or of another shape are not kept. Weighting `decayed_mean:by=size` gives a row eta times count.
Memory: N C (F + 1) x 8 bytes; rows are zeros that take no memory until they are touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Memory
from fedparity.core.types import ClientReport, FloatArray, ReportField, Rows, Vector
from fedparity.memory.stale import Kept, with_stale


def head_gradient(
    weight: NDArray[np.float64], bias: NDArray[np.float64], features: NDArray[np.float64], counts: FloatArray
) -> NDArray[np.float64]:
    """Gradient of the mean cross-entropy of a linear head on prototypes: weights row by row, then biases."""
    logits = np.einsum("cf,kf->ck", features, weight) + bias
    error = np.exp(logits - logits.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error -= np.eye(len(counts))
    error *= (counts / max(float(counts.sum()), 1.0))[:, None]
    return np.concatenate([np.einsum("ck,cf->kf", error, features).ravel(), error.sum(axis=0)])


@dataclass(slots=True)
class Means(Kept):
    """Class means of every client seen, and where the last layer begins in the model; None: at its end."""

    head: int | None = None


@dataclass(frozen=True, slots=True)
class Prototype(Memory[Means]):
    """A step of the last layer on the class means that a missing client last sent."""

    rate: float = 0.1
    """Length of the step, as a learning rate."""
    max_age: int | None = 20
    """Oldest update used, in rounds; higher lets the absent take part for longer; none: any age."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("prototypes",)
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        if self.max_age is not None:
            checks.at_least("max_age", self.max_age, 0)

    def init(self, num_clients: int) -> Means:
        """Nobody sent prototypes."""
        return Means.empty(num_clients)

    def complete(self, state: Means, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, Means]:
        """A row for each client that sent prototypes and is missing."""
        clients = np.setdiff1d(np.array(sorted(state.kept), dtype=np.int64), rows.clients)
        ages = round - ledger.last_completed[clients].astype(np.int64)
        used = np.ones(len(clients), dtype=np.bool_) if self.max_age is None else ages <= self.max_age
        deltas = [self._step(params, state.kept[k], state.head) for k in clients[used].tolist()]
        return with_stale(rows, state, clients[used], deltas, ages[used]), state

    def _step(self, params: Vector, kept: Vector, head: int | None) -> Vector:
        labels, features = kept.shape[0], kept.shape[1] - 1
        size = labels * (features + 1)
        first = len(params) - size if head is None else head
        end = first + size
        if first < 0 or end > len(params):
            raise ConfigError(
                f"prototypes of {labels} x {features} numbers do not fit a model of {len(params)} from number {first}"
                " on; the task must say where its last layer begins"
            )
        layer = params[first:end].astype(np.float64)
        weight, bias = layer[: labels * features].reshape(labels, features), layer[labels * features :]
        old = kept.astype(np.float64, copy=False)
        row = np.zeros(len(params), params.dtype)
        row[first:end] = -self.rate * head_gradient(weight, bias, old[:, :-1], old[:, -1])
        return row

    def remember(self, state: Means, reports: Sequence[ClientReport]) -> Means:
        """Keep this round's prototypes in place of earlier ones."""
        sent = [(report, report.prototypes) for report in reports if report.prototypes is not None]
        places = Counter((means.head, means.features.shape) for _, means in sent)
        if state.kept:
            labels, columns = next(iter(state.kept.values())).shape
            place: tuple[int | None, tuple[int, ...]] = (state.head, (labels, columns - 1))
        elif sent:  # one client cannot say where the last layer lies: most of the first round do
            place = max(places, key=lambda found: (places[found], str(found)))
            state.head = place[0]
        for report, means in sent:
            if (means.head, means.features.shape) == place:
                state.kept[report.client] = np.column_stack([means.features, means.counts])
                state.sizes[report.client] = float(means.counts.sum())
                state.losses[report.client] = report.loss_before
        return state
