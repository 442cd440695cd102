"""Logs that simulators print: lines of text in which a round names the clients that it asked.

    FedScale's aggregator    ... Selected participants to run: [12, 7, 31]
    FLASH                    ... ===================== Round 3 of 500 =====================
                             ... selected client_ids: ['f0001_07', ...]
                             ... client f0001_07 upload successfully with acc 0.4, loss 1.9
                             ... client f0012_11 failed: out of the deadline

FedScale's rounds are the lines that select, counted from 1: its own number is printed for the round before, and begins
anew where a job is started again. It names neither those who returned nor those who were late.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fedparity.core.errors import InputError

if TYPE_CHECKING:
    import polars as pl

FEDSCALE = re.compile(r"Selected participants to run: \[([^\]]*)\]")
ROUND = re.compile(r"={5,} Round (\d{1,15}) of \d+ ={5,}")
SELECTED = re.compile(r"selected client_ids: \[([^\]]*)\]")
RETURNED = re.compile(r"client (\S+) upload successfully with acc ([-+.\deE]+), loss ([-+.\deE]+)")
FAILED = re.compile(r"client (\S+) failed: (.*)")
ITEM = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s,'\"()]+)")
"""One entry of a printed list: a number, or a text in quotes."""
_BEGINS = re.compile(rb"Selected participants to run: \[|={5,} Round \d+ of \d+ ={5,}")


def is_console(head: bytes) -> bool:
    """Whether a text is the log of a simulator that is known."""
    return _BEGINS.search(head) is not None


def rows_of_console(name: str, lines: Iterable[str]) -> pl.LazyFrame:
    """One row per round and client asked."""
    import polars as pl

    found: dict[tuple[int, str], dict[str, Any]] = {}
    round, counted, flash = 0, 0, False
    for line in lines:
        if match := FEDSCALE.search(line):
            counted += 1
            found |= {(counted, one): {} for one in _items(match[1])}
        elif match := ROUND.search(line):
            round, flash = int(match[1]), True
        elif match := SELECTED.search(line):
            found |= {(round, one): {"completed": 0} for one in _items(match[1])}
        elif flash and (match := RETURNED.search(line)):
            if (round, match[1]) in found:
                found[round, match[1]] |= {"completed": 1, "accuracy": match[2], "loss": match[3]}
        elif flash and (match := FAILED.search(line)) and (round, match[1]) in found:
            found[round, match[1]] |= {"failed": 1}
    if not found:
        raise InputError(
            f"{name}: a log of rounds that names no client; FLASH prints them as 'selected client_ids' at level debug"
        )
    columns = ("completed", "failed", "accuracy", "loss") if flash else ()
    return pl.LazyFrame(
        {
            "round": pl.Series([t for t, _ in found], dtype=pl.Int64),
            "client": pl.Series([one for _, one in found], dtype=pl.String),
            "selected": pl.Series([1] * len(found), dtype=pl.Int64),
            **{
                key: pl.Series([row.get(key, 0 if key == "failed" else None) for row in found.values()], strict=False)
                for key in columns
            },
        }
    )


def _items(text: str) -> list[str]:
    return [one or two or three for one, two, three in ITEM.findall(text)]
