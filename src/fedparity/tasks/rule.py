"""Local rules for tasks whose training is a function of where it starts and of a pull towards a centre."""

from __future__ import annotations

from collections.abc import Callable

from fedparity.core.errors import ConfigError
from fedparity.core.types import Job, Vector

Descend = Callable[[Vector, float, Vector], Vector]
"""descend(w, pull, centre): train w in place, with pull/2 |w - centre|^2 added to the loss."""


def train_by_rule(job: Job, descend: Descend) -> tuple[Vector, list[tuple[Vector, Vector]]]:
    """The model that the update is made of, and where each further descent started and ended."""
    if job.joint is not None:
        raise ConfigError(
            f"local rule {type(job.local).__name__} trains several models by one loss, which needs a classifier"
            " trained with PyTorch; use another task or rule"
        )
    ends = [
        (start, descend(start.copy(), pull, job.params if centre is None else centre))
        for start, pull, centre in job.descents()
    ]
    return ends[0][1], ends[1:]


def check_size(params: Vector, size: int) -> None:
    """Refuse a model that is not the task's."""
    if len(params) != size:
        raise ConfigError(f"params has {len(params)} entries but the model has {size}; start from task.init")
