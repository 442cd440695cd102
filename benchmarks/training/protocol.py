"""How a contender talks with the harness: standard library only, so that every peer's environment has it.

A contender is a process: `python script.py WORKLOAD [--one-pass]`. It prepares everything, runs one warm-up round and
writes one line, `{"ready": {...}}`. Then every line `go` it reads is one federated round (clients sampled, trained and
averaged; tested if the workload says so), answered by `{"seconds": ...}`, counted from `go` to the end of the round.
`quit`, or the end of its input, ends it.

Frameworks that own their loop call `begin` and `end` from their hooks; anything else hands `serve` a function.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable


class Turns:
    """A contender's side: `begin` blocks until it is our turn, `end` says how long it took."""

    def __init__(self, **facts: object) -> None:
        self._facts = facts
        self._warm = False
        self._start = 0.0
        # Ray and the peers' loggers print; only the protocol may write to the harness.
        self._out = os.fdopen(os.dup(1), "w")
        sys.stdout.flush()
        os.dup2(2, 1)

    def begin(self) -> bool:
        """Wait for `go`, false when it is over; the first round is the warm-up and does not wait."""
        if self._warm and sys.stdin.readline().strip() != "go":
            return False
        self._start = time.perf_counter()
        return True

    def end(self) -> None:
        """The round is over: say so."""
        seconds = time.perf_counter() - self._start
        print(json.dumps({"seconds": seconds} if self._warm else {"ready": self._facts}), file=self._out, flush=True)
        self._warm = True


def serve(once: Callable[[], object], **facts: object) -> None:
    """Run `once` a round until told to stop."""
    turns = Turns(**facts)
    while turns.begin():
        once()
        turns.end()


def arguments() -> tuple[str, bool]:
    """The workload's name, and whether everybody is tested in one pass over the distinct images."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices="abcde")
    parser.add_argument("--one-pass", action="store_true", help="test the distinct images once (workload e)")
    given = parser.parse_args()
    return given.workload, given.one_pass
