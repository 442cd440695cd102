"""`fedparity cite`: BibTeX of what a run, a spec or a component rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedparity.cli.console import AsJson, print_json, print_text, say

if TYPE_CHECKING:
    from fedparity.experiment.spec import Spec


def cite_command(
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="Spec files, folders of runs, or names (fedparity list).")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """BibTeX of everything a run uses: methods, components, data, traces.

    fedparity cite parity fedawe
    fedparity cite runs/demo > references.bib
    """
    from fedparity.report import citations

    keys = list(dict.fromkeys(key for text in what for key in _keys(text)))
    text = citations.bibtex(keys)
    if as_json:
        print_json({"keys": keys, "bibtex": text})
    elif keys:
        print_text(text)
    else:
        say(f"{', '.join(what)}: nothing to cite beyond fedparity itself", stderr=True)


def _keys(text: str) -> list[str]:
    from fedparity.cli import catalogue
    from fedparity.report import citations

    spec = _spec_behind(text)
    if spec is None:
        if text in citations.ENTRIES and not _listed_name(text):
            return [text]
        return [key for entry in catalogue.find(text) for key in catalogue.cites_of(entry)]
    availability = spec.population.path
    if availability is not None and catalogue.trace_kind(availability) is None:
        say(f"fedparity: {availability} cannot be read here; add a citation of the trace yourself", stderr=True)
    return catalogue.cites_of_spec(spec)


def _listed_name(text: str) -> bool:
    from fedparity.cli import catalogue

    return any(entry["name"] == text for entries in catalogue.tables().values() for entry in entries)


def _spec_behind(text: str) -> Spec | None:
    """The spec of a file or a run; None if the text is no path."""
    from fedparity.core.imports import without_imports
    from fedparity.experiment.spec_file import load, parse
    from fedparity.store import Store

    path = Path(text)
    if (path / "run.db").exists() or (path.is_dir() and not _listed_name(text)):
        with Store.read(path) as store, without_imports():
            return parse(store.spec(), f"{path}: its spec")
    return load(path) if path.is_file() or path.suffix == ".toml" or len(path.parts) > 1 else None
