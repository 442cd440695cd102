"""Starts processes for another and ends them all, with whatever they started, when that other one is gone.

    python -m fedparity.deploy.keeper < requests > events

A request is a line {"name", "argv", "env", "cwd", "log"}; an event {"name", "pid"} when it was started, and {"name",
"code"} when it ended. The end of the requests, however it comes about (also by SIGKILL of who wrote them), ends
everything. Flower detaches what it starts; so this process makes itself the one that orphans are given to (Linux), and
ends all its descendants, not only its children. Should it be killed itself, its children get a SIGTERM from the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SUBREAPER, DEATH_SIGNAL = 36, 1
"""Of prctl(2)."""
GRACE = 5.0
"""Seconds that processes have to end by themselves."""
POLL = 0.1


def main() -> None:
    """Keep until the requests end."""
    for unwanted in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unwanted, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _prctl(SUBREAPER, 1)
    started: dict[int, str] = {}
    rest = b""
    try:
        while True:
            _report(started)
            if not select.select([0], [], [], POLL)[0]:
                continue
            read = os.read(0, 1 << 16)
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                _start(json.loads(line), started)
    finally:
        end_all(set(started))


def _start(request: dict[str, Any], started: dict[int, str]) -> None:
    with Path(request["log"]).open("ab", buffering=0) as log:  # what is said stands there before its end is told
        try:
            process = subprocess.Popen(  # noqa: S603 - what is asked for by the process that started this one
                request["argv"],
                env=request["env"],
                cwd=request["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is one thread
            )
        except OSError as error:
            log.write(f"{request['argv'][0]}: {error.strerror}\n".encode())
            _tell({"name": request["name"], "code": 127})
            return
    started[process.pid] = request["name"]
    process.returncode = 0  # waited for here, not by the object
    _tell({"name": request["name"], "pid": process.pid})


def _report(started: dict[int, str]) -> None:
    """Take note of who has ended, orphans included."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            name = started.pop(ended[0], None)
            if name is not None:
                _tell({"name": name, "code": os.waitstatus_to_exitcode(ended[1])})


def _tell(event: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more: the end of the requests follows
        os.write(1, json.dumps(event).encode() + b"\n")


def end_all(children: set[int]) -> None:
    """End children and descendants: politely, then by force, until nobody is left."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    polite = time.monotonic() + GRACE
    asked: set[int] = set()
    while True:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                children.discard(ended)
        left = descendants(os.getpid()) | children
        if not left:
            return
        force = time.monotonic() > polite
        for pid in left if force else left - asked:
            end = os.killpg if pid in children else os.kill  # a child leads its own group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL if force else signal.SIGTERM)
        asked |= left
        time.sleep(POLL / 2)


def descendants(root: int) -> set[int]:
    """Everybody below a process; nobody where there is no /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.parent.name)] = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {root}} - found:
        found |= more
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    """In the child, before it becomes another program."""
    for wanted in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(wanted, signal.SIG_DFL)
    _prctl(DEATH_SIGNAL, signal.SIGTERM)


if __name__ == "__main__":
    main()
