"""What kind of choice a method is, read off its parts: who is asked fairly, what remembers, or both."""

from __future__ import annotations

from collections.abc import Sequence

from fedparity.experiment.spec import MethodSpec, Parts
from fedparity.local import Plain
from fedparity.memory import NoMemory
from fedparity.schedulers import Parity, Uniform
from fedparity.schedulers.deficit import Deficit
from fedparity.schedulers.inner import Wrapper
from fedparity.schedulers.inverse import Inverse
from fedparity.schedulers.reactive import Reactive
from fedparity.schedulers.rollout import Rollout
from fedparity.schedulers.turns import LeastServed, OldestFirst, RoundRobin
from fedparity.schedulers.uniform import Population
from fedparity.weightings.fedavg import BySize, Mean, OverAll

TURNS = (Parity, Rollout, LeastServed, OldestFirst, RoundRobin, Deficit)
"""Schedulers that keep count, so that everybody gets a turn."""
KINDS = ("chance", "the paper's rule", "fair turns alone", "memory alone", "fair turns and memory", "other rules")


def by_kind(methods: Sequence[MethodSpec]) -> dict[str, list[str]]:
    """The names of methods by what kind of choice they are; kinds that nobody is are left out."""
    kinds = {m.name: _kind(m.parts) for m in methods}
    found = {kind: [name for name, of in kinds.items() if of == kind] for kind in KINDS}
    return {kind: names for kind, names in found.items() if names}


def _kind(parts: Parts) -> str:
    scheduler = parts.scheduler
    while isinstance(scheduler, Wrapper):
        scheduler = scheduler.policy
    remembers = not isinstance(parts.memory, NoMemory) or getattr(parts.server, "momentum", 0) > 0
    if isinstance(scheduler, TURNS):
        return "fair turns and memory" if remembers else "fair turns alone"
    if isinstance(scheduler, (Reactive, Inverse)):
        return "the paper's rule"
    if remembers:
        return "memory alone"
    plain = isinstance(parts.weighting, (Mean, BySize, OverAll)) and isinstance(parts.local, Plain)
    return "chance" if plain and isinstance(scheduler, (Uniform, Population)) else "other rules"
