"""The command line for eyes: bars, lines and tables that fit 80 columns. Nothing here is read by a script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from fedparity.core.registry import OURS

if TYPE_CHECKING:
    from rich.console import Console

    from fedparity.experiment import Schedule
    from fedparity.experiment.results import Results
    from fedparity.experiment.spec import Spec

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


def plain(text: str) -> str:
    """Text from outside, safe to print: nothing in it moves the cursor or changes a colour."""
    return "".join(c if c.isprintable() else "?" for c in text)


def console_for(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def say(text: str, *, stderr: bool = False) -> None:
    """One line, whatever is in it."""
    console_for(stderr=stderr).print(plain(text), markup=False, soft_wrap=True)


class Progress:
    """A bar on stderr, if somebody is looking."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = console_for(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def describe(self, text: str) -> None:
        """Say what is being worked on."""
        self._bar.update(self._task, description=text)

    def step(self, _: int) -> None:
        """One more is done."""
        self._bar.advance(self._task)


class Rounds:
    """Progress of a run: a line a round for one method; for several a bar, or a line now and then in a log."""

    def __init__(self, spec: Spec, *, quiet: bool) -> None:
        self._total = spec.rounds * spec.seeds
        self._single = len(spec.methods) == 1 and not quiet
        self._last = spec.methods[-1].name
        self._console = console_for(stderr=quiet or len(spec.methods) > 1)
        self._bar = Progress(self._total)
        self._spec = spec
        self._prepared = ("", -1)

    def __enter__(self) -> Self:
        if not self._single:
            self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._single:
            self._bar.__exit__()

    def prepare(self, what: str, done: int, total: int) -> None:
        """Something that a run needs is being made ready."""
        part = done * 10 // total if total else 0
        if (what, part) == self._prepared:
            return
        self._prepared = (what, part)
        if total and not self._single and self._console.is_terminal:
            self._bar.describe(f"{plain(what)} {done}/{total}")
        elif total:
            console_for(stderr=True).print(f"{plain(what)}: {done} of {total}", markup=False, soft_wrap=True)

    def tell(self, number: int, method: str, row: dict[str, float]) -> None:
        """One more round of one method is done."""
        if method != self._last:
            return
        accuracy = "-" if math.isnan(row["accuracy"]) else f"{row['accuracy']:.3f}"
        line = (
            f"round {number + 1}/{self._total}  online {row['available']:.0f}  asked {row['selected']:.0f}"
            f"  accuracy {accuracy}  gap {row['selection_gap']:.3f}"
        )
        if self._single:
            self._console.print(line, markup=False, soft_wrap=True)
            return
        self._bar.describe(f"seed {number // self._spec.rounds + 1}/{self._spec.seeds}")
        self._bar.step(number)
        if not self._console.is_terminal and (number + 1) % max(1, self._total // 10) == 0:
            self._console.print(f"round {number + 1}/{self._total} done by all methods", markup=False)


def show_table(header: list[str], rows: list[list[str]]) -> None:
    """Names on the left, numbers on the right."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(header[0], overflow="fold")
    for name in header[1:]:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(plain(cell)) for cell in row))
    console_for().print(table)


def show_results(results: Results) -> None:
    """The table after a run, and its outcome in a sentence."""
    from rich.markup import escape
    from rich.table import Table

    console = console_for()
    s = results.spec
    seeds = len({run.seed for run in results.runs})
    console.print(
        f"{s.population.clients} clients ({escape(plain(s.population.availability))}), {results.rounds} rounds, "
        f"{s.cohort} asked a round, {seeds} seed{'s' if seeds > 1 else ''}",
        soft_wrap=True,
    )
    rows = {name: results.row(name) for name in results.methods}
    best = results.fairest()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    for header, *_ in RUN_COLUMNS:
        table.add_column(header, justify="right", no_wrap=True)
    for name, row in rows.items():
        cells = ["-" if row[key] is None else form.format(row[key]) for _, key, form in RUN_COLUMNS]
        table.add_row(escape(plain(name)), *cells, style="bold" if name == best and len(rows) > 1 else "")
    console.print(table)
    first = rows[best]
    close = [name for name in rows if name != best and _extra(rows[name]) - _extra(first) <= TIED]
    tied = f" ({', '.join(close)} within {TIED:g})" if close else ""
    lead = f"Fairest by share: {best}{tied}. " if len(rows) > 1 else ""
    console.print(
        f"{lead}Of its Gini {first['gini'] or 0:.3f}, {first['gini_limit'] or 0:.3f}"
        f" could not be avoided by anyone; {_extra(first):.3f} is its own.",
        markup=False,
    )


def _extra(row: dict[str, float | None]) -> float:
    return row["gini_avoidable"] or 0.0


def show_schedules(results: list[Schedule], availability: str, by: Target) -> None:
    """The table of a scheduling comparison, and its outcome in a sentence."""
    from rich.markup import escape
    from rich.table import Table

    s = results[0].setting
    console = console_for()
    draws = f", mean of {s.draws} draws" if s.draws > 1 else ""
    title = f"{s.clients} clients ({escape(plain(availability))}), {s.rounds} rounds, {s.cohort} asked a round{draws}"
    console.print(title, soft_wrap=True)
    if s.watched:
        console.print(f"The server has watched the {s.watched} rounds before the first.")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("scheduler", overflow="fold")
    for header, _ in SHOWN[by]:
        table.add_column(header, justify="right", no_wrap=True)
    best = min(results, key=lambda r: r.means()[DECIDES[by]] or 0.0)
    for result in results:
        means = result.means()
        cells = [form.format(means[key]) if means[key] is not None else "-" for _, (key, form) in SHOWN[by]]
        table.add_row(escape(plain(result.name)), *cells, style="bold" if result is best and len(results) > 1 else "")
    console.print(table)
    console.print(_verdict(results, best, by), markup=False)


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


def show_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Every component with its summary."""
    from rich.markup import escape
    from rich.table import Table

    console = console_for()
    for name, entries in tables.items():
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for entry in entries:
            table.add_row(entry["name"], escape(entry["summary"]) + from_others(entry))
        console.print(f"[bold]{name}[/bold]")
        console.print(table)
        console.print()
    console.print("fedparity list NAME tells more about one of them.")


def from_others(entry: dict[str, Any]) -> str:
    """Where a component comes from, if it is not one of ours."""
    return "" if entry["origin"] == OURS else f" (from {entry['origin']})"


def show_entry(entry: dict[str, Any], text: str, cites: Sequence[str] = ()) -> None:
    """All about one component, or one part of a method (which has a `key`)."""
    from rich.markup import escape

    console = console_for()
    kind = entry.get("key") or entry["table"]
    console.print(f"[bold]{entry['name']}[/bold] ({kind}): {escape(entry['summary'])}{from_others(entry)}")
    if text:
        console.print(escape(text), soft_wrap=True)
    for key, default in entry["parameters"].items():
        console.print(f"  {key} = {escape(str(default))}", soft_wrap=True)
    if entry["reference"]:
        console.print(f"Reference: {escape(entry['reference'])}", soft_wrap=True)
    if cites:
        console.print(f"Cite: {', '.join(cites)} (fedparity cite {entry['name']})", soft_wrap=True)
