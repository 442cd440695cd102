"""`fedparity run`, `demo` and `init`: a spec carried out, with progress, a way to stop, plain files and the report."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from fedparity.cli.console import (
    ENDED_EARLY,
    INTERRUPTED,
    AsJson,
    Bar,
    EndedEarlyError,
    Overrides,
    Overwrite,
    Reading,
    Resume,
    print_json,
    say,
)
from fedparity.cli.show import show_run
from fedparity.core.errors import ConfigError, FedparityError, InputError

if TYPE_CHECKING:
    from fedparity.experiment.run import Run
    from fedparity.experiment.spec import Spec
    from fedparity.store import Store


def init_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("spec.toml"),
) -> None:
    """Write a commented starter spec.

    fedparity init my.toml
    """
    from fedparity.core.files import write_text
    from fedparity.experiment.spec_file import starter

    if file.exists():
        raise ConfigError(f"{file} is already there; give another name or remove it")
    write_text(file, starter())
    say(f"Wrote {file}. Next: fedparity run {file}")


def run_command(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file; `fedparity init` writes a starter.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="runs/ and the spec's name")
    ] = None,
    overrides: Overrides = None,
    normaliser: Reading = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND:WHERE", help="Log to tensorboard:DIR, mlflow:URI, wandb:PROJECT. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Carry out a spec: progress, a table, an outcome, and a folder with plain files and a report.

    fedparity run my.toml
    fedparity run my.toml --set population.clients=50 --set seeds=3 --out runs/small
    fedparity run my.toml --resume
    """
    from fedparity.experiment.spec_file import load, to_toml

    overrides = [*(overrides or []), *([f"normaliser={normaliser}"] if normaliser else [])]
    loaded = load(spec, overrides)
    text = to_toml(loaded) if overrides else spec.read_text(encoding="utf-8-sig")
    folder = out or Path("runs") / loaded.name
    _run(loaded, text, folder, resume=resume, overwrite=overwrite, as_json=as_json, log=log or ())


def demo_command(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results; a demo that is there is replaced.")] = Path(
        "runs/demo"
    ),
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """The embedded comparison: nine methods, real digits, some of which live on phones that are rarely there.

    fedparity demo
    fedparity demo --set rounds=20 --set seeds=1
    """
    from fedparity.experiment.spec_file import parse, to_toml
    from fedparity.experiment.starters import read_starter
    from fedparity.store import Store

    demo = read_starter("demo")
    loaded = parse(demo, "demo", overrides or [])
    with suppress(InputError), Store.read(out) as there:  # what cannot be read is no result that would be missed
        if tomllib.loads(there.spec()).get("name") != loaded.name:
            raise ConfigError(f"{out} holds a run that is no demo; give another --out")
    text = to_toml(loaded) if overrides else demo
    _run(loaded, text, out, resume=False, overwrite=True, as_json=as_json, brief=True)


def _run(
    spec: Spec,
    text: str,
    out: Path,
    *,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    log: Sequence[str] = (),
    brief: bool = False,
) -> None:
    with executed(spec, text, out, resume=resume, overwrite=overwrite, quiet=as_json, log=log) as (results, _):
        page = out / "report.html"
    if as_json:
        print_json({**results.summary(), "folder": str(out), "report": str(page)})
    else:
        show_run(results, brief=brief)
        say(f"Report: {page}")
    if results.complete and results.learnt_nothing:
        say(results.learnt_nothing, stderr=True)
        raise typer.Exit(ENDED_EARLY)
    if not results.complete:
        say(f"Stopped early. Go on with: fedparity run {out / 'spec.toml'} --out {out} --resume", stderr=True)
        raise typer.Exit(INTERRUPTED)


