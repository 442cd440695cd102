"""How a client trains beyond plain SGD, and what it keeps from round to round; tasks read these, coordinators keep.

plain      nothing special                                     keeps nothing
prox       + mu/2 |w - w received|^2 in the local loss          (FedProx, Li et al., MLSys 2020)
ditto      also a personal v: v <- v - rate (grad F_k(v) + lam (v - w received)); keeps v
                                                               (Ditto, Li et al., ICML 2021)
received   trains from the last model the client received, not from this round's; keeps that
                                                               (FedAWE, Xiang et al., NeurIPS 2024)
difference sends its update minus its last one; keeps the last  (FedLaAvg, Yan et al.)
php_fl     a local and an auxiliary model, aligned both ways and ensembled; keeps the local one
                                                               (after PHP-FL, Wu et al., NeurIPS 2025)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Local
from fedparity.core.registry import Registry
from fedparity.core.types import ClientReport, Vector


@dataclass(frozen=True, slots=True)
class Plain:
    """Local training as the task does it."""

    keeps: ClassVar[bool] = False

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The model received."""
        return params

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Prox:
    """A pull of strength mu towards the model received (FedProx)."""

    mu: float = 0.01
    keeps: ClassVar[bool] = False
    reference: ClassVar[str] = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"

    def __post_init__(self) -> None:
        checks.not_negative("mu", self.mu)

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The model received."""
        return params

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Ditto:
    """A personal model beside the shared one, pulled towards it with strength lam; it moves only when its client does.

    The shared model is FedAvg's. A client that never took part is scored with the shared model.
    """

    lam: float = 1.0
    keeps: ClassVar[bool] = True
    reference: ClassVar[str] = "Li et al., Ditto: Fair and Robust Federated Learning, ICML 2021"

    def __post_init__(self) -> None:
        checks.not_negative("lam", self.lam)

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The model received: the personal one is trained beside it."""
        return params

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The personal model."""
        return report.own


@dataclass(frozen=True, slots=True)
class Received:
    """Training starts from the last model that the client received, before this round (FedAWE)."""

    keeps: ClassVar[bool] = True
    reference: ClassVar[str] = "Xiang et al., Efficient Federated Learning against Heterogeneous Client Unavailability"

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The last model received; at first, this one."""
        return params if own is None else own

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector:
        """The model that this round ended with: it is sent back to those that took part."""
        return result


@dataclass(frozen=True, slots=True)
class Difference:
    """The client sends how its update differs from its last one, so that the server needs one running sum only.

    A difference that is lost leaves the two memories apart for good: the last update is kept once it was used.
    """

    keeps: ClassVar[bool] = True
    reference: ClassVar[str] = "Yan et al., Federated Optimization under Intermittent Client Availability"

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The model received."""
        return params

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The update itself."""
        return report.own


@dataclass(frozen=True, slots=True)
class PhpFl:
    """An approximation of PHP-FL for one architecture; not verified against its official code.

    loss = CE((z_local + z_aux) / 2) + lam T^2 [KL(local || aux) + KL(aux || local)]; before training, the least
    important share min(1, base + grow r) of the local weights is replaced by the auxiliary's, where r counts the
    client's participations and importance is a moving average of how far each weight moved. Only auxiliaries are sent.
    """

    lam: float = 1.0
    temperature: float = 2.0
    smooth: float = 0.9
    base: float = 0.1
    grow: float = 0.02
    keeps: ClassVar[bool] = True
    reference: ClassVar[str] = "Wu et al., A Fair Federated Learning Method for ... Participation, NeurIPS 2025"

    def __post_init__(self) -> None:
        checks.not_negative("lam", self.lam)
        checks.positive("temperature", self.temperature)
        checks.between("smooth", self.smooth, 0, 1)
        checks.between("base", self.base, 0, 1)
        checks.not_negative("grow", self.grow)

    def start(self, own: Vector | None, params: Vector) -> Vector:
        """The model received is the auxiliary one."""
        return params

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The local model, the importance of its weights, and how often the client took part, one after the other."""
        return report.own

    def take_over(self, own: Vector | None, params: Vector) -> tuple[Vector, Vector, int]:
        """The local model as training begins, the importance of its weights, and the number of participations."""
        size = len(params)
        if own is None:
            return params.copy(), np.zeros_like(params), 0
        local, importance, times = own[:size].copy(), own[size : 2 * size], int(own[-1])
        count = int(min(1.0, self.base + self.grow * times) * size)
        least = np.argsort(importance, kind="stable")[:count]
        local[least] = params[least]
        return local, importance, times

    def remember(self, before: Vector, after: Vector, importance: Vector, times: int) -> Vector:
        """What to keep after training the local model from `before` to `after`."""
        moved = self.smooth * importance + (1 - self.smooth) * np.abs(after - before)
        return np.concatenate([after, moved, np.array([times + 1])]).astype(after.dtype)


LOCALS: Registry[Local] = Registry(
    "local rule",
    {
        "plain": Plain,
        "prox": Prox,
        "ditto": Ditto,
        "received": Received,
        "difference": Difference,
        "php_fl": PhpFl,
    },
    group="local",
)
