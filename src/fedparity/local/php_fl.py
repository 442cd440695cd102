"""An approximation of PHP-FL (Wu et al., NeurIPS 2025) for one architecture; not verified against its official code.

    loss = CE((z_local + z_aux) / 2) + lam T^2 [KL(local || aux) + KL(aux || local)],    softened by T

In each KL one model teaches the other and is not moved by it (stop-gradient on the teacher), as in the one public
adapter. Both models learn from one loss, so a task must be able to train several models together (those with PyTorch
can). The auxiliary one is the client's update, the local one stays with the client. Before training, the least
important share min(1, base + grow r) of the local weights is replaced by the auxiliary's, where r counts the client's
participations and importance is a moving average of how far each weight moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Descent, JointLoss, Vector

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class PhpFl(Local):
    """A local and an auxiliary model, aligned both ways and ensembled (an approximation of PHP-FL)."""

    lam: float = 1.0
    """Weight of distillation between the local and the auxiliary model; higher makes them more alike."""
    temperature: float = 2.0
    """Softness T of the distilled predictions; higher looks more at classes that are unlikely."""
    smooth: float = 0.9
    """Weight of past rounds in a weight's importance; closer to 1 forgets more slowly."""
    base: float = 0.1
    """Share of local weights replaced at a client's first participation; higher takes over more."""
    grow: float = 0.02
    """Growth of that share per participation; higher takes over more from clients seen often."""
    reference: ClassVar[str] = "Wu et al., A Fair Federated Learning Method for ... Participation, NeurIPS 2025"

    def __post_init__(self) -> None:
        checks.not_negative("lam", self.lam)
        checks.positive("temperature", self.temperature)
        checks.between("smooth", self.smooth, 0, 1)
        checks.between("base", self.base, 0, 1)
        checks.not_negative("grow", self.grow)

    @property
    def joint(self) -> JointLoss:
        """The ensemble's loss and how far the two models are apart, both ways."""
        return self._loss

    def _loss(self, logits: Sequence[Tensor], y: Tensor) -> Tensor:
        from torch.nn.functional import cross_entropy, kl_div, log_softmax

        z_aux, z_local = logits
        ensemble = cross_entropy((z_local + z_aux) / 2, y)
        a = log_softmax(z_local / self.temperature, dim=1)
        b = log_softmax(z_aux / self.temperature, dim=1)
        apart = kl_div(b, a.detach(), reduction="batchmean", log_target=True)
        apart = apart + kl_div(a, b.detach(), reduction="batchmean", log_target=True)
        return ensemble + self.lam * self.temperature**2 * apart

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """The auxiliary model, which is the one received, and the local one."""
        return Descent(params), Descent(self.take_over(kept, params))

    def take_over(self, kept: Vector | None, params: Vector) -> Vector:
        """The local model as training begins: its least important weights are those received."""
        if kept is None:
            return params.copy()
        size, times = len(params), int(kept[-1])
        local, importance = kept[:size].copy(), kept[size : 2 * size]
        count = int(min(1.0, self.base + self.grow * times) * size)
        least = np.argsort(importance, kind="stable")[:count]
        local[least] = params[least]
        return local

    def outcome(
        self, kept: Vector | None, delta: Vector, beside: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector | None]:
        """The auxiliary's update; the local model, its weights' importance and the number of participations stay."""
        ((before, after),) = beside
        size = len(after)
        importance, times = (np.zeros_like(after), 0) if kept is None else (kept[size : 2 * size], int(kept[-1]))
        moved = self.smooth * importance + (1 - self.smooth) * np.abs(after - before)
        return delta, np.concatenate([after, moved, np.array([times + 1])]).astype(after.dtype)

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The local model, the importance of its weights, and how often the client took part, one after the other."""
        return report.kept

    def keeps(self, size: int) -> int:
        """A model, as many importances, and one count."""
        return 2 * size + 1
