"""The tables of runs, schedules and comparisons for eyes: they fit 80 columns, and no script reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Literal, TypeAlias

from fedparity.cli.console import say, show_table

if TYPE_CHECKING:
    from fedparity.experiment import Schedule
    from fedparity.experiment.compare import Comparison, Stat
    from fedparity.experiment.run import Run
    from fedparity.experiment.spec import Spec
    from fedparity.metrics import Table

Target: TypeAlias = Literal["share", "opportunity", "utility"]
RUN_COLUMNS = (
    "late_accuracy", "late_worst_accuracy", "late_worst_recall", "never_served", "gini_avoidable", "gini", "gini_limit",
)  # fmt: skip
"""The table after a run: how good the model is and for whom, who was left out, then shares of slots."""
MEANS = {
    "late_accuracy": "accuracy, worst 10%: of the model on clients' own test data, mean of all clients and of the"
    " worst-off tenth, over the last tenth of the rounds",
    "late_worst_recall": "worst label: share that it gets right of the samples of the label it knows least, over the"
    " same rounds",
    "never_served": "never: clients never asked",
    "gini_avoidable": "Gini: how unequally clients were asked (0 is equal); limit: the lowest that anyone who fills the"
    " slots could reach, given who was there; avoidable: the rest",
    "round_seconds": "wait, s: seconds that a round waits for its slowest participant",
    "utility_cv": "CV({}): how unequal what clients gained {} is (its standard deviation over its mean)",
    "completed_gini": "done: of the updates that arrived and were used",
    "fairness_variance": "V(u/pi): variance of what clients gained per round online; +: with what surrogates credited",
}
"""The words of those tables, each said where it is first used."""
BESIDE = (
    ("selection_gap", "completed_selection_gap"),
    ("gini", "completed_gini"),
    ("fairness_variance", "fairness_variance_with_surrogates"),
)
"""A second table, where requests failed or surrogates were credited: measures beside what they come to then."""
SHOWN: dict[Target, tuple[str, ...]] = {
    "share": (
        *("selection_gap", "selection_gap_limit", "selection_gap_online", "gini", "gini_limit", "gini_online"),
        *("never_served", "never_served_limit", "fill"),
    ),
    "opportunity": ("cv_per_opportunity", "cv_per_opportunity_limit", "never_served", "fill"),
    "utility": ("utility_cv", "jain_utility", "fill"),
}
"""The columns of each comparison: the three targets pull apart, so one table shows one of them."""
DECIDES: dict[Target, str] = {"share": "gini_avoidable", "opportunity": "cv_per_opportunity", "utility": "utility_cv"}
LEADS: dict[Target, str] = {"share": "avoidable Gini", "opportunity": "CV per round online", "utility": "utility CV"}
"""The same in words."""
SPLIT: dict[Target, tuple[str, str]] = {
    "share": ("gini", "Gini"),
    "opportunity": ("cv_per_opportunity", "CV per round online"),
}
"""Which measure is told apart into what could be avoided and what could not."""


def show_measures(table: Table, keys: Iterable[str], *, first: str, decides: str) -> None:
    """Some columns of a table; who leads by `decides` in bold."""
    from fedparity.metrics.measures import heading
    from fedparity.metrics.table import printed

    columns = table.known(keys)
    rows = [(name, *(printed(key, table.mean(key, name)) for key in columns)) for name in table.methods]
    found = table.leaders(decides) if table.told_apart(decides) else None
    heads = (first, *(heading(key, narrow=True) for key in columns))
    show_table(heads, rows, bold=() if found is None else found.all)


def verdict_of(table: Table, by: Target, erased: int = 0) -> str:
    """The outcome in a sentence or two: who leads, what of it nobody could have avoided, and who was never there."""
    from fedparity.report import words

    leaders = table.level(DECIDES[by])
    if not leaders:
        return "There is nothing to compare."
    row, whose = table.row(leaders[0]), "Its" if len(leaders) == 1 else "Their"
    lead = f"{table.said(DECIDES[by], f'Fairest by {LEADS[by]}')}. " if len(table.methods) > 1 else ""
    never = round(row["never_available"] or 0.0) - erased  # those that were erased have no round left either
    counts = {"never there": never, "erased": erased}
    gone = [f"{words.plural(n, 'client')} {'was' if n == 1 else 'were'} {how}" for how, n in counts.items() if n > 0]
    absent = f" {words.listed(gone)}." if gone else ""
    if by == "utility":
        return f"{lead}{whose} utility per round online varies by {row['utility_cv']:.3f} (CV).{absent}"
    key, noun = SPLIT[by]
    limit, own = (row[f"{key}{part}"] or 0.0 for part in ("_limit", "_avoidable"))
    return (
        f"{lead}Of {whose.lower()} {noun} {row[key] or 0:.3f}, {limit:.3f} could not be avoided by anyone who fills as"
        f" many slots; {own:.3f} is {whose.lower()} own.{absent}"
    )


def show_run(run: Run, *, brief: bool = False) -> None:
    """The table after a run, and what it says; `brief`: on one screen, without the second table."""
    from fedparity.metrics.of_utility import READINGS, in_reading
    from fedparity.report import words
    from fedparity.report.page import held_back
    from fedparity.report.verdict import story

    s = run.spec
    say(
        f"{_who(s, len(run.erased))}, {run.rounds} rounds, {s.asked} asked per round, {words.plural(run.seeds, 'seed')}"
    )
    by = READINGS[s.reading]
    for keys in filter(None, (run_columns(run), () if brief else beside(run.table))):
        show_measures(run.table, keys, first="method", decides=decides(run.table))
        told = [
            text.format(by.head, by.plain) for key, text in MEANS.items() if {key, in_reading(key, s.reading)} & {*keys}
        ]
        say(f"{'. '.join(told)}.", wrap=True)
        say("")
    if not any(one.ledger.completed.any() for one in run.runs):
        say("No update of any client was ever used.")
        return
    if limited := held_back(run):
        say(limited, wrap=True)
        say("")
    if happened := story(run).replace(words.NARROW, " "):
        say(happened, wrap=True)
        say("")
    say(f"{verdict_of(run.table, 'share', len(run.erased))} {run.table.caution()}".rstrip(), wrap=True)


def _who(spec: Spec, erased: int) -> str:
    """How many clients there are, where they come from, and of how many nothing is left."""
    gone = f", {erased} of them erased" if erased else ""
    return f"{spec.population.clients} clients ({spec.population.shown}){gone}"


def run_columns(run: Run) -> tuple[str, ...]:
    """The columns of a run's table: utility in the reading asked for, if one was; fill where slots stayed empty."""
    from fedparity.metrics import in_reading

    table, asked = run.table, run.spec.normaliser
    keys = [key for key in RUN_COLUMNS if asked is None or key != "late_worst_recall"]
    keys += [] if asked is None else [in_reading("utility_cv", asked)]
    keys += ["fill"] if any((table.mean("fill_avoidable", name) or 0.0) >= 0.005 for name in table.methods) else []
    return table.known([*keys, "round_seconds"])


