"""The tables of runs, schedules and comparisons for eyes: they fit 80 columns, and no script reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from fedparity.cli.console import say, show_table

if TYPE_CHECKING:
    from fedparity.experiment import Schedule
    from fedparity.experiment.compare import Comparison, Metric, Stat
    from fedparity.experiment.results import Results

Target: TypeAlias = Literal["share", "opportunity", "utility"]
SHOWN: dict[Target, list[tuple[str, tuple[str, str]]]] = {
    "share": [
        ("gap", ("selection_gap", "{:.3f}")),
        ("limit", ("selection_gap_limit", "{:.3f}")),
        ("Gini", ("gini", "{:.3f}")),
        ("limit", ("gini_limit", "{:.3f}")),
        ("never", ("never_served", "{:.0f}")),
        ("limit", ("never_served_limit", "{:.0f}")),
        ("fill", ("fill", "{:.0%}")),
    ],
    "opportunity": [
        ("CV(S/online)", ("cv_per_opportunity", "{:.3f}")),
        ("limit", ("cv_per_opportunity_limit", "{:.3f}")),
        ("never", ("never_served", "{:.0f}")),
        ("fill", ("fill", "{:.0%}")),
    ],
    "utility": [
        ("CV(u/pi)", ("utility_cv", "{:.3f}")),
        ("Jain", ("jain_utility", "{:.3f}")),
        ("fill", ("fill", "{:.0%}")),
    ],
}
"""The columns of each comparison: the three targets pull apart, so one table shows one of them."""
DECIDES: dict[Target, str] = {"share": "gini_avoidable", "opportunity": "cv_per_opportunity", "utility": "utility_cv"}

RUN_COLUMNS = (
    ("acc.", "accuracy", "{:.3f}"),
    ("client", "avg_client_accuracy", "{:.3f}"),
    ("Jain", "jain_accuracy", "{:.3f}"),
    ("gap", "selection_gap", "{:.3f}"),
    ("limit", "selection_gap_limit", "{:.3f}"),
    ("Gini", "gini", "{:.3f}"),
    ("limit", "gini_limit", "{:.3f}"),
    ("never", "never_served", "{:.0f}"),
    ("fill", "fill", "{:.0%}"),
)
"""The table after a run: accuracy on shared test data, its mean and Jain's index over clients, then shares of slots."""


TIED = 0.005
"""Avoidable Gini coefficients that differ by no more than this are called close."""


def show_results(results: Results) -> None:
    """The table after a run, and its outcome in a sentence."""
    s = results.spec
    seeds = len({run.seed for run in results.runs})
    say(
        f"{s.population.clients} clients ({s.population.availability}), {results.rounds} rounds, "
        f"{s.cohort} asked a round, {seeds} seed{'s' if seeds > 1 else ''}"
    )
    rows = {name: results.row(name) for name in results.methods}
    best = results.fairest()
    cells = [
        (name, *("-" if row[key] is None else form.format(row[key]) for _, key, form in RUN_COLUMNS))
        for name, row in rows.items()
    ]
    show_table(("method", *(head for head, *_ in RUN_COLUMNS)), cells, best=best if len(rows) > 1 else None)
    first = rows[best]
    close = [name for name in rows if name != best and _extra(rows[name]) - _extra(first) <= TIED]
    tied = f" ({', '.join(close)} within {TIED:g})" if close else ""
    lead = f"Fairest by share: {best}{tied}. " if len(rows) > 1 else ""
    say(
        f"{lead}Of its Gini {first['gini'] or 0:.3f}, {first['gini_limit'] or 0:.3f}"
        f" could not be avoided by anyone; {_extra(first):.3f} is its own.",
        wrap=True,
    )


def _extra(row: dict[str, float | None]) -> float:
    return row["gini_avoidable"] or 0.0


def show_schedules(results: list[Schedule], availability: str, by: Target) -> None:
    """The table of a scheduling comparison, and its outcome in a sentence."""
    s = results[0].setting
    draws = f", mean of {s.draws} draws" if s.draws > 1 else ""
    say(f"{s.clients} clients ({availability}), {s.rounds} rounds, {s.cohort} asked a round{draws}")
    if s.watched:
        say(f"The server has watched the {s.watched} rounds before the first.", wrap=True)
    means = {result.name: result.means() for result in results}
    best = min(results, key=lambda r: means[r.name][DECIDES[by]] or 0.0)
    cells = [
        (name, *("-" if row[key] is None else form.format(row[key]) for _, (key, form) in SHOWN[by]))
        for name, row in means.items()
    ]
    heads = ("scheduler", *(head for head, _ in SHOWN[by]))
    show_table(heads, cells, best=best.name if len(results) > 1 else None)
    say(_verdict(results, best, by), wrap=True)


