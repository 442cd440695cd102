"""Stopping cleanly: Ctrl-C and SIGTERM ask, and the run stops after its round, or gives that up after a second.

A second signal stops at once, as it would without us.
"""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Any, Self

PATIENCE = 1.0


class Stop:
    """Within this block a signal only sets `asked`; outside the main thread it does nothing."""

    def __init__(self) -> None:
        self._when: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread: somebody else handles signals
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self._when = time.monotonic()

    @property
    def asked(self) -> bool:
        """Whether somebody asked."""
        return self._when is not None

    @property
    def overdue(self) -> bool:
        """Whether that is more than `PATIENCE` seconds ago."""
        return self._when is not None and time.monotonic() - self._when > PATIENCE
