"""What the numbers say, in plain words. Two targets, two statements: they pull apart and are never mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.experiment.run import Run
from fedparity.metrics import MEASURES, Leaders, Table, compare_methods, differences, in_reading, tenths
from fedparity.metrics.of_utility import READINGS
from fedparity.report import words
from fedparity.report.kinds import by_kind
from fedparity.report.reach import by_availability

BASELINE = "uniform"
FAIREST = "gini_avoidable"
"""What is added to the Gini coefficient that nobody could avoid."""


ACCURACIES = ("late_accuracy", "accuracy")
"""What is said of how good a model is: over the last tenth of the rounds, since single ones swing; or what is known."""
COMPARED = ("late_accuracy", "late_worst_accuracy", FAIREST)
"""What the story compares over all clients."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sentences; `who` is printed in bold before `share`."""

    leaders: list[str]
    share: str
    near: str
    opportunity: str
    story: str = ""
    """What the choice of a method did to whom; empty where there is no accuracy or no choice."""
    sure: str = ""
    """How sure that is."""

    @property
    def who(self) -> str:
        """The leaders by name."""
        return words.listed(self.leaders)


def verdict(run: Run) -> Verdict:
    """The statement by share, who cannot be told apart from it, and the statement per opportunity."""
    found = run.table.leaders(FAIREST) if run.rounds else None
    if found is None:
        return Verdict([], "No round was finished by all methods, so there is nothing to compare yet.", "", "")
    if not any(one.ledger.online.any() for one in run.runs):
        return Verdict([], "Nobody was ever online, so there was nothing to share.", "", "")
    if not any(one.ledger.completed.any() for one in run.runs):
        return Verdict([], "No update of any client was ever used: nothing was learnt, and nothing shared.", "", "")
    leaders = run.table.level(FAIREST)
    share, near = _share(run, leaders), _near(run.table, found, leaders)
    opportunity = _opportunity(run.table, in_reading("utility_cv", run.spec.reading))
    return Verdict(leaders, share, near, opportunity, story(run), sure(run.table))


def _rivals(table: Table) -> tuple[str, str] | None:
    """Whom the story is about: the baseline, and the best of the others; None where there is no choice."""
    worst = "late_worst_accuracy"
    found = table.leaders(worst if table.told_apart(worst) else "late_accuracy")
    if found is None or len(table.contenders) < 2:
        return None
    others = [name for name in table.contenders if name != found.first]
    return BASELINE if BASELINE in others else min(others, key=lambda name: table.mean(worst, name) or 0.0), found.first


def sure(table: Table) -> str:
    """The story's differences with their paired intervals over seeds, and what they do not cover."""
    rivals = _rivals(table)
    if rivals is None:
        return ""
    base, best = rivals
    said = []
    named = (
        "accuracy",
        "that of the worst-off tenth",
        "avoidable Gini (inequality in who was asked that presence does not force)",
    )
    for key, what in zip(COMPARED, named, strict=True):
        pair = {name: table.values[key][name] for name in rivals}
        found = compare_methods(pair, base)[best]
        points = key != FAIREST
        if found.pairs < 2 or not np.isfinite([found.mean, found.low, found.high]).all():
            continue
        scale, places = (100, 1) if points else (1, 3)
        mean, low, high = (_signed(scale * v, places) for v in (found.mean, found.low, found.high))
        said.append(f"{what} {mean}{' points' if points else ''} (95{words.NARROW}%: {low} to {high})")
    if not said:
        return "One seed was run: how much of a difference is chance, it cannot say."
    among = len(table.contenders)
    chosen = f"; {best} was chosen as the best of {among} by these very seeds" if among > 2 else ""
    return (
        f"{best} against {base}, paired over {words.plural(len(table.seeds), 'seed')} on one availability:"
        f" {words.listed(said)}{chosen}. {table.caution()}".rstrip()
    )


def _signed(value: float, places: int) -> str:
    shown = words.fixed(value, places)
    return shown if shown.startswith("−") else f"+{shown}"


def story(run: Run) -> str:
    """Two sentences: what baseline and best did to those that fared worst, and each kind of method to all clients."""
    table, rivals = run.table, _rivals(run.table)
    if rivals is None:
        return ""
    base, best = rivals
    then, now = by_availability(run, base), by_availability(run, best)
    if not len(then) or len(then) != len(now):
        return ""
    at, counts = int(then.argmin()), run.trace.counts()
    there = float(counts[tenths(counts)[at]].mean()) / run.trace.num_rounds
    part = "tenth" if len(then) == 10 else f"of {len(then)} groups"
    kinds = by_kind([m for m in run.resolved.methods if m.name in table.contenders])
    by = [f"by {kind} ({words.listed(names)})" for kind, names in kinds.items()]
    mean, worst = ([_between(table, names, key) for names in kinds.values()] for key in COMPARED[:2])
    return (
        f"With {base} the worst-off {part} by availability, online in {words.percent(there, 0)} of the rounds, ends at"
        f" {words.percent(float(then[at]), 0)} accuracy, and {_never(table, base)}; with {best} it ends at"
        f" {words.percent(float(now[at]), 0)}, and {_never(table, best)}. Over all clients mean accuracy is"
        f" {words.listed([f'{figure} {how}' for figure, how in zip(mean, by, strict=True)], len(by))};"
        f" that of the worst-off tenth, in this order, {words.listed(worst, len(worst))}."
    )


