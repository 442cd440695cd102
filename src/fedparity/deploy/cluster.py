"""Programs of Flower that end with this process, whatever its end: our side of the pipe to `keeper`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from fedparity.core.errors import RoundError
from fedparity.core.files import write_text
from fedparity.deploy.flower import environment, programs

POLL = 0.2
"""Seconds of one look at who has ended."""
COLOURS = re.compile(r"\x1b\[[\d;]*m")
RAISED = re.compile(r"(?:ERROR\s*:\s*)?(?:[\w.]+\.)?\w+Error: (.+)")
POINTER = "For more information, visit"
"""What Flower ends every error with."""
LOST = "the process that keeps the others was killed; start again"


class Cluster:
    """Programs by name: their process ids in pids.json, what they print in logs/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        """Of those who have ended."""
        self._rest = b""
        (folder / "logs").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        requests, self._requests = os.pipe()  # nobody else inherits our ends: they close with us
        self._events, events = os.pipe()
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "fedparity.deploy.keeper"],
            stdin=requests,
            stdout=events,
            start_new_session=True,  # Ctrl-C is for us: we end it in order
        )
        os.close(requests)
        os.close(events)
        self._note("keeper", self._keeper.pid)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipe and wait until everybody is gone; a second Ctrl-C does not shorten it."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            os.close(self._requests)
            self._keeper.wait()
            os.close(self._events)
        finally:
            signal.signal(signal.SIGINT, before)

    def start(self, name: str, argv: list[str], home: Path | None = None) -> None:
        """Start a program of Flower under a name; it has a FLWR_HOME of its own unless given one."""
        home = home or self.folder / "flwr" / name
        home.mkdir(parents=True, exist_ok=True)
        request = {
            "name": name,
            "argv": [str(programs() / argv[0]), *argv[1:]],
            "env": environment(home),
            "cwd": str(self.folder),
            "log": str(self.log(name)),
        }
        try:
            with contextlib.closing(os.fdopen(os.dup(self._requests), "wb")) as pipe:
                pipe.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise RoundError(LOST) from None

    def ended(self) -> Iterator[tuple[str, int]]:
        """Who has ended since the last look, and with what code."""
        if not select.select([self._events], [], [], POLL)[0]:
            return
        read = os.read(self._events, 1 << 16)
        if not read:
            raise RoundError(LOST)
        *lines, self._rest = (self._rest + read).split(b"\n")
        for event in map(json.loads, lines):
            if "pid" in event:
                self._note(event["name"], event["pid"])
            else:
                self.codes[event["name"]] = event["code"]
                yield event["name"], event["code"]

    def log(self, name: str) -> Path:
        """What a program prints."""
        return self.folder / "logs" / f"{name}.log"

    def last_words(self, name: str) -> str:
        """Why a program ended, for an error: the last exception in what it printed, else its last line."""
        path = self.log(name)
        text = COLOURS.sub("", path.read_text(encoding="utf-8", errors="replace")) if path.exists() else ""
        lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line)) and POINTER not in line]
        raised = [found[1] for line in lines if (found := RAISED.match(line))]
        return f"{[*(raised or lines or ['it said nothing'])][-1][:600]} (all of it: {path})"

    def _note(self, name: str, pid: int) -> None:
        self.pids[name] = pid
        write_text(self.folder / "pids.json", json.dumps(self.pids, indent=2) + "\n")
