"""What came back, sorted out: usable reports, late ones, why everybody else has none, and the rows they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedparity.core.gate import Gate
from fedparity.core.rows import fresh_rows
from fedparity.core.types import ClientReport, Ids, RoundPlan, Rows

NO_REPLY = "no reply"
AT_ODDS = "two updates that differ"


@dataclass(frozen=True, slots=True)
class Intake:
    """The reports of a round."""

    used: list[ClientReport]
    """Usable ones, in client order."""
    late: list[ClientReport]
    """Usable ones of those who were asked in an earlier round and had not answered, in client order."""
    failed: tuple[tuple[int, str], ...]
    """Why each other asked client has none."""

    @property
    def all(self) -> list[ClientReport]:
        """Usable reports in client order, of one client the fresh one before the late one."""
        return sorted([*self.used, *self.late], key=lambda report: report.client) if self.late else self.used

    @property
    def newest(self) -> list[ClientReport]:
        """The same, one per client."""
        return list({report.client: report for report in reversed(self.all)}.values())[::-1]

    def offers(
        self, plan: RoundPlan, before: Mapping[int, tuple[int, float]], max_age: int
    ) -> dict[int, tuple[int, float]]:
        """Who may still answer: those who have not, in this round or in an earlier one that is not too long ago."""
        if not max_age:
            return {}
        answered = {report.client for report in self.late}.union(plan.cohort.clients.tolist())
        kept = {k: offer for k, offer in before.items() if k not in answered and plan.round - offer[0] < max_age}
        probs = dict(zip(plan.cohort.clients.tolist(), plan.cohort.probs.tolist(), strict=True))
        return kept | {k: (plan.round, probs[k]) for k, why in self.failed if why == NO_REPLY}


def sort_out(
    gate: Gate, plan: RoundPlan, reports: Iterable[ClientReport], offers: Mapping[int, tuple[int, float]]
) -> Intake:
    """Every report in its place.

    A report that comes twice counts once. If a client sends an update and a failure, the update counts. If it sends two
    different updates, both are dropped, since which of them came first would depend on the network. A late report
    counts if its client was asked in that round and has not answered since.
    """
    reasons: dict[int, set[str]] = {int(client): set() for client in plan.cohort.clients}
    usable: dict[int, ClientReport] = {}
    late: dict[int, ClientReport] = {}
    at_odds: set[int] = set()
    for report in reports:
        if report.origin is not None and report.origin != plan.round:
            if offers.get(report.client, (None,))[0] == report.origin:
                refused = gate.refusal(report, replace(plan, round=report.origin))
                late |= {} if refused else {report.client: late.get(report.client, report)}
            continue
        if report.client not in reasons:
            continue
        reason = gate.refusal(report, plan)
        if reason is not None:
            reasons[report.client].add(reason)
        elif (first := usable.setdefault(report.client, report)) is not report and _content(first) != _content(report):
            at_odds.add(report.client)
    failed = {k: min(why, default=NO_REPLY) for k, why in reasons.items() if k not in usable}
    failed |= dict.fromkeys(at_odds, AT_ODDS)
    return Intake(
        [usable[k] for k in sorted(usable) if k not in at_odds],
        [late[k] for k in sorted(late)],
        tuple(sorted(failed.items())),
    )


def _content(report: ClientReport) -> tuple[object, ...]:
    """What a report says, bit by bit; what was measured of it is left out."""
    numbers = (report.num_samples, report.loss_before, report.loss_after, report.accuracy_before, report.duration)
    return None if report.delta is None else report.delta.tobytes(), repr(numbers)


def rows_of(
    plan: RoundPlan, intake: Intake, offers: Mapping[int, tuple[int, float]], labels: NDArray[np.int64] | None
) -> Rows:
    """One row per usable report, in client order; a late one is as old as the round that it was asked in."""
    used = intake.all
    rows = fresh_rows(plan, used, labels)
    if not intake.late:
        return rows
    ages = np.array([0 if r.origin is None else plan.round - r.origin for r in used], dtype=np.int64)
    asked = [offers[r.client][1] if age else p for r, age, p in zip(used, ages, rows.probs, strict=True)]
    return replace(rows, ages=ages, probs=np.array(asked))


def clients_of(reports: Iterable[ClientReport]) -> Ids:
    """Whose reports they are."""
    return np.array([report.client for report in reports], dtype=np.int64)