def _between(table: Table, names: list[str], key: str) -> str:
    """A percentage of some methods, as `5 to 6 %` where they differ."""
    known = sorted(value for name in names if (value := table.mean(key, name)) is not None)
    low, high = (words.percent(known[at] if known else None, 0) for at in (0, -1))
    return high if low == high else f"{low.removesuffix(f'{words.NARROW}%')} to {high}"


def _never(table: Table, name: str) -> str:
    never = (table.mean("never_served", name) or 0.0) - (table.mean("never_available", name) or 0.0)
    if never < 0.05:
        return "everybody who came was asked"
    if abs(never - round(never)) < 0.05:
        return f"{words.plural(round(never), 'client')} who came {'was' if round(never) == 1 else 'were'} never asked"
    return f"{words.fixed(never, 1)} clients who came were never asked (mean over seeds)"


def _share(run: Run, leaders: list[str]) -> str:
    row = run.table.row(leaders[0])
    alone = len(run.methods) == 1
    verb = "reached" if alone else "shared the slots most evenly, with"
    both = "both " if len(leaders) == 2 and not alone else "all " if len(leaders) > 2 and not alone else ""
    return (
        f"{both}{verb} a Gini of {words.fixed(row['gini'])}{_parts(row['gini_limit'], row['gini_avoidable'])}; "
        f"the selection gap was {words.fixed(row['selection_gap'])} ({words.fixed(row['selection_gap_limit'])} "
        f"unavoidable){_accuracy(run.table, leaders)}."
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


def _accuracy(table: Table, names: list[str]) -> str:
    """How good the model of one method is, or from which to which those of several are."""
    key = next(iter(table.known(ACCURACIES)), None)
    if key is None:
        return ""
    known = [(value, name) for name in names if (value := table.mean(key, name)) is not None]
    if not known:
        return ""
    (low, last), (value, name) = min(known), max(known)
    if words.percent(low) != words.percent(value):
        return f", and accuracy from {words.percent(low)} ({last}) to {words.percent(value)} ({name})"
    said, change = f", and accuracy {words.percent(value)}", _change(table, key, name)
    if not len(change) or len(names) > 1:
        return said
    points = float(change.mean()) * 100
    apart = f" (± {words.fixed(float(change.std()) * 100, 1)} between seeds)" if len(change) > 1 else ""
    if abs(points) < 0.05:
        return f"{said}, the same as {BASELINE}{apart}"
    return f"{said}, {words.fixed(abs(points), 1)} points {'above' if points > 0 else 'below'} {BASELINE}{apart}"


def _change(table: Table, key: str, name: str) -> FloatArray:
    """Accuracy minus the baseline's, seed by seed."""
    columns = table.values[key]
    if name == BASELINE or BASELINE not in columns:
        return np.empty(0)
    return differences(columns[name], columns[BASELINE])


def _near(table: Table, found: Leaders, leaders: list[str]) -> str:
    close = [f"{name} ({words.of(FAIREST, table.mean(FAIREST, name))})" for name in found.all if name not in leaders]
    if not close:  # said with the story, where there is one
        return "" if _rivals(table) else table.caution()
    return (
        f"By avoidable Gini, {words.listed(close)} cannot be told apart from it over {len(table.seeds)} seeds"
        f" ({words.of(FAIREST, table.mean(FAIREST, leaders[0]))})."
    )


def _opportunity(table: Table, utility_cv: str) -> str:
    names = table.level("cv_per_opportunity")
    if not names:
        return ""
    value = words.fixed(table.mean("cv_per_opportunity", names[0]))
    alone = len(table.methods) == 1
    start = (
        f"Judged per opportunity instead (selections per round online), {words.listed(names)} "
        f"{'has' if alone else 'was the most even,' if len(names) == 1 else 'were the most even,'}"
        f"{' a' if alone else ' with a'} coefficient of variation of {value}"
    )
    useful = table.level(utility_cv)
    if not useful:
        return f"{start}."
    benefit = words.fixed(table.mean(utility_cv, useful[0]))
    by = READINGS[MEASURES[utility_cv].normaliser or "availability"].symbol
    who = "" if alone else f" {words.listed(useful)} spread it most evenly,"
    return f"{start}; by benefit ({by}),{who} with {benefit}." if who else f"{start}; {by}: {benefit}."
