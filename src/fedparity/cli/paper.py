"""`fedparity paper`: the tables and figures of the paper, the paper's numbers beside ours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import (
    INTERRUPTED,
    AsJson,
    Bar,
    EndedEarlyError,
    print_json,
    say,
    show_table,
    split_list,
)
from fedparity.core.errors import ConfigError, FedparityError, unknown

if TYPE_CHECKING:
    from fedparity.paper.tables.blocks import Recipe, What
    from fedparity.paper.tables.compute import Kitchen
    from fedparity.paper.tables.results import Result

TABLE_1 = {
    "round": "round",
    "accuracy": "accuracy",
    "fairness_variance": "variance",
    "surrogate_decaying": "surrogate",
    "surrogate_never_cleared": "uncleared",
    "paper_accuracy": "p. accuracy",
    "paper_fairness_variance": "p. variance",
    "paper_surrogate": "p. surrogate",
}
"""Headings of Table 1 that fit into 80 columns."""


def paper_command(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="table1, table2, figure1, figure2, figure3 or all.")],
    *,
    scale: Annotated[str, typer.Option(help="smoke (digits), laptop (CIFAR-10) or full (the paper's own).")] = "smoke",
    trace: Annotated[
        Path | None,
        typer.Option(help="FLASH events, for the replay and Figure 1.", show_default="phones like them"),
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="A,B,...", help="Only these blocks of runs.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; what it holds already is not done again.", show_default="runs/paper/SCALE"),
    ] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Compute nothing: write from what is stored.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; the results are the same with any number.", show_default="all processors"),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Store in the folder FILE, write the page of its results.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The paper's tables and figures, its numbers beside ours; a second call goes on where the first was.

    fedparity paper table1
    fedparity paper all --scale smoke
    fedparity paper all --scale laptop --trace flash_events.json.gz
    """
    from fedparity.paper.tables.blocks import check_what, recipe_of
    from fedparity.traces.flash import read_events

    wanted, start = check_what(what), time.perf_counter()
    if trace is not None:
        read_events(trace)  # a file that does not fit is refused now, not when its block is reached
    recipe = recipe_of(scale, trace)
    blocks = tuple(split_list(only)) if only else ()
    for name in blocks:
        if name not in (known := [block.name for block in recipe.needed(wanted)]):
            raise unknown("block", name, known)
    kitchen, whole = _cooked(recipe, wanted, blocks, _folder(out, page, scale), 0 if stored else workers)
    summary, found = _written(kitchen, wanted, trace, page)
    if not whole:
        say(f"Stopped early; what was done is in {kitchen.folder}: the same command goes on.", stderr=True)
        raise typer.Exit(INTERRUPTED)
    if as_json:
        print_json({**summary, "seconds": round(time.perf_counter() - start, 1)})
        return
    _show(summary, found)
    say(f"Page: {kitchen.folder / 'paper.html'}")


def _cooked(
    recipe: Recipe, what: What, blocks: tuple[str, ...], folder: Path, workers: int | None
) -> tuple[Kitchen, bool]:
    """Everything that was missing is done, unless somebody asked to stop; 0 workers do nothing."""
    from fedparity.experiment.stop import Stop
    from fedparity.experiment.tasks import processors
    from fedparity.paper.tables.compute import Kitchen
    from fedparity.paper.tables.runs import StoppedError, Told

    with Stop() as stop, Bar() as bar:
        told = Told(_progress(bar), bar.tell, lambda: stop.asked, lambda: stop.overdue)
        kitchen = Kitchen(recipe, folder, told, workers=processors() if workers is None else max(1, workers))
        if workers == 0:
            return kitchen, True
        missing, seconds = kitchen.estimate(what, blocks)
        if missing:
            cores = kitchen.workers
            shared = "one idle core" if cores == 1 else f"{cores} idle cores"
            say(f"{missing} runs to do: about {_spell(seconds / cores)} on {shared}.", stderr=True)
        try:
            for _ in kitchen.cook(what, blocks):
                pass
        except StoppedError:
            return kitchen, False
        except (FedparityError, MemoryError) as error:
            if not kitchen.began:
                raise
            why = str(error) or "not enough memory"
            raise EndedEarlyError(f"{why} (ended early; what was done is kept: the same command goes on)") from error
    return kitchen, True


def _folder(out: Path | None, page: Path | None, scale: str) -> Path:
    from fedparity.paper.page import results_folder

    if out is not None and page is not None:
        raise ConfigError("--out and --page exclude each other; a page stores beside it")
    return out or (Path("runs") / "paper" / scale if page is None else results_folder(page))


def _progress(bar: Bar) -> Any:
    """The bar, or a line per tenth in a log."""
    last = [-1]

    def tell(what: str, done: int, total: int) -> None:
        bar.tell("runs", done, total, what)
        part = done * 10 // max(1, total)
        if not bar.shown and part != last[0]:
            say(f"{done} of {total}: {what}", stderr=True)
        last[0] = part

    return tell


def _spell(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )


def _written(
    kitchen: Kitchen, what: What, trace: Path | None, page: Path | None
) -> tuple[dict[str, Any], list[Result]]:
    from fedparity.paper.page import write_page
    from fedparity.paper.tables.files import produce
    from fedparity.paper.tables.results import results

    summary = produce(kitchen, what, trace)
    if page is not None:
        write_page(page)
    return summary, results(kitchen, kitchen.recipe.needed(what))


def _show(summary: dict[str, Any], found: list[Result]) -> None:
    from fedparity.metrics.measures import heading
    from fedparity.metrics.table import printed
    from fedparity.paper.tables.results import TOO_SMALL

    keys = ("avg_client_accuracy", "jain_accuracy", "selection_gap", "selection_gap_limit", "gini", "gini_limit")
    for one in found:
        if one.block.curves or not summary["blocks"]:
            continue
        shown = keys if one.block.trained else keys[2:]
        say("")
        say(f"{one.block.says}: {one.seeds} of {one.block.seeds} seeds{f'; {TOO_SMALL}' if one.too_small else ''}")
        rows = [(row, *(printed(key, one.table.mean(key, row)) for key in shown)) for row in one.table.methods]
        show_table(("", *(heading(key, narrow=True) for key in shown)), rows)
    if "table1" in summary:
        say("")
        say("Table 1: rounds of the paper's rule, ours and as printed (p.)")
        show_table(list(TABLE_1.values()), [[_cell(row[key]) for key in TABLE_1] for row in summary["table1"]])


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
