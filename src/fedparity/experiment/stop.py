"""Stopping cleanly: Ctrl-C and SIGTERM ask, and the run stops after the round it is in. A second one stops at once."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class Stop:
    """Within this block a signal only sets `asked`; outside the main thread it does nothing."""

    def __init__(self) -> None:
        self.asked = False
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
        self.asked = True
