"""`fedparity schedule`: schedulers on a population, without training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import AsJson, Bar, names_of, print_json, split_list
from fedparity.cli.show import Target, show_schedules
from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.core.protocols import Availability
    from fedparity.core.trace import Trace
    from fedparity.experiment import Schedule

COMPARED = ("uniform", "inverse", "reactive", "cup_authors", "round_robin", "least_served", "parity")
"""What `--scheduler all` compares: those aimed at equal shares, the paper's rule as printed and as coded."""


def schedule_command(
    *,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...",
            help="NAME[:key=value,...], several, or all (below).",
            show_default="parity",
            autocompletion=names_of("schedulers"),
        ),
    ] = None,
    availability: Annotated[
        str,
        typer.Option(
            help="NAME[:key=value,...], or the path of a trace file.", autocompletion=names_of("availability")
        ),
    ] = "bernoulli",
    clients: Annotated[
        int | None, typer.Option(help="Registered clients (N).", show_default="100, or the trace's")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds (T).", show_default="50, or the trace's")] = None,
    cohort: Annotated[int, typer.Option(help="Clients asked per round (m).")] = 10,
    seed: Annotated[int, typer.Option(help="Root of all random numbers; draw d uses seed + d.")] = 0,
    draws: Annotated[
        int | None, typer.Option(help="Realisations to average over.", show_default="10, or 1 for a trace")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(help="NAME[:key=value,...], or oracle (knows the future).", show_default="each scheduler's"),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Chance of a client to leave before the round ends.")] = 0.0,
    over_select: Annotated[float, typer.Option(help="Share of clients asked beyond the cohort.")] = 0.0,
    gain_spread: Annotated[
        float, typer.Option(help="Largest over smallest expected utility gain per participation.")
    ] = 1.0,
    rule: Annotated[str | None, typer.Option(help="Trace files of events: when a device is ready.")] = None,
    drop_open_end: Annotated[
        bool,
        typer.Option("--drop-open-end", help="Trace files of events: drop what is open at the end, as FLASH does."),
    ] = False,
    devices: Annotated[Path | None, typer.Option(help="Trace files of intervals: the table of devices.")] = None,
    round_seconds: Annotated[
        float | None, typer.Option(help="Trace files: seconds between rounds.", show_default="the file's, or 1800")
    ] = None,
    start: Annotated[
        float | None,
        typer.Option(help="Trace files: seconds after the earliest first_seen.", show_default="the file's, or 0"),
    ] = None,
    work_seconds: Annotated[
        float | None,
        typer.Option(help="Seconds a client must stay online per round; leaving earlier counts as a dropout."),
    ] = None,
    watch: Annotated[
        int | None, typer.Option(help="Trace files: rounds before --start the server has seen.", show_default="all")
    ] = None,
    by: Annotated[Target, typer.Option(help="Compare equal shares, or counts or utility per round online.")] = "share",
    online_limit: Annotated[
        bool, typer.Option("--online-limit", help="Add what the fairest scheduler known reaches without hindsight.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; the results are the same with any number.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Scheduling only: how fair a scheduler is on a population, and how much fairer any could have been.

    `all` is those aimed at equal shares, and the paper's rule: uniform, inverse, reactive, cup_authors, round_robin,
    least_served, parity.

    fedparity schedule --scheduler all --availability phones
    fedparity schedule --scheduler uniform,parity:target=opportunity --draws 20 --json
    fedparity schedule --availability trace.csv.gz --work-seconds 300
    """
    from fedparity.core.trace import Trace
    from fedparity.estimators import estimator_of
    from fedparity.experiment import Gains, Setting, schedule
    from fedparity.experiment.schedule import with_online_limit
    from fedparity.schedulers import SCHEDULERS

    if online_limit and by != "share":
        raise ConfigError(f"--online-limit is a limit of shares, but --by is {by}; leave one of the two out")
    asked = [name for text in scheduler or ["parity"] for name in split_list(text) or [text]]
    names = [n for name in asked for n in (COMPARED if name == "all" else (name,))]
    built = {name: SCHEDULERS.build(name) for name in names}
    population = _population(
        availability,
        rounds,
        rule=rule,
        open_end=False if drop_open_end else None,
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
    results: list[Schedule] = []
    with Bar() as bar:

        def tell(done: int) -> None:
            each = setting.draws * setting.rounds
            bar.tell("rounds", len(results) * each + done, len(built) * each, note)

        for note, policy in built.items():
            tell(0)
            results.append(schedule(policy, setting, name=note, workers=workers, progress=tell, by=by))
    online = None
    if online_limit:
        results, online = with_online_limit(results, workers=workers)
    if as_json:
        found = [_json(result, availability) for result in results]
        print_json(found[0] if len(found) == 1 else found)
    else:
        show_schedules(results, availability, by, online)


def _population(text: str, rounds: int | None, **replay: Any) -> Availability | Trace:
    """A model by name, or a trace file replayed as `replay` says; None leaves a choice to the file."""
    from fedparity.availability import AVAILABILITY, looks_like_a_path
    from fedparity.traces import load_trace

    given = {key: value for key, value in replay.items() if value is not None}
    if looks_like_a_path(text):
        return load_trace(text, rounds=rounds, **given)
    for key in given:
        option = "drop-open-end" if key == "open_end" else key.replace("_", "-")
        raise ConfigError(f"--{option} is for trace files, but availability {text!r} is a model; leave it out")
    return AVAILABILITY.build(text)


def _json(result: Schedule, availability: str) -> dict[str, Any]:
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
