"""`fedparity claims`: does the paper hold? Every claim with its experiment and its verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedparity.cli.console import CHECK_FAILED, AsJson, Bar, EndedEarlyError, print_json, say, show_table
from fedparity.core.errors import OutputError
from fedparity.core.files import make_folder, write_text

if TYPE_CHECKING:
    from fedparity.paper.claims import Claim, Result


def claims_command(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Claims to examine; none: all.")] = None,
    *,
    expect: Annotated[bool, typer.Option("--expect", help="Exit 1 if a verdict is not the expected one.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with all plots.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.md", help="Store results, write the page of them.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Events of FLASH's first 100 devices.")] = None,
    as_json: AsJson = False,
) -> None:
    """Examine the paper's claims: each by an experiment that can refute it.

    About a minute for all of them. Two runs give the same figures; only the seconds differ.

    fedparity claims
    fedparity claims lemma-1 theorem-1 --json
    fedparity claims --expect --html claims.html
    """
    from fedparity.paper.claims import chosen
    from fedparity.paper.claims.html import claims_page
    from fedparity.paper.page import results_folder
    from fedparity.traces.flash import read_events

    if page is not None:
        results_folder(page)
    if trace is not None:
        read_events(trace)  # a file that does not fit is refused now, not after the other claims
    claims = chosen(ids or (), trace=None if trace is None else str(trace))
    results: list[Result] = []
    for result in _examined(claims):
        results.append(result)
        if page is not None:
            _store(page, results, len(claims))
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        _show(results)
    if html is not None:
        write_text(html, claims_page(results))
        say(f"Page: {html}", stderr=as_json)
    if page is not None:
        say(f"Page: {page}", stderr=as_json)
    wrong = [result.claim.id for result in results if not result.as_expected]
    if wrong:
        say(f"Not as expected: {', '.join(wrong)}", stderr=as_json)
    if expect and wrong:
        raise typer.Exit(CHECK_FAILED)


def _examined(claims: Sequence[Claim]) -> Iterator[Result]:
    from fedparity.paper.claims import examine

    with Bar() as bar:
        yield from examine(claims, lambda done, claim: bar.tell("claims", done, len(claims), claim.id))


def _store(page: Path, results: Sequence[Result], wanted: int) -> None:
    """Keep what is computed so far beside the page, in place of earlier results of the same claims."""
    from fedparity.paper.claims import CLAIMS
    from fedparity.paper.page import CLAIMS_FILE, load, results_folder, write_page

    target = results_folder(page) / CLAIMS_FILE
    kept = {row["id"]: row for row in load(target)}
    for result in results:
        if result.found.as_stated is not None or result.claim.id not in kept:  # not examined: what is known stays
            kept[result.claim.id] = result.to_json(telemetry=False)
    rows = [kept[name] for name in CLAIMS if name in kept]
    try:
        make_folder(target.parent)
        write_text(target, json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        write_page(page)
    except OutputError as error:
        done = len(results) - 1
        if not done:
            raise
        raise EndedEarlyError(f"{error}; {done} of {wanted} claims are kept in {target}") from error


def _show(results: Sequence[Result]) -> None:
    from fedparity.paper.claims.html import WORDS

    words = {True: "holds", False: "FAILS", None: "–"}
    rows = [(r.claim.id, WORDS[r.found.as_stated], words[r.found.corrected_holds], f"{r.seconds:.1f}") for r in results]
    show_table(("claim", "as printed", "corrected", "seconds"), rows)
    if len(results) <= 3:
        for result in results:
            say("")
            _tell(result)
    else:
        skipped = [f"{r.claim.id}: {r.found.reason}" for r in results if r.found.as_stated is None]
        for line in skipped:
            say(line, wrap=True)
        say("Why, with the figures: fedparity claims ID, or --json; with plots: --html FILE.", wrap=True)


def _tell(result: Result) -> None:
    claim, found = result.claim, result.found
    say(f"{claim.id}: {claim.where}", wrap=True)
    for name, text in (
        ("Printed", claim.statement),
        ("Assumed", claim.assumptions),
        ("Found", found.reason),
        ("True", claim.corrected or "the same"),
        ("How", claim.method),
    ):
        say(f"  {name}: {text}", wrap=True)
