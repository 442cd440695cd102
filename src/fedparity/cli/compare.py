"""`fedparity compare` and `fedparity cite`: methods side by side, and what to cite for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedparity.cli.run import carried_out
from fedparity.cli.show import console_for, plain, say
from fedparity.core.errors import ConfigError, OutputError, unknown

if TYPE_CHECKING:
    from fedparity.experiment.compare import Comparison, Metric, Stat
    from fedparity.experiment.spec import MethodSpec, Spec

JSON_OPTION = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
RUN_FOLDER, FOLDER = Path("runs/compare"), Path("runs/comparison")
"""Where runs and comparisons of runs go unless told."""
DEFAULT = """\
version = 1
name = "compare"
seeds = 5
rounds = 50
cohort = 5
[population]
clients = 100
availability = "phones"
[task]
dataset = "digits"
[[methods]]
name = "uniform"
"""


def compare_command(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of finished runs.", metavar="RUN...")] = None,
    *,
    methods: Annotated[
        str | None, typer.Option(help="Run these first: a,b,c (fedparity list methods), or all.")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="A spec to run them in.  [digits, phones, 100 clients, m=5]")
    ] = None,
    beta: Annotated[str | None, typer.Option(help="Adds parity:target=β for each of 0,.25,.5,.75,1.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds (T).  [50, or the spec's]")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repetitions.  [5, or the spec's]")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="key=value laid over the spec.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Differences are to this one.  [uniform, else the first]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Threads; the results are the same with any number.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for files.  [runs/compare; of RUN...: runs/comparison]")
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json", "latex"], typer.Option("--format", help="What is printed.")
    ] = "table",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the runs that are in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the runs that are in the folder.")] = False,
    as_json: JSON_OPTION = False,
) -> None:
    """Methods paired seed by seed: means, differences with intervals, ranks, cost; CSV, JSON, LaTeX and a picture."""
    if as_json and form not in ("table", "json"):
        raise ConfigError(f"--json and --format {form} exclude each other; give one")
    shown = "json" if as_json else form
    if runs:
        given: dict[str, object] = {
            "--methods": methods,
            "--spec": spec,
            "--beta": beta,
            "--rounds": rounds,
            "--seeds": seeds,
        }
        given |= {"--set": overrides or None, "--workers": workers}
        given |= {"--resume": resume or None, "--overwrite": overwrite or None}
        for option, value in given.items():
            if value is not None:
                raise ConfigError(f"{option} is for runs to be made, but {runs[0]} is there already; leave it out")
        _compare_runs(runs, out or FOLDER, reference, shown)
        return
    if methods is None and spec is None:
        raise ConfigError("nothing to compare; give folders of runs, --methods a,b,c or --spec FILE")
    options = {"rounds": rounds, "seeds": seeds, "workers": workers}
    laid_over = [f"{key}={value}" for key, value in options.items() if value is not None] + (overrides or [])
    built = _spec_of(spec, methods, beta, laid_over)
    _check_reference(reference, [m.name for m in built.methods])
    _run_and_compare(built, out or RUN_FOLDER, reference, shown, resume=resume, overwrite=overwrite)


def _compare_runs(runs: list[Path], out: Path, reference: str | None, shown: str) -> None:
    from fedparity.experiment.compare import compare, read_part

    if (out / "run.db").exists():
        raise ConfigError(f"{out} holds a run, whose files are sealed; give another --out")
    found = compare([read_part(run) for run in runs], reference)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be made ({error.strerror}); choose another --out") from error
    _tell(found, _write(found, out), shown)


def _run_and_compare(
    spec: Spec, out: Path, reference: str | None, shown: str, *, resume: bool, overwrite: bool
) -> None:
    from fedparity.experiment.compare import compare, part_of
    from fedparity.experiment.spec import to_toml

    quiet = shown != "table"
    with carried_out(spec, to_toml(spec), out, resume=resume, overwrite=overwrite, quiet=quiet) as (results, store):
        if results.complete:
            found = compare([part_of(results, store, str(out))], reference)
            files = _write(found, out)
    if not results.complete:
        asked = f" --reference {reference}" if reference else ""
        again = f"fedparity compare --spec {out / 'spec.toml'} --out {out}{asked} --resume"
        say(f"Stopped early. Go on with: {again}", stderr=True)
        raise typer.Exit(130)
    _tell(found, files, shown)


def _spec_of(path: Path | None, methods: str | None, beta: str | None, overrides: list[str]) -> Spec:
    """The spec with the contenders asked for; a name that the spec defines is taken from there."""
    from fedparity.experiment.compare import with_betas
    from fedparity.experiment.methods import METHODS
    from fedparity.experiment.spec import MethodSpec, load, parse, to_toml

    base = parse(DEFAULT, "--set", overrides) if path is None else load(path, overrides)
    own = {} if path is None else {m.name: m for m in base.methods}
    chosen: list[MethodSpec] = list(own.values())
    if methods is not None:
        names = [*METHODS, *(n for n in own if n not in METHODS)] if methods.strip() == "all" else _split(methods)
        for name in names:
            if name not in own and name not in METHODS:
                raise unknown("method", name, {*METHODS, *own})
        chosen = [own.get(name) or MethodSpec(name=name) for name in names]
        if methods.strip() == "all":
            chosen = [m for m in chosen if _fits(base, m)]
    if not chosen:
        raise ConfigError("--methods names none; give a,b,c or all")
    contenders = with_betas(chosen, [] if beta is None else _betas(beta))
    return parse(to_toml(base.model_copy(update={"methods": contenders})), "--methods" if path is None else str(path))


def _fits(spec: Spec, method: MethodSpec) -> bool:
    """Whether a method can run on the spec's task at all; if not, it is said why."""
    from fedparity.experiment.runner import check_methods

    try:
        check_methods(spec.model_copy(update={"methods": (method,)}))
    except ConfigError as error:
        say(f"Left out: {error}", stderr=True)
        return False
    return True


