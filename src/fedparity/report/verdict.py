"""What the numbers say, in plain words. Two targets, two statements: they pull apart and are never mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.experiment.results import Results
from fedparity.report import words

BASELINE = "uniform"
NEAR = 0.005
"""An avoidable Gini this close to the lowest is said to be close."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sentences; `who` is printed in bold before `share`."""

    leaders: list[str]
    share: str
    near: str
    opportunity: str

    @property
    def who(self) -> str:
        """The leaders by name."""
        return words.listed(self.leaders)


def best(results: Results, key: str, *, higher: bool = False) -> list[str]:
    """The methods with the lowest (or highest) value, equal to three decimals, in the spec's order; oracles aside."""
    values = {name: results.row(name).get(key) for name in results.contenders}
    known = {name: round(value, 3) for name, value in values.items() if value is not None and np.isfinite(value)}
    target = (max if higher else min)(known.values(), default=None)
    return [name for name, value in known.items() if value == target]


def fairest(results: Results) -> str | None:
    """The method that added least to what nobody could avoid (Gini); the first of the spec among equals."""
    return next(iter(best(results, "gini_avoidable")), None)


def verdict(results: Results) -> Verdict:
    """The statement by share, who came close, and the statement per opportunity."""
    leaders = best(results, "gini_avoidable")
    if not leaders or not results.rounds:
        return Verdict([], "No round was finished by all methods, so there is nothing to compare yet.", "", "")
    if not any(run.ledger.online.any() for run in results.runs):
        return Verdict([], "Nobody was ever online, so there was nothing to share.", "", "")
    return Verdict(leaders, _share(results, leaders), _near(results, leaders), _opportunity(results))


def _share(results: Results, leaders: list[str]) -> str:
    row = results.row(leaders[0])
    alone = len(results.methods) == 1
    verb = "reached" if alone else "shared the slots most evenly, with"
    both = "both " if len(leaders) == 2 and not alone else "all " if len(leaders) > 2 and not alone else ""
    return (
        f"{both}{verb} a Gini of {words.fixed(row['gini'])}{_parts(row['gini_limit'], row['gini_avoidable'])}; "
        f"the selection gap was {words.fixed(row['selection_gap'])} ({words.fixed(row['selection_gap_limit'])} "
        f"unavoidable){_accuracy(results, leaders[0])}."
    )


def _parts(limit: float | None, avoidable: float | None) -> str:
    """What part of a number was nobody's fault, in words that also fit where a part is nothing."""
    unavoidable, own = words.fixed(limit), words.fixed(avoidable)
    if own == "0.000":
        return ", none of it avoidable" if unavoidable != own else ""
    if unavoidable == "0.000":
        return ", all of it avoidable"
    return (
        f": {unavoidable} of it nobody could have avoided with these clients coming and going, "
        f"{own} was the scheduler’s doing"
    )


def _accuracy(results: Results, name: str) -> str:
    value = results.row(name).get("accuracy")
    if value is None:
        return ""
    if name == BASELINE or BASELINE not in results.methods:
        return f", and test accuracy {words.percent(value)}"
    change = paired_change(results, name, BASELINE)
    if not len(change):
        return f", and test accuracy {words.percent(value)}"
    points = float(change.mean()) * 100
    apart = f" (± {words.fixed(float(change.std()) * 100, 1)} between seeds)" if len(change) > 1 else ""
    if abs(points) < 0.05:
        return f", and test accuracy {words.percent(value)}, the same as {BASELINE}{apart}"
    side = "above" if points > 0 else "below"
    return f", and test accuracy {words.percent(value)}, {words.fixed(abs(points), 1)} points {side} {BASELINE}{apart}"


def paired_change(results: Results, name: str, baseline: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Last accuracy minus the baseline's, seed by seed."""
    last = {
        (run.method, run.seed): float(run.column("accuracy")[-1])
        for run in results.runs
        if run.method in {name, baseline} and run.log
    }
    pairs = [
        last[name, seed] - last[baseline, seed] for (who, seed) in last if who == name and (baseline, seed) in last
    ]
    return np.array([p for p in pairs if np.isfinite(p)], dtype=np.float64)


def _near(results: Results, leaders: list[str]) -> str:
    lowest = results.row(leaders[0])["gini_avoidable"] or 0.0
    close = [
        f"{name} ({words.fixed(value)})"
        for name in results.methods
        if name not in leaders
        and (value := results.row(name).get("gini_avoidable")) is not None
        and value - lowest <= NEAR
    ]
    return f"Close behind by avoidable Gini: {words.listed(close)}." if close else ""


def _opportunity(results: Results) -> str:
    names = best(results, "cv_per_opportunity")
    if not names:
        return ""
    value = words.fixed(results.row(names[0])["cv_per_opportunity"])
    alone = len(results.methods) == 1
    start = (
        f"Judged per opportunity instead (selections per round online), {words.listed(names)} "
        f"{'has' if alone else 'was the most even,' if len(names) == 1 else 'were the most even,'}"
        f"{' a' if alone else ' with a'} coefficient of variation of {value}"
    )
    useful = best(results, "utility_cv")
    if not useful:
        return f"{start}."
    benefit = words.fixed(results.row(useful[0])["utility_cv"])
    who = "" if alone else f" {words.listed(useful)} spread it most evenly,"
    return f"{start}; by benefit per opportunity (u/π),{who} with {benefit}." if who else f"{start}; u/π: {benefit}."
