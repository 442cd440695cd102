"""Groups of clients: what each got, per client and per round online, beside chance and beside the best-served group.

The impact ratio is a group's requests per client over those of the group that got most; below four fifths it is flagged
(the rule of thumb of US employment audits). Groups smaller than a minimum are not shown: of few clients a rate says
little, and much about each. Intervals are Student's over the clients of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedparity.audit.chance import Null, group_test
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray
from fedparity.metrics import holm
from fedparity.metrics.paired import t_interval

UNKNOWN = "(no group given)"
FOUR_FIFTHS = 0.8
MIN_GROUP = 10


@dataclass(frozen=True, slots=True)
class Group:
    """One group; numbers that are not known are None."""

    name: str
    clients: int
    never_asked: int
    online: int
    """Rounds online of all its clients together."""
    asked: int
    used: int
    per_client: float
    """Requests per client, with its interval."""
    low: float
    high: float
    per_online: float | None
    """Requests per round online."""
    impact_ratio: float | None
    """Per client, over the group that got most."""
    opportunity_ratio: float | None
    """The same per round online."""
    share_ratio: float | None
    """Per client, over the mean of all clients."""
    expected: float | None
    """Requests that chance would have given it."""
    p: float | None
    """Two-sided, after Holm's correction over the groups that are shown."""

    @property
    def flagged(self) -> bool:
        """Whether it got less than four fifths of what the best-served group got."""
        return self.impact_ratio is not None and self.impact_ratio < FOUR_FIFTHS


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups that may be shown, the least served first, and how many may not."""

    shown: tuple[Group, ...]
    hidden: int
    hidden_clients: int

    @property
    def lowest(self) -> float | None:
        """The lowest impact ratio."""
        return min((g.impact_ratio for g in self.shown if g.impact_ratio is not None), default=None)


def group_table(
    of: Sequence[str | None], ledger: Ledger, presence: Trace | None, asked: Trace, min_group: int = MIN_GROUP
) -> Groups:
    """Every group that is large enough."""
    labels = np.array([UNKNOWN if name is None else name for name in of], dtype=object)
    names, code, sizes = np.unique(labels.astype(str), return_inverse=True, return_counts=True)
    small = sizes < min_group
    shown = np.flatnonzero(~small).tolist()
    members: list[BoolArray] = [code == i for i in shown]
    null = None if presence is None else Null(presence, asked.sizes())
    tests = [(None, None) if null is None else group_test(null, m, int(ledger.selected[m].sum())) for m in members]
    corrected = holm({str(i): p for i, (_, p) in enumerate(tests) if p is not None})
    most = max((float(ledger.selected[m].mean()) for m in members), default=0.0)
    often = max((_rate(ledger, m) or 0.0 for m in members), default=0.0)
    mean = float(ledger.selected.mean())
    found = []
    for number, (i, m) in enumerate(zip(shown, members, strict=True)):
        got = ledger.selected[m]
        low, high = t_interval(got) if m.sum() > 1 else (float(got[0]), float(got[0]))
        rate = _rate(ledger, m)
        found.append(
            Group(
                name=str(names[i]),
                clients=int(sizes[i]),
                never_asked=int((got == 0).sum()),
                online=int(ledger.online[m].sum()),
                asked=int(got.sum()),
                used=int(ledger.completed[m].sum()),
                per_client=float(got.mean()),
                low=max(0.0, low),
                high=high,
                per_online=rate,
                impact_ratio=float(got.mean()) / most if most else None,
                opportunity_ratio=rate / often if rate is not None and often else None,
                share_ratio=float(got.mean()) / mean if mean else None,
                expected=tests[number][0],
                p=corrected.get(str(number)),
            )
        )
    found.sort(key=lambda g: (g.per_client, g.name))
    return Groups(tuple(found), int(small.sum()), int(sizes[small].sum()))


def _rate(ledger: Ledger, member: BoolArray) -> float | None:
    online = int(ledger.online[member].sum())
    return int(ledger.selected[member].sum()) / online if online else None