def beside(table: Table) -> tuple[str, ...]:
    """The columns of a run's second table: pairs that are not the same for every method."""
    from fedparity.metrics.table import printed

    pairs = [[[printed(key, table.mean(key, name)) for name in table.methods] for key in pair] for pair in BESIDE]
    return tuple(key for pair, (one, other) in zip(BESIDE, pairs, strict=True) for key in pair if one != other)


def decides(table: Table) -> str:
    """What the bold rows of a run lead by: how the worst-off fare, else how evenly slots were shared."""
    return "late_worst_accuracy" if "late_worst_accuracy" in table else DECIDES["share"]


def show_schedules(results: list[Schedule], availability: str, by: Target, online: str | None = None) -> None:
    """The table of a scheduling comparison, and its outcome in a sentence; `online` set the online limit."""
    from fedparity.experiment.schedule import schedule_table

    s = results[0].setting
    draws = f", mean of {s.draws} draws" if s.draws > 1 else ""
    say(f"{s.clients} clients ({availability}), {s.rounds} rounds, {s.cohort} asked per round{draws}")
    if s.watched:
        say(f"The server has watched the {s.watched} rounds before the first.", wrap=True)
    table = schedule_table(results)
    show_measures(table, SHOWN[by], first="scheduler", decides=DECIDES[by])
    say(verdict_of(table, by), wrap=True)
    if online is not None:
        gini = next((g for n in table.methods if (g := table.mean("gini_online", n)) is not None), None)
        shown = "" if gini is None else f" (Gini {gini:.3f})"
        say(f"Without hindsight nothing known that fills its slots comes closer than {online}{shown}.", wrap=True)


