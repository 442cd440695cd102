"""The command line. Without `--json` it is for eyes; with it, stdout holds JSON alone and the rest goes to stderr.

Exit codes: 0 done; 1 a check failed; 2 bad input, one line on stderr; 3 ended early; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

import click
import typer

from fedparity.errors import ConfigError, FedparityError, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from fedparity.experiment import Schedule
    from fedparity.protocols import Availability
    from fedparity.table import Table
    from fedparity.trace import Trace

app = typer.Typer(
    name="fedparity",
    help="Fair federated learning for clients that come and go.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

COMPARED = (
    "uniform",
    "inverse",
    "reactive",
    "reactive:missed=since_selected",
    "round_robin",
    "least_served",
    "parity",
)
"""What `--scheduler all` compares: every scheduler aimed at equal shares, and the paper's rules in both readings."""

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

JSON_OPTION = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    try:
        code = app(standalone_mode=False)
    except FedparityError as error:
        _fail(str(error))
    except click.exceptions.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "fedparity"
        # Two layers below each add a hint of their own; one is enough.
        message, hint, _ = f"{error.format_message()} ".partition(" Did you mean ")
        near = error.format_message().partition(" Did you mean ")[2].partition(" Did you mean ")[0]
        _fail(f"{message.strip().rstrip('.')}{'; did you mean ' + near.strip() if hint else ''} (see {command} --help)")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    print("fedparity: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201 - the one line of an error
    sys.exit(2)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201 - machine output, never styled


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def _version(value: bool) -> None:
    if value:
        from fedparity import __version__

        typer.echo(f"fedparity {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Fair federated learning for clients that come and go."""


@app.command("schedule")
def schedule_command(  # noqa: PLR0917 - options of a command are named by the caller
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="NAME[:key=value,...]; may be given several times, or `all` for a comparison.  [parity]"),
    ] = None,
    availability: Annotated[str, typer.Option(help="NAME[:key=value,...], or the path of a trace file.")] = "bernoulli",
    clients: Annotated[int | None, typer.Option(help="Registered clients (N).  [100, or the trace's]")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds (T).  [50, or the trace's]")] = None,
    cohort: Annotated[int, typer.Option(help="Clients asked a round (m).")] = 10,
    seed: Annotated[int, typer.Option(help="Root of all random numbers; draw d uses seed + d.")] = 0,
    draws: Annotated[int | None, typer.Option(help="Realisations to average over.  [10, or 1 for a trace]")] = None,
    estimator: Annotated[
        str | None, typer.Option(help="NAME[:key=value,...].  [forecast for parity, else mean]")
    ] = None,
    dropout: Annotated[float, typer.Option(help="Chance to leave before a round's end.")] = 0.0,
    over_select: Annotated[float, typer.Option(help="Share asked beyond the cohort.")] = 0.0,
    gain_spread: Annotated[float, typer.Option(help="Largest over smallest mean gain a participation.")] = 1.0,
    round_seconds: Annotated[float | None, typer.Option(help="Trace files: seconds between rounds.  [1800]")] = None,
    start: Annotated[float | None, typer.Option(help="Trace files: seconds after the earliest first_seen.")] = None,
    work_seconds: Annotated[float | None, typer.Option(help="Trace files: a round's work; leave before: drop.")] = None,
    by: Annotated[
        Target,
        typer.Option(help="What to compare: equal shares, counts or utility per round online."),
    ] = "share",
    workers: Annotated[int, typer.Option(help="Processes; the results are the same with any number.")] = 1,
    as_json: JSON_OPTION = False,
) -> None:
    """Scheduling only: how fair a scheduler is on a population, and how much fairer any could have been."""
    from fedparity.availability import ESTIMATORS
    from fedparity.experiment import Gains, Setting, schedule
    from fedparity.schedulers import SCHEDULERS
    from fedparity.trace import Trace

    names = [n for name in scheduler or ["parity"] for n in (COMPARED if name == "all" else (name,))]
    built = {name: SCHEDULERS.build(name) for name in names}
    population = _population(availability, rounds, round_seconds, start, work_seconds)
    setting = Setting(
        population,
        clients=clients if clients is not None else population.num_clients if isinstance(population, Trace) else 100,
        rounds=rounds if rounds is not None else population.num_rounds if isinstance(population, Trace) else 50,
        cohort=cohort,
        seed=seed,
        draws=draws if draws is not None else 1 if isinstance(population, Trace) else 10,
        dropout=dropout,
        over_select=over_select,
        gains=Gains(gain_spread),
        estimator=None if estimator is None else ESTIMATORS.build(estimator),
    )
    results = []
    with _Progress(len(built) * setting.draws) as progress:
        for name, policy in built.items():
            progress.describe(name)
            done = schedule(policy, setting, name=name, workers=workers, progress=progress.step, by=by)
            results.append(done)
    if as_json:
        found = [_schedule_json(result, availability) for result in results]
        _print_json(found[0] if len(found) == 1 else found)
    else:
        _show_schedules(results, availability, by)


def _population(
    text: str, rounds: int | None, round_seconds: float | None, start: float | None, work_seconds: float | None
) -> Availability | Trace:
    from fedparity.availability import AVAILABILITY, load_trace

    name = text.partition(":")[0]
    if name not in AVAILABILITY and ("/" in text or "." in Path(text).suffix or Path(text).exists()):
        return load_trace(text, rounds=rounds, round_seconds=round_seconds, start=start, work_seconds=work_seconds)
    for option, value in (("round-seconds", round_seconds), ("start", start), ("work-seconds", work_seconds)):
        if value is not None:
            raise ConfigError(f"--{option} is for trace files, but availability {text!r} is a model; leave it out")
    return AVAILABILITY.build(text)


class _Progress:
    """A bar on stderr, if somebody is looking."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = _console(stderr=True)
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
        self._bar.update(self._task, description=text)

    def step(self, _: int) -> None:
        self._bar.advance(self._task)


def _schedule_json(result: Schedule, availability: str) -> dict[str, Any]:
    s = result.setting
    return {
        "scheduler": result.name,
        "availability": availability,
        "clients": s.clients,
        "rounds": s.rounds,
        "cohort": s.cohort,
        "seed": s.seed,
        "draws": s.draws,
        "journal_sha256": result.journal_sha256,
        **result.means(),
    }


def _show_schedules(results: list[Schedule], availability: str, by: Target) -> None:
    from rich.markup import escape
    from rich.table import Table

    s = results[0].setting
    console = _console()
    draws = f", mean of {s.draws} draws" if s.draws > 1 else ""
    title = f"{s.clients} clients ({escape(availability)}), {s.rounds} rounds, {s.cohort} asked a round{draws}"
    console.print(title, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("scheduler", overflow="fold")
    for header, _ in SHOWN[by]:
        table.add_column(header, justify="right", no_wrap=True)
    best = min(results, key=lambda r: r.means()[DECIDES[by]] or 0.0)
    for result in results:
        means = result.means()
        cells = [form.format(means[key]) if means[key] is not None else "-" for _, (key, form) in SHOWN[by]]
        table.add_row(escape(result.name), *cells, style="bold" if result is best and len(results) > 1 else "")
    console.print(table)
    console.print(_verdict(results, best, by), soft_wrap=True)


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


def _tables() -> dict[str, Table[Any]]:
    from fedparity.availability import AVAILABILITY, ESTIMATORS
    from fedparity.schedulers import SCHEDULERS
    from fedparity.surrogates import SURROGATES
    from fedparity.utility import UTILITIES
    from fedparity.weightings import WEIGHTINGS

    return {
        "schedulers": SCHEDULERS,
        "availability": AVAILABILITY,
        "estimators": ESTIMATORS,
        "utilities": UTILITIES,
        "weightings": WEIGHTINGS,
        "surrogates": SURROGATES,
    }


@app.command("list")
def list_command(
    what: Annotated[str | None, typer.Argument(help="A table, or the name of one component.")] = None,
    as_json: JSON_OPTION = False,
) -> None:
    """What there is: schedulers, availability, estimators, utilities, weightings, surrogates, metrics, or one NAME."""
    from fedparity.metrics import METRICS

    tables = {name: [t.describe(entry) for entry in t] for name, t in _tables().items()}
    tables["metrics"] = [
        {"name": name, "summary": text, "parameters": {}, "reference": None} for name, text in METRICS.items()
    ]
    if what is None or what in tables:
        chosen = tables if what is None else {what: tables[what]}
        if as_json:
            _print_json(chosen)
        else:
            _show_tables(chosen)
        return
    found = [{"table": t, **entry} for t, entries in tables.items() for entry in entries if entry["name"] == what]
    if not found:
        raise unknown("table or name", what, [*tables, *(e["name"] for entries in tables.values() for e in entries)])
    if as_json:
        _print_json(found[0] if len(found) == 1 else found)
    else:
        for entry in found:
            _show_entry(entry)


def _show_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = _console()
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


def _show_entry(entry: dict[str, Any]) -> None:
    from rich.markup import escape

    console = _console()
    console.print(f"[bold]{entry['name']}[/bold] ({entry['table']}): {escape(entry['summary'])}")
    module = _module_text(entry)
    if module:
        console.print(escape(module), soft_wrap=True)
    for key, default in entry["parameters"].items():
        console.print(f"  {key} = {escape(str(default))}", soft_wrap=True)
    if entry["reference"]:
        console.print(f"Reference: {escape(entry['reference'])}", soft_wrap=True)


def _module_text(entry: dict[str, Any]) -> str:
    import inspect

    from fedparity.table import component_class

    table = _tables().get(entry["table"])
    if table is None:
        return ""
    return inspect.getdoc(sys.modules[component_class(table[entry["name"]]).__module__]) or ""
