"""The command line for eyes: bars, lines and tables that fit 80 columns. Nothing here is read by a script."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

    from fedparity.experiment import Schedule
    from fedparity.experiment.run import Run
    from fedparity.experiment.spec import Spec
    from fedparity.metrics import Table

Target: TypeAlias = Literal["share", "opportunity", "utility"]
RUN_COLUMNS = (
    "accuracy",
    "avg_client_accuracy",
    "worst_accuracy",
    "selection_gap",
    "selection_gap_limit",
    "gini",
    "gini_limit",
    "never_served",
    "fill",
)
"""The table after a run: how good the model is and for whom, then shares of slots."""
SHOWN: dict[Target, tuple[str, ...]] = {
    "share": (*RUN_COLUMNS[3:8], "never_served_limit", "fill"),
    "opportunity": ("cv_per_opportunity", "cv_per_opportunity_limit", "never_served", "fill"),
    "utility": ("utility_cv", "jain_utility", "fill"),
}
"""The columns of each comparison: the three targets pull apart, so one table shows one of them."""
DECIDES: dict[Target, str] = {
    "share": "gini_avoidable",
    "opportunity": "cv_per_opportunity",
    "utility": "utility_cv",
}
SPLIT: dict[Target, tuple[str, str]] = {
    "share": ("gini", "Gini"),
    "opportunity": ("cv_per_opportunity", "CV per round online"),
}
"""Which measure is told apart into what could be avoided and what could not."""


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


def show_table(header: list[str], rows: list[list[str]], bold: Collection[str] = ()) -> None:
    """Names on the left, numbers on the right; rows of these names in bold."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(header[0], overflow="fold")
    for name in header[1:]:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(plain(cell)) for cell in row), style="bold" if row[0] in bold else "")
    console_for().print(table)


def show_measures(table: Table, keys: Iterable[str], *, first: str, decides: str) -> None:
    """Some columns of a table; who leads by `decides` in bold."""
    from fedparity.metrics.measures import heading
    from fedparity.metrics.table import printed

    columns = table.known(keys)
    rows = [[name, *(printed(key, table.mean(key, name)) for key in columns)] for name in table.methods]
    found = table.leaders(decides) if table.told_apart(decides) else None
    bold = () if found is None else found.all
    show_table([first, *(heading(key, narrow=True) for key in columns)], rows, bold)


def verdict_of(table: Table, by: Target) -> str:
    """The outcome in a sentence or two: who leads, and what of it nobody could have avoided."""
    found = table.leaders(DECIDES[by])
    if found is None:
        return "There is nothing to compare."
    row = table.row(found.first)
    lead = f"{table.said(DECIDES[by], f'Fairest by {by}')}. " if len(table.methods) > 1 else ""
    never = row["never_available"] or 0.0
    absent = f" {never:.0f} clients were never there." if never >= 0.5 else ""
    if by == "utility":
        return f"{lead}Its utility per round online varies by {row['utility_cv']:.3f} (CV).{absent}"
    key, noun = SPLIT[by]
    limit, own = (row[f"{key}{part}"] or 0.0 for part in ("_limit", "_avoidable"))
    return (
        f"{lead}Of its {noun} {row[key] or 0:.3f}, {limit:.3f} could not be avoided by anyone who fills as many slots;"
        f" {own:.3f} is its own.{absent}"
    )


def show_run(run: Run) -> None:
    """The table after a run, and its outcome in a sentence."""
    s, seeds = run.spec, f"{run.seeds} seed{'s' if run.seeds > 1 else ''}"
    where = f"{s.population.clients} clients ({s.population.availability})"
    say(f"{where}, {run.rounds} rounds, {s.asked} asked per round, {seeds}")
    show_measures(run.table, RUN_COLUMNS, first="method", decides=DECIDES["share"])
    say(verdict_of(run.table, "share"))


def show_schedules(results: list[Schedule], availability: str, by: Target) -> None:
    """The table of a scheduling comparison, and its outcome in a sentence."""
    from fedparity.experiment.schedule import schedule_table

    s = results[0].setting
    draws = f", mean of {s.draws} draws" if s.draws > 1 else ""
    say(f"{s.clients} clients ({availability}), {s.rounds} rounds, {s.cohort} asked per round{draws}")
    if s.watched:
        say(f"The server has watched the {s.watched} rounds before the first.")
    table = schedule_table(results)
    show_measures(table, SHOWN[by], first="scheduler", decides=DECIDES[by])
    say(verdict_of(table, by))


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
            table.add_row(entry["name"], escape(entry["summary"]))
        console.print(f"[bold]{name}[/bold]")
        console.print(table)
        console.print()
    console.print("fedparity list NAME tells more about one of them.")


def show_entry(entry: dict[str, Any], text: str, cites: Sequence[str] = ()) -> None:
    """All about one component, or one part of a method (which has a `key`)."""
    from rich.markup import escape

    console = console_for()
    kind = entry.get("key") or entry["table"]
    console.print(f"[bold]{entry['name']}[/bold] ({kind}): {escape(entry['summary'])}")
    if text:
        console.print(escape(text), soft_wrap=True)
    for key, default in entry["parameters"].items():
        console.print(f"  {key} = {escape(str(default))}", soft_wrap=True)
    if entry["reference"]:
        console.print(f"Reference: {escape(entry['reference'])}", soft_wrap=True)
    if cites:
        console.print(f"Cite: {', '.join(cites)} (fedparity cite {entry['name']})", soft_wrap=True)