@contextmanager
def executed(
    spec: Spec, text: str, out: Path, *, resume: bool, overwrite: bool, quiet: bool, log: Sequence[str] = ()
) -> Iterator[tuple[Run, Store]]:
    """What came out, its files written, and the store while it is still open."""
    from fedparity import report
    from fedparity.experiment.loggers import Logger
    from fedparity.experiment.results import open_store, refuse_change
    from fedparity.experiment.runner import Callbacks, execute, prepare
    from fedparity.experiment.stop import Stop

    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other; give one")
    report.require()
    loggers = [Logger(one, spec.name, spec.rounds) for one in log]
    if resume:
        refuse_change(out, spec)
    with Rounds(spec, quiet=quiet) as rounds:
        trace = prepare(spec, rounds.prepare)

    def write(results: Run) -> None:
        results.save(out, text)
        report.write_report(results, out / "report.html", text)

    with open_store(out, spec, resume=resume, overwrite=overwrite) as store:
        with Stop() as stop, Rounds(spec, quiet=quiet) as rounds, _kept(rounds, store, write):

            def tell(number: int, method: str, row: dict[str, float]) -> None:
                rounds.tell(number, method, row)
                for one in loggers:
                    one.tell(number, method, row)

            told = Callbacks(tell, lambda: stop.asked, lambda: stop.overdue, rounds.prepare)
            try:
                results = execute(spec, store=store, trace=trace, callbacks=told)
            finally:
                for one in loggers:
                    one.close()
        with _kept(rounds, store, write):
            write(results)
        for notice in (*store.notices, *(one.trouble for one in loggers if one.trouble)):
            say(f"fedparity: {notice}", stderr=True)
        yield results, store


@contextmanager
def _kept(rounds: Rounds, store: Store, write: Callable[[Run], None]) -> Iterator[None]:
    """An error after the first round is no lost run: what is committed by then is written, too, if that can be done."""
    from fedparity.experiment.run import Run

    try:
        yield
    except (FedparityError, MemoryError) as error:
        refused = isinstance(error, (ConfigError, InputError))  # before a round of this process: a start, not an end
        if not rounds.done and (refused or not store.contenders()):
            raise
        with suppress(FedparityError, MemoryError):
            write(Run.stored(store))
        why = str(error) or "not enough memory"
        raise EndedEarlyError(f"{why} (ended early; what was done is kept: run it again with --resume)") from error


class Rounds:
    """Progress of a run: a line per round for one method; for several a bar, or a line now and then in a log."""

    def __init__(self, spec: Spec, *, quiet: bool) -> None:
        self._spec = spec
        self._total = spec.rounds * spec.seeds
        self._lines = len(spec.methods) == 1 and not quiet
        self._last = spec.methods[-1].name
        self._bar = Bar()
        self._prepared = ("", -1)
        self.done = 0
        """Rounds that at least one method has done in this process."""

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def prepare(self, what: str, done: int, total: int) -> None:
        """Something that a run needs is being made ready: the bar, or a line per tenth in a log."""
        self._bar.tell(what, done, total)
        part = done * 10 // total if total else 0
        if total and not self._bar.shown and (what, part) != self._prepared:
            say(f"{what}: {done} of {total}", stderr=True)
        self._prepared = (what, part)

    def tell(self, number: int, method: str, row: dict[str, float]) -> None:
        """One more round of one method is done."""
        self.done = number + 1
        if method != self._last:
            return
        seed, done = divmod(number, self._spec.rounds)
        repetition = f"seed {seed + 1}/{self._spec.seeds}"
        self._bar.tell("rounds", number + 1, self._total, repetition)
        now = f"{f'{repetition}, ' if self._spec.seeds > 1 else ''}round {done + 1}/{self._spec.rounds}"
        if self._lines:
            accuracy = "-" if math.isnan(row["accuracy"]) else f"{row['accuracy']:.3f}"
            self._bar.say(
                f"{now}  online {row['available']:.0f}  asked {row['selected']:.0f}"
                f"  accuracy {accuracy}  gap {row['selection_gap']:.3f}"
            )
        elif not self._bar.shown and (number + 1) % max(1, self._total // 10) == 0:
            say(f"{now} done by all methods", stderr=True)
