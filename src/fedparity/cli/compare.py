"""`fedparity compare`: methods side by side, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedparity.cli.console import (
    INTERRUPTED,
    AsJson,
    Bar,
    Overrides,
    Overwrite,
    Reading,
    Resume,
    names_of,
    print_json,
    print_text,
    say,
    split_list,
)
from fedparity.cli.run import executed
from fedparity.cli.show import show_comparison
from fedparity.core.errors import ConfigError, unknown
from fedparity.core.files import make_folder

if TYPE_CHECKING:
    from fedparity.core.ledger import Normaliser
    from fedparity.experiment.compare import Comparison
    from fedparity.experiment.spec import MethodSpec, Spec

RUN_FOLDER, FOLDER = Path("runs/compare"), Path("runs/comparison")
"""Where runs and comparisons of runs go unless told."""


def compare_command(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Folders of finished runs.")] = None,
    *,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Run these first (fedparity list methods), or all.",
            autocompletion=names_of("methods"),
        ),
    ] = None,
    spec: Annotated[
        Path | None, typer.Option(help="A spec to run them in.", show_default="digits, phones, N=100, m=5")
    ] = None,
    beta: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Also run parity:target=β for each β between 0 and 4.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds (T).", show_default="50, or the spec's")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repetitions.", show_default="5, or the spec's")] = None,
    overrides: Overrides = None,
    reference: Annotated[
        str | None, typer.Option(help="Differences are to this method.", show_default="uniform, else the first")
    ] = None,
    normaliser: Reading = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Threads; the results are the same with any number.", show_default="all processors"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for files.", show_default=f"{RUN_FOLDER}; of RUN...: {FOLDER}")
    ] = None,
    form: Annotated[
        Literal["table", "csv", "json", "latex"], typer.Option("--format", help="What is printed.")
    ] = "table",
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Methods paired seed by seed: means, differences with intervals, ranks, cost; CSV, JSON, LaTeX and a picture.

    fedparity compare --methods uniform,parity,fedawe --beta 0,.5,1
    fedparity compare --spec my.toml --methods all --out runs/all
    fedparity compare runs/first runs/second --format latex
    """
    if as_json and form not in ("table", "json"):
        raise ConfigError(f"--json and --format {form} exclude each other; give one")
    shown = "json" if as_json else form
    if runs:
        only_new: dict[str, object] = {"--methods": methods, "--spec": spec, "--beta": beta, "--rounds": rounds}
        only_new |= {"--seeds": seeds, "--set": overrides, "--workers": workers}
        only_new |= {"--resume": resume or None, "--overwrite": overwrite or None}
        for option, value in only_new.items():
            if value is not None:
                raise ConfigError(f"{option} is for runs to be made, but {runs[0]} is there already; leave it out")
        _compare_runs(runs, out or FOLDER, (reference, normaliser), shown)
        return
    if methods is None and spec is None:
        raise ConfigError("nothing to compare; give folders of runs, --methods a,b,c or --spec FILE")
    options = {"rounds": rounds, "seeds": seeds, "normaliser": normaliser, "execution.workers": workers}
    given = {key: value for key, value in options.items() if value is not None}
    built = _spec_of(spec, methods, beta, overrides or [], given)
    names = [m.name for m in built.methods]
    if reference is not None and reference not in names:
        raise unknown("reference method", reference, names)
    _run_and_compare(built, out or RUN_FOLDER, reference, shown, resume=resume, overwrite=overwrite)


def _compare_runs(runs: list[Path], out: Path, by: tuple[str | None, Normaliser | None], shown: str) -> None:
    from fedparity.experiment.compare import ComparedRun, compare
    from fedparity.store.manifest import outside

    outside(out)
    with Bar() as bar:
        parts = []
        for done, run in enumerate(runs):
            bar.tell("reading runs", done, len(runs), run.name)
            parts.append(ComparedRun.of(run))
        bar.tell("comparing", 0, 0)
        found = compare(parts, *by)
    make_folder(out)
    erased = len(parts[0].run.erased)  # the same of all, or they would not be paired
    _tell(found, _write(found, out, erased), shown, erased)


def _run_and_compare(
    spec: Spec, out: Path, reference: str | None, shown: str, *, resume: bool, overwrite: bool
) -> None:
    from fedparity.experiment.compare import ComparedRun, compare
    from fedparity.experiment.spec_file import to_toml

    quiet = shown != "table"
    with executed(spec, to_toml(spec), out, resume=resume, overwrite=overwrite, quiet=quiet) as (results, store):
        erased = len(store.erased())
        if results.complete:
            with Bar() as bar:
                bar.tell("comparing", 0, 0)
                found = compare([ComparedRun(str(out), results)], reference)
            files = _write(found, out, erased)
    if not results.complete:
        asked = f" --reference {reference}" if reference else ""
        again = f"fedparity compare --spec {out / 'spec.toml'} --out {out}{asked} --resume"
        say(f"Stopped early. Go on with: {again}", stderr=True)
        raise typer.Exit(INTERRUPTED)
    _tell(found, files, shown, erased)


def _spec_of(
    path: Path | None, methods: str | None, beta: str | None, overrides: list[str], options: Mapping[str, Any]
) -> Spec:
    """The spec with the contenders asked for; a name that the spec defines is taken from there."""
    from fedparity.experiment.compare import with_betas
    from fedparity.experiment.methods import METHODS, unknown_method
    from fedparity.experiment.spec import MethodSpec
    from fedparity.experiment.spec_file import load, parse, to_toml
    from fedparity.experiment.starters import read_starter

    if path is not None:
        base = load(path, overrides, options)
    else:
        base = parse(read_starter("compare"), "--set", overrides, options)
    own = {} if path is None else {m.name: m for m in base.methods}
    chosen: list[MethodSpec] = list(own.values())
    if methods is not None:
        names = [*METHODS, *(n for n in own if n not in METHODS)] if methods.strip() == "all" else split_list(methods)
        for name in names:
            if name not in own and name not in METHODS:
                raise unknown_method(name, {*METHODS, *own})
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


def _betas(text: str) -> list[float]:
    found = []
    for part in split_list(text):
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


def _json(found: Comparison, files: list[str], erased: int) -> dict[str, Any]:
    return found.to_json(files) | {"erased": erased}


def _write(found: Comparison, folder: Path, erased: int) -> list[str]:
    """Every file of a comparison; the picture only where accuracy is defined."""
    from fedparity.core.files import remove, write_text
    from fedparity.report.latex import to_latex
    from fedparity.report.tradeoff import draw_tradeoff
    from fedparity.store.manifest import COMPARISON

    picture = draw_tradeoff(found)
    files = [str(folder / name) for name in COMPARISON if picture or name != "tradeoff.svg"]
    told = json.dumps(_json(found, files, erased), indent=2, allow_nan=False) + "\n"
    texts = (found.to_csv(), told, to_latex(found, erased), f"{picture}\n" if picture else "")
    for name, text in zip(COMPARISON, texts, strict=True):
        if text:
            write_text(folder / name, text)
        else:
            remove(folder / name)
    return files


def _tell(found: Comparison, files: list[str], shown: str, erased: int) -> None:
    from fedparity.report.latex import to_latex

    if shown == "json":
        print_json(_json(found, files, erased))
    elif shown == "csv":
        print_text(found.to_csv())
    elif shown == "latex":
        print_text(to_latex(found, erased))
    else:
        show_comparison(found, files, erased)
