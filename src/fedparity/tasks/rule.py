"""Local rules for tasks whose training is a function of where it starts and of a pull towards a centre."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedparity.core.errors import ConfigError
from fedparity.core.types import ClientReport, Job, Vector
from fedparity.local.rules import Difference, Ditto, PhpFl, Prox

Descend = Callable[[Vector, float, Vector], Vector]
"""descend(w, pull, centre): train w in place, with pull/2 |w - centre|^2 added to the loss."""


def train_by_rule(job: Job, descend: Descend) -> tuple[Vector, Vector | None]:
    """The trained model, and what the client keeps if its rule keeps something that training makes."""
    rule = job.local
    if isinstance(rule, PhpFl):
        raise ConfigError("local rule 'php_fl' needs a classifier trained with PyTorch; use another task or rule")
    w = descend(job.start.copy(), rule.mu if isinstance(rule, Prox) else 0.0, job.params)
    if isinstance(rule, Ditto):
        personal = job.params if job.own is None else job.own
        return w, descend(personal.copy(), rule.lam, job.params)
    return w, None


def finish(job: Job, delta: Vector, own: Vector | None, **told: Any) -> ClientReport:
    """The report of a client that came so far: its update, or how that differs from its last one."""
    if isinstance(job.local, Difference):
        own = delta
        delta = delta if job.own is None else delta - job.own
    return ClientReport(job.client, delta, own=own, **told)
