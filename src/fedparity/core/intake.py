"""What came back, sorted out: usable reports, late ones, why everybody else has none, and the rows they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedparity.core.gate import Gate, whole
from fedparity.core.rows import Step, fresh_rows
from fedparity.core.types import NO_FLOATS, ClientReport, FloatArray, Ids, RoundPlan, Rows

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
    def nothing(self) -> Intake:
        """A round of which nothing is used."""
        return Intake([], [], self.failed)

    @property
    def all(self) -> list[ClientReport]:
        """Usable reports in client order, of one client the fresh one before the late one."""
        return sorted([*self.used, *self.late], key=lambda report: report.client) if self.late else self.used

    @property
    def newest(self) -> list[ClientReport]:
        """The same, one per client."""
        return list({report.client: report for report in reversed(self.all)}.values())[::-1]

    @property
    def durations(self) -> FloatArray:
        """How long usable reports of this round say they took; empty: none says so."""
        told = np.array([report.duration for report in self.used], dtype=np.float64)
        return told if np.isfinite(told).any() else NO_FLOATS

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


class Stepped(NamedTuple):
    """A round whose model has moved, and whose clients are not credited yet."""

    intake: Intake
    step: Step
    abandoned: bool


def sort_out(
    gate: Gate, plan: RoundPlan, reports: Iterable[ClientReport], offers: Mapping[int, tuple[int, float]]
) -> Intake:
    """Every report in its place.

    A report that comes twice counts once. If a client sends an update and a failure, the update counts. If it sends two
    different updates, both are dropped, since which of them came first would depend on the network. A late report
    counts if its client was asked in that round and has not answered since.
    """
    asked = dict.fromkeys(plan.cohort.clients.tolist())
    reasons: dict[int, set[str]] = {}
    usable: dict[int, ClientReport] = {}
    late: dict[int, ClientReport] = {}
    at_odds: set[int] = set()
    for given in reports:
        client, origin = _sender(given)
        if client is None:
            continue
        if origin is not None and origin != plan.round:
            if offers.get(client, (None,))[0] == origin:
                report = gate.admit(given, replace(plan, round=origin))
                late |= {} if isinstance(report, str) else {client: late.get(client, report)}
            continue
        if client not in asked:
            continue
        report = gate.admit(given, plan)
        if isinstance(report, str):
            reasons.setdefault(client, set()).add(report)
        elif (first := usable.setdefault(client, report)) is not report and _content(first) != _content(report):
            at_odds.add(client)
    failed = {k: min(reasons.get(k, ()), default=NO_REPLY) for k in asked if k not in usable}
    failed |= dict.fromkeys(at_odds, AT_ODDS)
    return Intake(
        [usable[k] for k in sorted(usable) if k not in at_odds],
        [late[k] for k in sorted(late)],
        tuple(sorted(failed.items())),
    )


def _sender(report: object) -> tuple[int | None, int | None]:
    """Whose report it says it is, and of which round; None where that is no number."""
    if type(report) is ClientReport and type(report.client) is int and report.origin is None:
        return report.client, None  # nearly all are like that
    try:
        origin = getattr(report, "origin", None)
        known = None if origin is None else whole(origin)
        return (None, None) if origin is not None and known is None else (whole(getattr(report, "client", None)), known)
    except Exception:  # noqa: BLE001 - a stranger's object; nobody can be named for it
        return None, None


def _content(report: ClientReport) -> str:
    """What a report says, bit by bit, without what was measured of it."""
    told = astuple(replace(report, seconds=0.0))
    parts = (part for field in told for part in (field if isinstance(field, tuple) else (field,)))
    return repr([part.tobytes() if isinstance(part, np.ndarray) else part for part in parts])


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