def show_comparison(found: Comparison, files: Sequence[str], erased: int = 0) -> None:
    """The tables of a comparison, its outcome, and where its files are."""
    from fedparity.metrics.measures import heading
    from fedparity.report import words

    s, seeds = found.spec, words.plural(len(found.seeds), "seed")
    say(f"{_who(s, erased)}, {s.rounds} rounds, {s.asked} asked per round, {seeds} on one trace")
    for keys in found.blocks():
        rows = [(n, *(_mean(found, key, n) for key in keys)) for n in found.methods]
        _table(("mean ± sd", *(heading(key, narrow=True) for key in keys)), rows)
    _show_differences(found)
    _show_cost(found)
    say(found.outcome(), wrap=True)
    say(f"Files: {', '.join(files)}")


def _mean(found: Comparison, key: str, name: str) -> str:
    from fedparity.metrics import printed

    stat = found.stats[key][name]
    sd = "" if stat.sd is None else f" ±{printed(key, stat.sd).removesuffix(' %')}"
    return f"{printed(key, stat.mean)}{sd}"


def _short(value: float, places: int, *, sign: bool = False) -> str:
    """`.012`, `+.012`: no zero before the point."""
    text = f"{value:{'+' if sign else ''}.{places}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 and places else text


def _show_differences(found: Comparison) -> None:
    """The two numbers of the outcome against the reference; all others are in the files."""
    from fedparity.experiment.compare import ACCURACY, FAIRNESS
    from fedparity.metrics.measures import heading

    keys = found.shown((ACCURACY, FAIRNESS))
    others = [name for name in found.methods if name != found.reference]
    if not keys or not others:
        return
    titles = {ACCURACY: heading(ACCURACY, narrow=True), FAIRNESS: "avoidable Gini"}
    heads = [head for key in keys for head in (f"{titles[key]} [95 %]", "rank")]
    rows = []
    for name in found.methods:
        cells: list[str] = []
        for key in keys:
            stat = found.stats[key][name]
            cells += [_difference(stat), "-" if stat.rank is None else f"{stat.rank:.1f}"]
        pairs = next((p for key in keys if (p := found.stats[key][name].pairs) is not None), None)
        rows.append((name, *cells, "" if pairs is None else str(pairs)))
    _table((f"minus {found.reference}", *heads, "pairs"), rows, found.note())


def _difference(stat: Stat) -> str:
    if stat.pairs is None:
        return ""
    if stat.difference is None:
        return "-"
    mean = f"{_short(stat.difference, 3, sign=True)}{'*' if stat.told_apart else ''}"
    if stat.low is None or stat.high is None:
        return mean
    return f"{mean} [{_short(stat.low, 3, sign=True)}, {_short(stat.high, 3, sign=True)}]"


def _show_cost(found: Comparison) -> None:
    from fedparity.metrics import MEASURES, printed

    names = [f.name for f in fields(next(iter(found.cost.values()))) if f.name not in ("asked", "parameters")]
    known = [key for key in names if any(getattr(cost, key) is not None for cost in found.cost.values())]
    rows = [(n, *(printed(key, getattr(cost, key)) for key in known)) for n, cost in found.cost.items()]
    _table(("cost per run", *(MEASURES[key].head for key in known)), rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], note: str = "") -> None:
    show_table(head, rows)
    if note:
        say(note, wrap=True)
    say("")