def _verdict(results: list[Schedule], best: Schedule, by: Target) -> str:
    m = {key: value or 0.0 for key, value in best.means().items()}
    lead = f"Fairest by {by}: {best.name}. " if len(results) > 1 else ""
    absent = f" {m['never_available']:.0f} clients were never there." if m["never_available"] >= 0.5 else ""
    if by == "utility":
        return f"{lead}Its utility per round online varies by {m['utility_cv']:.3f} (CV).{absent}"
    key, noun = ("selection_gap", "selection gap") if by == "share" else ("cv_per_opportunity", "CV per round online")
    return (
        f"{lead}Of its {noun} {m[key]:.3f}, {m[key + '_limit']:.3f} could not be avoided by any scheduler that fills"
        f" as many slots; {m[key + '_avoidable']:.3f} is its own.{absent}"
    )


TABLES = (
    ("accuracy", "avg_client_accuracy", "own_accuracy", "worst_accuracy", "variance_percent2"),
    ("utility_cv", "jain_utility", "coverage"),
    ("selection_gap", "selection_gap_avoidable", "gini", "gini_avoidable"),
)


def show_comparison(found: Comparison, files: Sequence[str]) -> None:
    """The tables of a comparison, its outcome, and where its files are."""
    s, seeds = found.spec, len(found.seeds)
    say(
        f"{s.population.clients} clients ({s.population.availability}), {s.rounds} rounds, {s.cohort} asked a round, "
        f"{seeds} seed{'s' if seeds > 1 else ''} on one trace"
    )
    there = {m.key: m for m in found.shown()}
    for keys in TABLES:
        metrics = [there[key] for key in keys if key in there]
        if metrics:
            rows = [(n, *(_mean(found.stats[m.key][n], m) for m in metrics)) for n in found.methods]
            _table(("mean ± sd", *(m.head for m in metrics)), rows)
    _show_differences(found)
    _show_cost(found)
    say(found.outcome(), wrap=True)
    say(f"Files: {', '.join(files)}")


def _mean(stat: Stat, metric: Metric) -> str:
    if stat.mean is None:
        return "-"
    sd = "" if stat.sd is None else f" ±{_short(stat.sd, metric.places)}"
    return f"{stat.mean:.{metric.places}f}{sd}"


def _short(value: float, places: int, *, sign: bool = False) -> str:
    """`.012`, `+.012`: no zero before the point."""
    text = f"{value:{'+' if sign else ''}.{places}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 and places else text


def _show_differences(found: Comparison) -> None:
    """The two numbers of the outcome against the reference; all others are in the files."""
    from fedparity.experiment.compare import ACCURACY, FAIRNESS

    metrics = [m for m in found.shown() if m.key in (ACCURACY, FAIRNESS)]
    others = [name for name in found.methods if name != found.reference]
    if not metrics or not others:
        return
    titles = {ACCURACY: "accuracy", FAIRNESS: "avoidable Gini"}
    heads = [head for m in metrics for head in (f"{titles[m.key]} [95 %]", "rank")]
    rows = []
    for name in found.methods:
        cells: list[str] = []
        for m in metrics:
            stat = found.stats[m.key][name]
            cells += [_difference(stat), "-" if stat.rank is None else f"{stat.rank:.1f}"]
        pairs = next((p for m in metrics if (p := found.stats[m.key][name].pairs) is not None), None)
        rows.append((name, *cells, "" if pairs is None else str(pairs)))
    _table((f"minus {found.reference}", *heads, "pairs"), rows)


def _difference(stat: Stat) -> str:
    if stat.pairs is None:
        return ""
    if stat.difference is None:
        return "-"
    mean = _short(stat.difference, 3, sign=True)
    if stat.low is None or stat.high is None:
        return mean
    return f"{mean} [{_short(stat.low, 3, sign=True)}, {_short(stat.high, 3, sign=True)}]"


def _show_cost(found: Comparison) -> None:
    columns = (
        ("updates", "updates", ",.0f"),
        ("MB sent", "megabytes", ",.3g"),
        ("memory", "server_words", ",d"),
        ("at clients", "client_words", ",d"),
        ("steps", "local_steps", ",.0f"),
        ("seconds", "seconds", ".1f"),
    )
    known = [c for c in columns if any(getattr(cost, c[1]) is not None for cost in found.cost.values())]
    rows = [
        (n, *("-" if (v := getattr(cost, key)) is None else format(v, form) for _, key, form in known))
        for n, cost in found.cost.items()
    ]
    _table(("cost a run", *(head for head, *_ in known)), rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    show_table(head, rows)
    say("")
