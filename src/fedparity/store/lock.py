"""Who has a run: one writer at a time, and readers that know whether there is one (flock; Linux and macOS)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from fedparity.core.errors import ConfigError, OutputError
from fedparity.core.system import make_folders

LOCK = "lock"
TRIES, PAUSE = 6, 0.05
"""A reader holds the lock for a moment: a writer looks again before it gives up."""


def _locks() -> ModuleType:
    """What locks files; asked for when a run is opened, so that the rest works where it is missing (Windows)."""
    try:
        import fcntl
    except ImportError as error:
        raise OutputError("a run needs file locks (fcntl), which Windows lacks; use Linux, macOS or WSL") from error
    return fcntl


def take(folder: Path) -> int:
    """The lock of a folder that is made if need be, until the handle is closed; refused if another process has it."""
    fcntl = _locks()
    try:
        make_folders(folder)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ready ({error.strerror}); choose another folder") from error
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        time.sleep(PAUSE)
    os.close(handle)
    raise ConfigError(f"{folder}: another process is running this run; wait for it or choose another --out")


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[bool]:
    """Whether a process is writing the run; if not, none begins to until this ends."""
    fcntl = _locks()
    with contextlib.ExitStack() as stack:
        try:
            handle = os.open(folder / LOCK, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            yield False
        except OSError:
            yield True
        else:
            yield False
