"""Running a package client (npm, pip) in a work folder: bounded in time, stopped with us, its words kept."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fedparity.data.dataset import Progress
from fedparity.data.layout import NotThatError


def run_client(command: Sequence[str], work: Path, what: str, seconds: float, progress: Progress) -> tuple[int, str]:
    """Its exit code and what it said on stderr; `what` (CLIENT ...) is told as progress while it runs."""
    name = what.partition(" ")[0]
    started = time.monotonic()
    with (work / f"{name}.log").open("w+", encoding="utf-8", errors="replace") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - constants of this package
                command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        except OSError as error:
            raise NotThatError(f"{name} cannot be started ({error.strerror or error})") from error
        try:
            while (code := _poll(process)) is None:
                progress(what, 0, 0)
                if time.monotonic() - started > seconds:
                    raise NotThatError(f"{name} was not done after {seconds:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        return code, log.read(20_000)


def _poll(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return None
