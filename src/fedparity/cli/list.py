"""`fedparity list`: what there is, and all about one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from fedparity.cli.console import AsJson, console_for, names_of, print_json, say


def list_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT", help="A table, or the name of one component or method.", autocompletion=names_of()
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One entry of that table.", autocompletion=names_of())
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """What there is: schedulers, availability, ..., methods, metrics, attacks, or everything about one NAME.

    fedparity list methods
    fedparity list parity
    fedparity list weightings fedawe --json
    """
    from fedparity.cli import catalogue

    tables = catalogue.tables()
    if what is None or (what in tables and name is None):
        chosen = tables if what is None else {what: tables[what]}
        if as_json:
            print_json(chosen)
        else:
            show_tables(chosen)
        return
    found = catalogue.find(what) if name is None else catalogue.find(name, what)
    if as_json:
        cited = [{**entry, "cites": catalogue.cites_of(entry)} for entry in found]
        print_json(cited[0] if len(cited) == 1 else cited)
        return
    told: set[tuple[str, str]] = set()
    for entry in found:
        for number, one in enumerate([entry, *catalogue.parts_of(entry)]):
            if number:
                say("")
            key = one["table"], one["name"]
            _show_entry(one, "" if key in told else catalogue.text_of(one), catalogue.cites_of(one))
            told.add(key)


def show_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Every component with its summary."""
    from rich.markup import escape
    from rich.table import Table

    console = console_for()
    for name, entries in tables.items():
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for entry in entries:
            table.add_row(entry["name"], escape(entry["summary"] + from_others(entry)))
        console.print(f"[bold]{name}[/bold]")
        console.print(table)
        console.print()
    console.print("fedparity list NAME tells more about one of them.")


def from_others(entry: dict[str, Any]) -> str:
    """Where a component comes from, if it is not one of ours."""
    origin = entry.get("origin", "fedparity")
    return "" if origin == "fedparity" else f" (from {origin})"


def _show_entry(entry: dict[str, Any], text: str, cites: Sequence[str] = ()) -> None:
    """All about one component, or one part of a method (which has a `key`)."""
    from rich.markup import escape

    console = console_for()
    kind = entry.get("key") or entry["table"]
    console.print(f"[bold]{entry['name']}[/bold] ({kind}): {escape(entry['summary'] + from_others(entry))}")
    if text:
        console.print(escape(text), soft_wrap=True)
    for key, default in entry["parameters"].items():
        console.print(f"  {key} = {escape(str(default))}", soft_wrap=True)
        if told := entry.get("parameter_help", {}).get(key):
            console.print(f"      {escape(told)}", soft_wrap=True)
    if entry["reference"]:
        console.print(f"Reference: {escape(entry['reference'])}", soft_wrap=True)
    if cites:
        console.print(f"Cite: {', '.join(cites)} (fedparity cite {entry['name']})", soft_wrap=True)
