"""`fedparity export`: a run as tables for any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedparity.cli.console import AsJson, RunFolder, print_json, say


def export_command(
    run: RunFolder,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the tables.", show_default="RUN-export, beside the run")
    ] = None,
    form: Annotated[Literal["csv", "jsonl", "parquet"], typer.Option("--format", help="Kind of files.")] = "csv",
    key: Annotated[
        Path | None, typer.Option(help="A file with a secret of 16 bytes or more: clients get pseudonyms.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run as tables: rounds, clients, participation.

    fedparity export runs/demo --format parquet
    fedparity export runs/demo --key secret.bin --out shared
    """
    from fedparity.experiment.run import Run
    from fedparity.report.export import export, export_folder
    from fedparity.store import Disk

    secret = None if key is None else Disk(key.parent).read(key.name)
    files = export(Run.open(run), out or export_folder(run), form, secret)
    if as_json:
        print_json({"run": str(run), "files": [str(f) for f in files], "pseudonyms": key is not None})
    else:
        for file in files:
            say(str(file))
