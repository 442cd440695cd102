"""The command line. Without `--json` it is for eyes; with it, stdout holds JSON alone and the rest goes to stderr.

Exit codes: 0 done; 1 a check failed; 2 bad input, one line on stderr; 3 ended early; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from fedparity.errors import ConfigError, FedparityError, unknown
from fedparity.show import Progress, Rounds, Target, console_for, show_results, show_schedules, show_tables

if TYPE_CHECKING:
    from fedparity.experiment import Method, Schedule
    from fedparity.experiment.spec import Spec
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
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())  # noqa: T201 - the help is what was asked for
        sys.exit(0)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "fedparity"
        # Two layers below each add a hint of their own; one is enough.
        message, hint, _ = f"{error.format_message()} ".partition(" Did you mean ")
        near = error.format_message().partition(" Did you mean ")[2].partition(" Did you mean ")[0]
        _fail(f"{message.strip().rstrip('.')}{'; did you mean ' + near.strip() if hint else ''} (see {command} --help)")
    except MemoryError:
        _fail("not enough memory for that many clients and rounds; lower --clients, --rounds or --workers")
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
    with Progress(len(built) * setting.draws) as progress:
        for name, policy in built.items():
            progress.describe(name)
            done = schedule(policy, setting, name=name, workers=workers, progress=progress.step, by=by)
            results.append(done)
    if as_json:
        found = [_schedule_json(result, availability) for result in results]
        _print_json(found[0] if len(found) == 1 else found)
    else:
        show_schedules(results, availability, by)


def _population(
    text: str, rounds: int | None, round_seconds: float | None, start: float | None, work_seconds: float | None
) -> Availability | Trace:
    from fedparity.availability import AVAILABILITY, load_trace, looks_like_a_path

    if looks_like_a_path(text):
        return load_trace(text, rounds=rounds, round_seconds=round_seconds, start=start, work_seconds=work_seconds)
    for option, value in (("round-seconds", round_seconds), ("start", start), ("work-seconds", work_seconds)):
        if value is not None:
            raise ConfigError(f"--{option} is for trace files, but availability {text!r} is a model; leave it out")
    return AVAILABILITY.build(text)


@app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("spec.toml"),
) -> None:
    """Write a commented starter spec."""
    from fedparity.experiment.spec import starter
    from fedparity.files import write_text

    if file.exists():
        raise ConfigError(f"{file} is already there; give another name or remove it")
    write_text(file, starter())
    console_for().print(f"Wrote {file}. Next: fedparity run {file}", markup=False, soft_wrap=True)


@app.command("run")
def run_command(
    spec: Annotated[Path, typer.Argument(help="A spec file; `fedparity init` writes a starter.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results.  [runs/NAME]")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="key=value laid over the spec; may be given several times.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the results that are in the folder.")] = False,
    as_json: JSON_OPTION = False,
) -> None:
    """Carry out a spec: progress, a table, an outcome, and a folder with plain files and a report."""
    from fedparity.experiment.spec import load, to_toml

    loaded = load(spec, overrides or [])
    text = to_toml(loaded) if overrides else spec.read_text(encoding="utf-8")
    _carry_out(loaded, text, out or Path("runs") / loaded.name, overwrite=overwrite, as_json=as_json)


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for the results; what a demo left there is replaced.")] = Path(
        "runs/demo"
    ),
    overrides: Annotated[list[str] | None, typer.Option("--set", help="key=value laid over the demo's spec.")] = None,
    as_json: JSON_OPTION = False,
) -> None:
    """The embedded comparison: seven methods, phones that come and go, real digits."""
    from fedparity.experiment.demo import DEMO
    from fedparity.experiment.spec import parse, to_toml

    loaded = parse(DEMO, "demo", overrides or [])
    _carry_out(loaded, to_toml(loaded) if overrides else DEMO, out, overwrite=True, as_json=as_json)


def _carry_out(spec: Spec, text: str, out: Path, *, overwrite: bool, as_json: bool) -> None:
    from fedparity import report
    from fedparity.experiment.results import prepare_folder
    from fedparity.experiment.runner import run_spec
    from fedparity.experiment.stop import Stop

    prepare_folder(out, overwrite=overwrite)
    with Stop() as stop, Rounds(spec, quiet=as_json) as rounds:
        results = run_spec(spec, rounds.tell, lambda: stop.asked)
    results.save(out, text)
    page = out / "report.html"
    report.write(results, page)
    if as_json:
        _print_json({**results.summary(), "folder": str(out), "report": str(page)})
    else:
        show_results(results)
        console_for().print(f"Report: {page}", markup=False, soft_wrap=True)
    if stop.asked and not results.complete:
        console_for(stderr=True).print(f"Stopped early; what was done is in {out}", markup=False, soft_wrap=True)
        raise typer.Exit(130)


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
    """What there is: schedulers, availability, ..., methods, metrics, or everything about one NAME."""
    from fedparity.experiment import METHODS
    from fedparity.metrics import METRICS

    tables = {name: [t.describe(entry) for entry in t] for name, t in _tables().items()}
    tables["methods"] = [_method_entry(name, m) for name, m in METHODS.items()]
    tables["metrics"] = [
        {"name": name, "summary": text, "parameters": {}, "reference": None} for name, text in METRICS.items()
    ]
    if what is None or what in tables:
        chosen = tables if what is None else {what: tables[what]}
        if as_json:
            _print_json(chosen)
        else:
            show_tables(chosen)
        return
    found = [{"table": t, **entry} for t, entries in tables.items() for entry in entries if entry["name"] == what]
    if not found:
        raise unknown("table or name", what, [*tables, *(e["name"] for entries in tables.values() for e in entries)])
    if as_json:
        _print_json(found[0] if len(found) == 1 else found)
    else:
        for entry in found:
            _show_entry(entry)


def _method_entry(name: str, method: Method) -> dict[str, Any]:
    parts = {"scheduler": method.scheduler, "weighting": method.weighting, "surrogate": method.surrogate}
    return {
        "name": name,
        "summary": method.summary,
        "parameters": {**parts, "mixing": method.mixing},
        "reference": method.reference,
    }


def _show_entry(entry: dict[str, Any]) -> None:
    from rich.markup import escape

    console = console_for()
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
