"""An audit: every measure of a log, what of it nobody could have avoided, and how it compares with chance.

Where nobody logged who was online, two ends bound the truth: everybody registered was always there (all inequality was
avoidable that slots allow), and clients were there only when they were asked (nothing was). What stands at the top
level of a result is the first end, which blames most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedparity.audit.chance import Chance, compare_with_chance, named
from fedparity.audit.groups import FOUR_FIFTHS, MIN_GROUP, UNKNOWN, Groups, group_table
from fedparity.audit.left_out import Client, clients_listed, counterfactual
from fedparity.audit.log import Log
from fedparity.audit.over_time import ChangePoint, Waits, Window, change_points, waits, windows
from fedparity.core.trace import Trace
from fedparity.core.types import NO_IDS, Ids
from fedparity.metrics import Outcome, frontier, numbers, span_gap
from fedparity.metrics.measures import RUN

ENDS: Final = ("always_there", "only_when_asked")
ALWAYS = "everybody registered was there in every round"
ONLY = "clients were there only in the rounds in which they were asked"
MOST_ONLINE = 200_000_000
"""Clients times rounds above which the end at which all are always there is not compared with chance."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found in a log; parts are computed when they are asked for, once."""

    log: Log
    given: Outcome | None = None
    """The outcome as a stored run gives it, so that its numbers are those of its report."""
    seed: int = 0
    min_group: int = MIN_GROUP
    """Groups with fewer clients are not shown."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """How it was asked for: enough to do it again."""
    erased: int = 0
    """Clients that were erased from a stored run: measures count them as never online, sentences do not."""

    @property
    def online_known(self) -> bool:
        """Whether the log says who was there."""
        return self.log.online is not None

    @cached_property
    def outcome(self) -> Outcome:
        """What measures see; without knowledge of who was there, the end that blames most."""
        log = self.log
        if self.given is not None:
            return self.given
        if log.online is None:
            return self.ends[ENDS[0]]
        best = frontier(log.online, log.slots)
        return self._outcome(best.at_total(min(self.total, best.total)).counts, best.total)

    @cached_property
    def ends(self) -> dict[str, Outcome]:
        """Both ends, where nobody knows who was there; else nothing."""
        log = self.log
        if log.online is not None:
            return {}
        n, t = log.num_clients, log.num_rounds
        even = np.full(n, self.total // n, np.int64)
        even[: self.total % n] += 1  # with everybody there all the time, slots can be shared to within one
        always = self._outcome(even, min(log.slots, n) * t, np.full(n, t, np.int32))
        return dict(zip(ENDS, (always, self._outcome(log.ledger.selected, self.total)), strict=True))

    @property
    def total(self) -> int:
        """Slots that were used."""
        return int(self.log.ledger.selected.sum())

    def _outcome(self, limit: NDArray[Any], most: int, online: NDArray[np.int32] | None = None) -> Outcome:
        log = self.log
        ledger = log.ledger if online is None else replace(log.ledger, online=online)
        more = {"accuracy": log.accuracy} if len(log.accuracy) else {}
        return Outcome.of(
            ledger,
            log.cohort,
            limit=limit,
            fill_limit=most / (log.cohort * log.num_rounds),
            influence=log.influence,
            span_gap=span_gap(list(log.asked), log.num_clients, log.cohort),
            **more,
        )

    @cached_property
    def measures(self) -> dict[str, float]:
        """Every measure with its parts, by name; NaN where it is not known."""
        return self.measures_of(self.outcome)

    def measures_of(self, outcome: Outcome) -> dict[str, float]:
        """The same of one end."""
        found = numbers(outcome, RUN)
        hidden = [] if "completed" in self.log.known else [k for k in found if k.startswith("completed_")]
        if "utility" not in self.log.known:
            hidden += [measure.name for measure in RUN if measure.scope == "utility"]
        if self.given is None:  # surrogates are ours: other systems log none
            hidden += [name for name in found if name.endswith("_with_surrogates")]
            hidden += [measure.name for measure in RUN if measure.normaliser == "imputed"]
        return {name: float("nan") if name in hidden else value for name, value in found.items()}

    @cached_property
    def presence(self) -> Trace | None:
        """Who was there as tests see it: as logged, or everybody always; None if that would be too much to hold."""
        log = self.log
        if log.online is not None:
            return log.online
        n, t = log.num_clients, log.num_rounds
        if n * t > MOST_ONLINE:
            return None
        return Trace(n, np.arange(t + 1, dtype=np.int64) * n, np.tile(np.arange(n, dtype=np.int32), t))

    @cached_property
    def chance(self) -> Chance | None:
        """The log beside logs drawn by chance; None where that is too much to compute."""
        if self.presence is None:
            return None
        return compare_with_chance(self.presence, self.log.asked, self.log.key, self.seed)

    @cached_property
    def groups(self) -> Groups | None:
        """What each group got; None: the log knows no groups."""
        log = self.log
        if log.groups is None:
            return None
        return group_table(log.groups, self.outcome.ledger, self.presence, log.asked, self.min_group)

    @cached_property
    def windows(self) -> list[Window]:
        """The log window by window."""
        return windows(self.log.online, self.log.asked, self.log.slots, self.log.first)

    @cached_property
    def changes(self) -> list[ChangePoint]:
        """Where groups, or those who got more than chance would have given them, began to be treated otherwise."""
        log, chance = self.log, self.chance
        if chance is None or self.presence is None:
            return []
        sets = {"clients asked more than by chance": log.ledger.selected > chance.expected}
        for group in self.groups.shown if self.groups is not None and log.groups is not None else ():
            name = None if group.name == UNKNOWN else group.name
            sets[f"group {group.name}"] = np.array([g == name for g in log.groups or ()], np.bool_)
        return change_points(self.presence, log.asked, sets, log.first)

    @cached_property
    def waits(self) -> Waits | None:
        """How long clients were there without being asked."""
        return None if self.presence is None else waits(self.presence, self.log.asked)

    @cached_property
    def left_out(self) -> Ids:
        """Clients asked less often than chance explains, and less than four fifths of what they got at the limit.

        A scheduler that evens out asks those who are always there less often than chance would: that leaves nobody out.
        """
        if self.chance is None or self.presence is None:
            return NO_IDS
        who = named(self.presence, self.log.asked, self.chance, fewer=True)
        return who[self.outcome.counts[who] < FOUR_FIFTHS * self._at_limit[who]]

    @cached_property
    def favoured(self) -> Ids:
        """Clients asked more often than chance explains, of which the limit would have got less than four fifths."""
        if self.chance is None or self.presence is None:
            return NO_IDS
        who = named(self.presence, self.log.asked, self.chance, fewer=False)
        return who[self._at_limit[who] < FOUR_FIFTHS * self.outcome.counts[who]]

    @property
    def _at_limit(self) -> NDArray[Any]:
        return self.outcome.counts if self.outcome.limit is None else self.outcome.limit

    @cached_property
    def parity(self) -> Outcome | None:
        """What `parity` would have made of the same availability."""
        return counterfactual(self.log)

    def listed(self, who: Ids, *, fewer: bool) -> list[Client]:
        """Some clients with their story."""
        if self.presence is None or self.chance is None or self.waits is None or self.outcome.limit is None:
            return []
        return clients_listed(
            self.log,
            self.presence,
            self.chance,
            who,
            waited=self.waits,
            limit=self.outcome.limit,
            other=self.parity,
            fewer=fewer,
        )

    @cached_property
    def funnel(self) -> list[Step]:
        """From registered to used: clients at each step, and rounds of clients."""
        log, ledger = self.log, self.log.ledger
        n, t = log.num_clients - self.erased, log.num_rounds
        steps = [("registered", n, n * t)]
        if log.online is not None:
            steps.append(("online", int((ledger.online > 0).sum()), int(ledger.online.sum())))
        steps.append(("asked", int((ledger.selected > 0).sum()), self.total))
        if "failed" in log.known:
            back = ledger.selected - ledger.failed
            steps.append(("returned", int((back > 0).sum()), int(back.sum())))
        if "completed" in log.known:
            steps.append(("used", int((ledger.completed > 0).sum()), int(ledger.completed.sum())))
        before = [None, *(count for _, _, count in steps[:-1])]
        return [Step(*step, *_wilson(step[2], total)) for step, total in zip(steps, before, strict=True)]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the funnel, as a share of the one before, with its interval (Wilson, 95 %)."""

    name: str
    clients: int
    client_rounds: int
    rate: float | None
    low: float | None
    high: float | None


def _wilson(count: int, total: int | None) -> tuple[float | None, float | None, float | None]:
    if not total:
        return None, None, None
    z = 1.959963984540054
    rate = min(1.0, count / total)
    middle, scale = rate + z * z / (2 * total), 1 + z * z / total
    half = z * float(np.sqrt(rate * (1 - rate) / total + (z / (2 * total)) ** 2))
    return rate, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
