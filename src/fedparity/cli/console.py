"""What every command shares, in one place each: options, exit codes, JSON, lines and tables, the bar, help pages.

Without `--json` the output is for eyes and fits 80 columns; with it, stdout holds JSON alone, all else goes to stderr.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import click
import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from fedparity.core.errors import ConfigError, FedparityError
from fedparity.core.ledger import Normaliser

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

CHECK_FAILED, BAD_INPUT, ENDED_EARLY, INTERRUPTED = 1, 2, 3, 130
"""Exit codes; 0: done."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a spec key: key=value. Repeatable."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
Reading = Annotated[
    Normaliser | None,
    typer.Option(
        "--normaliser",
        metavar="RULE",
        help="Utility by availability, participation or imputed.",
        show_default="the spec's",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in the folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")]


class EndedEarlyError(FedparityError):
    """Something failed after rounds were done and kept."""


def fail(message: str, code: int = BAD_INPUT) -> NoReturn:
    """End with one line on stderr."""
    print(f"fedparity: {printable(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201 - the one line of an error
    sys.exit(code)


def keep(read: Iterable[str | Path | None], *written: Path | None) -> None:
    """Refuse to write over a file that the same command reads: a log or a trace may be the only copy."""
    sources = [path for one in read if one is not None and (path := Path(one)).exists()]
    for out in written:
        if out is not None and out.exists() and any(out.samefile(one) for one in sources):
            raise ConfigError(f"{out} is read here, and would be replaced; give another file")


def split_list(text: str) -> list[str]:
    """The parts of `a,b:key=1,key2=2,c`: a part that is only `key=value` belongs to the component before it."""
    found: list[str] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        before_equals, equals, _ = part.partition("=")
        if found and equals and ":" not in before_equals:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def names_of(table: str = "") -> Callable[[click.Context, str], list[str]]:
    """Completion in a shell: the names of a table that `fedparity list` shows, also after a comma.

    Without a table, those of the table that stands before, or of all tables.
    """

    def found(ctx: click.Context, incomplete: str) -> list[str]:
        from fedparity.cli import catalogue

        tables = catalogue.tables()
        chosen = table or str(ctx.params.get("what"))
        listed = {chosen: tables[chosen]} if chosen in tables else tables
        names = [entry["name"] for entries in listed.values() for entry in entries]
        before, comma, last = incomplete.rpartition(",")
        known = dict.fromkeys(names if chosen in tables else [*tables, *names])
        return [f"{before}{comma}{name}" for name in known if name.startswith(last)]

    return found


# -- what is printed --------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Text from outside, safe to print: nothing in it moves the cursor or changes a colour."""
    return "".join(c if c.isprintable() else "?" for c in text)


def console_for(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr; it honours NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def say(text: str, *, stderr: bool = False, wrap: bool = False) -> None:
    """One line, whatever is in it; `wrap`: prose, broken to the width of the terminal."""
    console_for(stderr=stderr).print(printable(text), markup=False, soft_wrap=not wrap)


def print_json(value: object) -> None:
    """A result for scripts."""
    print_text(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """A file's text as it is: machines read it, so it is never styled."""
    print(text, end="")  # noqa: T201


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, bold: Collection[str] = ()) -> None:
    """Names on the left, numbers on the right; rows of the names in `bold` stand out."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0), show_header=any(head))
    table.add_column(escape(printable(head[0])), overflow="fold")
    for name in head[1:]:
        table.add_column(escape(printable(name)), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row), style="bold" if row[0] in bold else "")
    console_for().print(table)


class Bar:
    """How far long steps are, and the time left: on stderr, if somebody is looking."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console_for(stderr=True)
        self.shown = self._console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}", markup=False),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self.shown,
            redirect_stdout=False,  # stdout may be a file
            redirect_stderr=False,
        )
        self._steps: dict[str, tuple[TaskID, int]] = {}
        self._now = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tell(self, what: str, done: int, total: int, note: str = "") -> None:
        """`done` of `total` (0: unknown) parts of the step `what` are done; `note` is shown beside it.

        Each step has its own clock, so that preparing the next seed does not spoil the time left for the rounds.
        """
        if not self.shown:
            return
        task, before = self._steps.get(what) or (self._progress.add_task("", total=None, count=""), 0)
        if done < before:
            self._progress.reset(task)
        self._steps[what] = task, done
        if what != self._now and self._now:
            self._progress.update(self._steps[self._now][0], visible=False)
        self._now = what
        self._progress.update(
            task,
            description=printable(f"{what} {note}".rstrip())[:48],
            completed=done,
            total=total or None,
            count=f"{done:,}/{total:,}" if total else "",
            visible=True,
        )

    def say(self, line: str) -> None:
        """One line on stdout, above the bar where both are on the same terminal."""
        out = console_for()
        (self._console if self.shown and out.is_terminal else out).print(printable(line), markup=False, soft_wrap=True)


# -- help pages -------------------------------------------------------------------------------------------------------


class _Formatter(click.HelpFormatter):
    """Help without the backslashes that typer puts before its brackets, and with room for one line per option."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 34, col_spacing: int = 2) -> None:
        super().write_dl([(name, text.replace("\\[", "[")) for name, text in rows], col_max, col_spacing)


class _Context(click.Context):
    formatter_class = _Formatter


class _Page(click.Command):
    """A command whose help ends in examples: a last paragraph of lines that begin with `fedparity `."""

    context_class = _Context

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help, found, rest = (self.help or "").partition("\n\nfedparity ")
        self.examples = [line.strip() for line in (found + rest).strip().splitlines()]

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first paragraph whole, on as many lines as it takes: click would cut it off in the middle."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing: click 8.5 writes here what typer writes with the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one per line."""
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


class Command(_Page, TyperCommand):
    """One command; what typer was told of its arguments is given back to them, since click 8.5 forgets it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        hints = typing.get_type_hints(getattr(self.callback, "__wrapped__", group), include_extras=True)
        for parameter in self.params:
            for told in getattr(hints.get(str(parameter.name)), "__metadata__", ()):
                if isinstance(told, ArgumentInfo):
                    parameter.help = told.help


class _Group(_Page, TyperGroup):
    """Several commands."""


def group(name: str, text: str, *, completion: bool = False) -> typer.Typer:
    """An empty group of commands; `text` says what they are for, and ends in examples."""
    return typer.Typer(
        name=name,
        help=text,
        cls=_Group,
        no_args_is_help=True,
        add_completion=completion,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 140, "color": False},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
