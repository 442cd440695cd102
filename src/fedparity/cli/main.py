"""The command line. Without `--json` it is for eyes; with it, stdout holds JSON alone and the rest goes to stderr.

Exit codes: 0 done; 1 a check failed; 2 bad input, one line on stderr; 3 ended early; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
import typer

from fedparity.cli.compare import cite_command, compare_command
from fedparity.cli.data import data_app
from fedparity.cli.run import carried_out
from fedparity.cli.show import (
    Progress,
    Target,
    plain,
    say,
    show_entry,
    show_results,
    show_schedules,
    show_tables,
)
from fedparity.cli.trace import trace_app
from fedparity.cli.tune import tune_command
from fedparity.core.errors import ConfigError, FedparityError
from fedparity.core.imports import without_imports

if TYPE_CHECKING:
    from fedparity.core.protocols import Availability
    from fedparity.core.trace import Trace
    from fedparity.experiment import Schedule
    from fedparity.experiment.spec import Spec

app = typer.Typer(
    name="fedparity",
    help="Fair federated learning for clients that come and go.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

app.add_typer(trace_app, name="trace")
app.add_typer(data_app, name="data")
app.command("compare")(compare_command)
app.command("cite")(cite_command)
app.command("tune")(tune_command)

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
    print(f"fedparity: {plain(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201 - the one line of an error
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
        str | None,
        typer.Option(help="NAME[:key=value,...], or `oracle`: the future known.  [forecast for parity, else mean]"),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Chance to leave before a round's end.")] = 0.0,
    over_select: Annotated[float, typer.Option(help="Share asked beyond the cohort.")] = 0.0,
    gain_spread: Annotated[float, typer.Option(help="Largest over smallest mean gain a participation.")] = 1.0,
    rule: Annotated[str | None, typer.Option(help="Trace files of events: when a device is ready.")] = None,
    devices: Annotated[Path | None, typer.Option(help="Trace files of intervals: the table of devices.")] = None,
    round_seconds: Annotated[float | None, typer.Option(help="Trace files: seconds between rounds.  [1800]")] = None,
    start: Annotated[float | None, typer.Option(help="Trace files: seconds after the earliest first_seen.")] = None,
    work_seconds: Annotated[float | None, typer.Option(help="Trace files: a round's work; leave before: drop.")] = None,
    watch: Annotated[
        int | None, typer.Option(help="Trace files: rounds before --start that the server has seen.  [all]")
    ] = None,
    by: Annotated[
        Target,
        typer.Option(help="What to compare: equal shares, counts or utility per round online."),
    ] = "share",
    workers: Annotated[int, typer.Option(help="Processes; the results are the same with any number.")] = 1,
    as_json: JSON_OPTION = False,
) -> None:
    """Scheduling only: how fair a scheduler is on a population, and how much fairer any could have been."""
    from fedparity.core.trace import Trace
    from fedparity.estimators import estimator_of
    from fedparity.experiment import Gains, Setting, schedule
    from fedparity.schedulers import SCHEDULERS

    names = [n for name in scheduler or ["parity"] for n in (COMPARED if name == "all" else (name,))]
    built = {name: SCHEDULERS.build(name) for name in names}
    population = _population(
        availability,
        rounds,
        rule=rule,
        devices=devices,
        round_seconds=round_seconds,
        start=start,
        work_seconds=work_seconds,
        watch=watch,
    )
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
        estimator=None if estimator is None else estimator_of(estimator),
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


def _population(text: str, rounds: int | None, **replay: Any) -> Availability | Trace:
    """A model by name, or a trace file replayed as `replay` says; None leaves a choice to the file."""
    from fedparity.availability import AVAILABILITY, looks_like_a_path
    from fedparity.traces import load_trace

    if looks_like_a_path(text):
        return load_trace(text, rounds=rounds, **replay)
    for option, value in replay.items():
        if value is not None:
            name = option.replace("_", "-")
            raise ConfigError(f"--{name} is for trace files, but availability {text!r} is a model; leave it out")
    return AVAILABILITY.build(text)


@app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("spec.toml"),
) -> None:
    """Write a commented starter spec."""
    from fedparity.core.files import write_text
    from fedparity.experiment.spec import starter

    if file.exists():
        raise ConfigError(f"{file} is already there; give another name or remove it")
    write_text(file, starter())
    say(f"Wrote {file}. Next: fedparity run {file}")


@app.command("run")
def run_command(  # noqa: PLR0917 - options of a command are named by the caller
    spec: Annotated[Path, typer.Argument(help="A spec file; `fedparity init` writes a starter.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results.  [runs/NAME]")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="key=value laid over the spec; may be given several times.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")] = False,
    as_json: JSON_OPTION = False,
) -> None:
    """Carry out a spec: progress, a table, an outcome, and a folder with plain files and a report."""
    from fedparity.experiment.spec import load, to_toml

    loaded = load(spec, overrides or [])
    text = to_toml(loaded) if overrides else spec.read_text(encoding="utf-8")
    folder = out or Path("runs") / loaded.name
    _carry_out(loaded, text, folder, resume=resume, overwrite=overwrite, as_json=as_json)


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
    text = to_toml(loaded) if overrides else DEMO
    _carry_out(loaded, text, out, resume=False, overwrite=True, as_json=as_json)


def _carry_out(spec: Spec, text: str, out: Path, *, resume: bool, overwrite: bool, as_json: bool) -> None:
    with carried_out(spec, text, out, resume=resume, overwrite=overwrite, quiet=as_json) as (results, _):
        page = out / "report.html"
    if as_json:
        _print_json({**results.summary(), "folder": str(out), "report": str(page)})
    else:
        show_results(results)
        say(f"Report: {page}")
    if not results.complete:
        note = f"Stopped early. Go on with: fedparity run {out / 'spec.toml'} --out {out} --resume"
        say(note, stderr=True)
        raise typer.Exit(130)


@app.command("verify")
def verify_command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    as_json: JSON_OPTION = False,
) -> None:
    """Check a run: every chain, every file, and that the ledger follows from the journal."""
    from fedparity.experiment.runner import state_classes
    from fedparity.store import verify

    verdict = verify(run, state_classes)
    if as_json:
        found = {"run": str(run), "ok": verdict.ok, "rounds": verdict.rounds, "closed": verdict.closed}
        _print_json({**found, "problems": list(verdict.problems)})
    else:
        for problem in verdict.problems:
            say(problem)
        state = "intact" if verdict.ok else "damaged"
        say(f"{run}: {state}, {verdict.rounds} rounds checked")
        if not verdict.closed:
            say("It was not closed cleanly, so there is no manifest to compare files with.")
    if not verdict.ok:
        raise typer.Exit(1)


@app.command("export")
def export_command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.  [RUN-export]")] = None,
    form: Annotated[Literal["csv", "jsonl", "parquet"], typer.Option("--format", help="Kind of files.")] = "csv",
    key: Annotated[Path | None, typer.Option(help="A file with a secret of 16 bytes or more: pseudonyms.")] = None,
    as_json: JSON_OPTION = False,
) -> None:
    """Write a run as tables: rounds, clients, participation."""
    from fedparity.experiment.runner import load_results
    from fedparity.report.export import export
    from fedparity.store import Disk, Store

    secret = None if key is None else Disk(key.parent).read(key.name)
    with Store.read(run) as store:
        files = export(load_results(run, store), out or run.with_name(f"{run.name}-export"), form, secret)
    if as_json:
        _print_json({"run": str(run), "files": [str(f) for f in files], "pseudonyms": key is not None})
    else:
        for file in files:
            say(str(file))


@app.command("erase")
@without_imports()
def erase_command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    client: Annotated[int, typer.Argument(help="The client's number.")],
) -> None:
    """Erase a client from a run: its updates, models, surrogates and row; the chain stays verifiable."""
    from fedparity import report
    from fedparity.experiment.results import REPORT
    from fedparity.experiment.runner import fresh_state, load_results
    from fedparity.store import Store, erase

    lines = erase(run, client, fresh_state)
    with Store.open(run, create=False) as store:
        results = load_results(run, store)
        results.save(run)
        report.write(results, run / REPORT)
    say(f"Erased client {client} from {lines} rounds of {run}")


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
        "watched": s.watched,
        "journal_sha256": result.journal_sha256,
        **result.means(),
    }


@app.command("list")
def list_command(
    what: Annotated[str | None, typer.Argument(help="A table, or the name of one component.")] = None,
    name: Annotated[str | None, typer.Argument(help="One component of that table.")] = None,
    as_json: JSON_OPTION = False,
) -> None:
    """What there is: schedulers, availability, ..., methods, metrics, or everything about one NAME."""
    from fedparity.cli import catalogue

    tables = catalogue.tables()
    if what is None or (what in tables and name is None):
        chosen = tables if what is None else {what: tables[what]}
        if as_json:
            _print_json(chosen)
        else:
            show_tables(chosen)
        return
    found = catalogue.find(what) if name is None else catalogue.find(name, what)
    if as_json:
        told = [{**entry, "cites": catalogue.cites_of(entry)} for entry in found]
        _print_json(told[0] if len(told) == 1 else told)
        return
    for entry in found:
        show_entry(entry, catalogue.text_of(entry), catalogue.cites_of(entry))
        for part in catalogue.parts_of(entry):
            say("")
            show_entry(part, catalogue.text_of(part), catalogue.cites_of(part))
