"""docs/paper.md: the paper, claim by claim and table by table, from stored results and nothing else.

A section is a function from the folder of stored results (docs/paper) to Markdown, or to nothing if its results are not
there. `page` puts all of `SECTIONS` together, so whatever command stores new results writes the whole page again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.files import write_text
from fedparity.paper.tables.section import markdown_table, tables_section

CLAIMS_FILE = "claims.json"
NEEDED = ("id", "where", "statement", "as_stated", "reason", "corrected", "corrected_holds", "command")
"""What a stored result must have to be shown."""
COUNTED = {"holds": "hold", "fails": "fail", "needs-assumption": "need an assumption", None: "were not examined"}
VERDICTS = {"holds": "holds", "fails": "**fails**", "needs-assumption": "needs an assumption", None: "not examined"}

HEAD = """# The paper, claim by claim

*Cumulative Utility Parity for Fair Federated Learning under Intermittent Client Participation* (Behfar and Mortier,
arXiv 2602.13651). What of it holds, what does not and what is impossible, each line with the command that shows it.
This page is generated from the results in `docs/paper/`; a test holds it to them.
"""
WHERE = """## Where it is

| in the paper | here | held by |
|---|---|---|
| Algorithm 1: fair and vanilla branch on one availability, logged | `run_side_by_side`, `MetricsLog`; any number of methods | `tests/core/test_loop.py` |
| Algorithm 2: mix, train, return or fail | local rule `mixed:a=`, `ClientReport.failure` | `tests/core/test_coordinator.py` |
| `A_k(t)`: available, or selected | ledger columns `online` and `selected`; normaliser `availability` (default) or `participation` | `tests/core/test_ledger.py` |
| Lemma 2: inverse availability | `inverse`, with and without replacement | `tests/schedulers/test_schedulers.py` |
| Theorem 2: reactive weights | `reactive`: `missed` = offline, since_selected or not_selected; `draw` = sample or top | `tests/golden/test_golden_schedulers.py` |
| Section 3.3: utility surrogates | `utility` surrogate, `g` = gain or level; Lemma 3's bound is logged | `tests/surrogates/test_surrogates.py` |
| Selection gap, Gini, CV, Jain | `fedparity list metrics` | `tests/metrics/` |
| "disentangle physical constraint from algorithmic bias" | `frontier`: value = unavoidable + avoidable | `tests/metrics/test_metrics_frontier.py` |
| Appendix C: sliding windows | `window` estimator, `metrics.windowed_gap` | `tests/metrics/test_metrics_participation.py` |
"""  # noqa: E501 - rows of a table


def claims_section(folder: Path) -> str:
    """Every claim: what is printed, the verdict, the figures, what is true, and the command."""
    found = load(folder / CLAIMS_FILE)
    if not found:
        return ""
    counts = {verdict: sum(row["as_stated"] == verdict for row in found) for verdict in COUNTED}
    said = ", ".join(f"{number} {COUNTED[verdict]}" for verdict, number in counts.items() if number)
    rows = [
        (
            f"**{row['id']}**<br>{row['where']}",
            row["statement"],
            VERDICTS[row["as_stated"]],
            row["reason"],
            _corrected(row),
            f"`{row['command']}`",
        )
        for row in found
    ]
    intro = (
        f"## Claims\n\nOf {len(found)} claims: {said}. *Fails*: the conclusion is false although everything printed is"
        " assumed. *Needs an assumption*: true once something is assumed that is not printed. How each was examined,"
        " its draws and all figures: `fedparity claims --json`; plots: `fedparity claims --html claims.html`.\n\n"
    )
    return intro + markdown_table(
        ("claim", "as printed", "verdict", "what was found", "what is true", "shown by"), rows
    )


def _corrected(row: Mapping[str, Any]) -> str:
    if row["corrected"] is None:
        return "the same"
    return f"{row['corrected']}{' (not confirmed here)' if row['corrected_holds'] is False else ''}"


SECTIONS: list[Callable[[Path], str]] = [claims_section, tables_section, lambda _: WHERE]
"""The page, in order; where each part of the paper is in this package is the same whatever was computed."""


def page(folder: Path) -> str:
    """The whole page from the results in `folder`."""
    return "\n".join(filter(None, (HEAD, *(section(folder) for section in SECTIONS))))


def write_page(path: Path) -> None:
    """Write FILE.md from the results in the folder FILE beside it."""
    write_text(path, page(results_folder(path)))


def results_folder(path: Path) -> Path:
    """Where the results of a page are stored: docs/paper for docs/paper.md."""
    if path.suffix != ".md":
        raise ConfigError(f"page={path} must end in .md: its results are stored in the folder of that name without it")
    return path.with_suffix("")


def load(path: Path) -> list[dict[str, Any]]:
    """Stored results of claims; none if the file is not there."""
    if not path.exists():
        return []
    try:
        return [row | {key: row[key] for key in NEEDED} for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: cannot be read as results of claims ({error!r}); remove it to start again"
        ) from error