def _split(text: str) -> list[str]:
    return [part for part in (p.strip() for p in text.split(",")) if part]


def _betas(text: str) -> list[float]:
    found = []
    for part in _split(text):
        try:
            value = float(part)
        except ValueError:
            value = -1.0
        if not 0 <= value <= 4:
            raise ConfigError(f"--beta {part!r} must be a number between 0 and 4; write them 0,.25,.5,.75,1")
        found.append(value)
    if not found:
        raise ConfigError("--beta names none; write numbers between 0 and 4: 0,.25,.5,.75,1")
    return found


def _check_reference(reference: str | None, names: list[str]) -> None:
    if reference is not None and reference not in names:
        raise unknown("reference method", reference, names)


def _write(found: Comparison, folder: Path) -> list[str]:
    """Every file of a comparison; the picture only where accuracy is defined."""
    from fedparity.core.files import remove, write_text
    from fedparity.report.latex import to_latex
    from fedparity.report.tradeoff import draw_tradeoff
    from fedparity.store.manifest import COMPARISON

    picture = draw_tradeoff(found)
    files = [str(folder / name) for name in COMPARISON if picture or name != "tradeoff.svg"]
    told = json.dumps(found.to_json(files), indent=2, allow_nan=False) + "\n"
    texts = (found.to_csv(), told, to_latex(found), f"{picture}\n" if picture else "")
    for name, text in zip(COMPARISON, texts, strict=True):
        if text:
            write_text(folder / name, text)
        else:
            remove(folder / name)
    return files


# -- for eyes ---------------------------------------------------------------------------------------------------------


TABLES = (
    ("accuracy", "avg_client_accuracy", "own_accuracy", "worst_accuracy", "variance_percent2"),
    ("utility_cv", "jain_utility", "coverage"),
    ("selection_gap", "selection_gap_avoidable", "gini", "gini_avoidable"),
)


def _tell(found: Comparison, files: list[str], shown: str) -> None:
    from fedparity.report.latex import to_latex

    if shown == "json":
        _print_json(found.to_json(files))
    elif shown == "csv":
        print(found.to_csv(), end="")  # noqa: T201 - machine output, never styled
    elif shown == "latex":
        print(to_latex(found), end="")  # noqa: T201 - machine output, never styled
    else:
        _show(found, files)


def _show(found: Comparison, files: list[str]) -> None:
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
    console_for().print(plain(found.outcome()), markup=False)
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
    _table((f"minus {plain(found.reference)}", *heads, "pairs"), rows)


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
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(escape(head[0]), overflow="fold")
    for name in head[1:]:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(plain(cell)) for cell in row))
    console_for().print(table)
    console_for().print()


# -- citations --------------------------------------------------------------------------------------------------------


def cite_command(
    what: Annotated[
        list[str], typer.Argument(help="Spec files, folders of runs, or names (fedparity list).", metavar="WHAT...")
    ],
    *,
    as_json: JSON_OPTION = False,
) -> None:
    """BibTeX of everything a run uses: methods, components, data, traces."""
    from fedparity.report import citations

    keys = list(dict.fromkeys(key for text in what for key in _keys(text)))
    text = citations.bibtex(keys)
    if as_json:
        _print_json({"keys": keys, "bibtex": text})
    elif keys:
        print(text, end="")  # noqa: T201 - goes into a .bib file as it is
    else:
        say(f"{', '.join(what)}: nothing to cite beyond fedparity itself", stderr=True)


def _keys(text: str) -> list[str]:
    from fedparity.availability import looks_like_a_path
    from fedparity.cli import catalogue
    from fedparity.report import citations

    spec = _spec_behind(text)
    if spec is None:
        if text in citations.ENTRIES and not _listed_name(text):
            return [text]
        return [key for entry in catalogue.find(text) for key in catalogue.cites_of(entry)]
    availability = spec.population.availability
    if looks_like_a_path(availability) and catalogue.trace_kind(availability) is None:
        say(f"fedparity: {availability} cannot be read here; add a citation of the trace yourself", stderr=True)
    return catalogue.cites_of_spec(spec)


def _listed_name(text: str) -> bool:
    from fedparity.cli import catalogue

    return any(entry["name"] == text for entries in catalogue.tables().values() for entry in entries)


def _spec_behind(text: str) -> Spec | None:
    """The spec of a file or a run; None if the text is no path."""
    from fedparity.experiment.spec import load, parse
    from fedparity.store import Store

    path = Path(text)
    if (path / "run.db").exists() or (path.is_dir() and not _listed_name(text)):
        with Store.read(path) as store:
            return parse(store.spec(), f"{path}: its spec")
    return load(path) if path.is_file() or path.suffix == ".toml" or len(path.parts) > 1 else None


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201 - machine output, never styled
