r"""FLASH's device events (Yang et al., WWW 2021) as times ready under a rule.

The file is JSON, packed if its name ends in .gz: `{id: {"messages": "2020-01-29 18:42:18 \tscreen_off\n...", ...}}`.

    battery_charged_on, battery_charged_off   charging or not                      before the first: not charging
    NN.N%                                     battery level                                          unknown
    screen_on, screen_off                     screen                                                 on
    screen_lock, screen_unlock                lock                                                   unlocked
    wifi | Unknown, 2G, 3G, 4G, 5G            on Wi-Fi | not                                         not on Wi-Fi

There is no event for leaving Wi-Fi: every other network means that it was left. `wifi_cleared=False` keeps Wi-Fi for
ever after the first `wifi`, which is wrong but is the reading that comes near the paper's Figure 1. Events are sorted
by time; those of one second are applied together, in their order. A device is seen from its first event to its last.
Timestamps are the device's local time, without a zone: seconds count from midnight before the earliest event of the
file, or from `epoch`, as if all devices lived in one zone.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.types import BoolArray, FloatArray, Ids
from fedparity.traces.intervals import DAY, Intervals
from fedparity.traces.plain import read_text
from fedparity.traces.rules import DEFAULT_RULE, Rule, States, parse_rule

EVENTS = (
    "battery_charged_off", "battery_charged_on", "screen_off", "screen_on", "screen_unlock", "screen_lock", "unknown",
    "2g", "3g", "4g", "5g", "wifi",
)  # fmt: skip
"""The number of an event is its place here."""
LEVEL = 1000.0
"""A battery level is this much more than its per cents."""
STAMP = "2020-01-29 18:42:18"
POWERS = 10 ** np.arange(3, -1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class FlashEvents:
    """All events of a file, sorted by device, then time."""

    names: tuple[str, ...]
    device: Ids
    time: FloatArray
    """Seconds of local time since 1970-01-01."""
    code: FloatArray
    """A number of `EVENTS`, or `LEVEL` + battery level."""

    def intervals(
        self,
        rule: str | Rule = DEFAULT_RULE,
        *,
        wifi_cleared: bool = True,
        open_end: bool = True,
        epoch: str | None = None,
    ) -> Intervals:
        """When each device was ready; `open_end=False` drops what is still open at its last event, as FLASH does."""
        tree = parse_rule(rule) if isinstance(rule, str) else rule
        bounds = np.searchsorted(self.device, np.arange(len(self.names) + 1))
        ready = tree.holds(self._states(bounds[:-1][self.device], wifi_cleared=wifi_cleared))
        # What holds after the last of the events of one second holds until the next second with an event.
        settled = np.ones(len(self.device), dtype=np.bool_)
        settled[:-1] = (np.diff(self.device) != 0) | (np.diff(self.time) != 0)
        device, time, ready = self.device[settled], self.time[settled], ready[settled]
        new = np.ones(len(device), dtype=np.bool_)
        new[1:] = np.diff(device) != 0
        before = np.append(np.False_, ready[:-1]) & ~new
        begin = np.flatnonzero(ready & ~before)
        # A time ready ends where the next row is not ready, or at the device's last event.
        stop = np.flatnonzero((before & ~ready) | (ready & np.append(new[1:], np.True_)))
        if not open_end:
            kept = ~ready[stop]
            begin, stop = begin[kept], stop[kept]
        kept = time[stop] > time[begin]
        begin, stop = begin[kept], stop[kept]
        zero = _midnight(epoch, self.time)
        seen = bounds[1:] > bounds[:-1]
        earliest = float(self.time.min())
        # A device without events was seen at no time: a span of nothing at the start of the file.
        first, last = np.full((2, len(self.names)), earliest)
        first[seen], last[seen] = self.time[bounds[:-1][seen]], self.time[bounds[1:][seen] - 1]
        return Intervals(self.names, first - zero, last - zero, device[begin], time[begin] - zero, time[stop] - zero)

    def _states(self, opening: Ids, *, wifi_cleared: bool) -> States:
        """Every state after each event; `opening` is the row of the first event of the same device."""
        rows = np.arange(len(self.device))

        def column(low: int, high: int, is_on: float, *, initially: bool) -> BoolArray:
            """The last of the events low..high so far was `is_on`."""
            sets = (self.code >= low) & (self.code <= high)
            last = np.maximum.accumulate(np.where(sets, rows, -1))
            return np.where(last >= opening, self.code[last] == is_on, initially)

        wifi = column(6, 11, 11, initially=False)
        if not wifi_cleared:
            wifi = np.maximum.accumulate(np.where(self.code == 11, rows, -1)) >= opening
        known = np.maximum.accumulate(np.where(self.code >= LEVEL, rows, -1))
        return States(
            charging=column(0, 1, 1, initially=False),
            wifi=wifi,
            locked=column(4, 5, 5, initially=False),
            screen_on=column(2, 3, 3, initially=True),
            battery=np.where(known >= opening, self.code[known] - LEVEL, np.nan),
        )


def read_events(
    path: str | os.PathLike[str], *, data: bytes | None = None, progress: Callable[[int, int], None] | None = None
) -> FlashEvents:
    """The events of a FLASH file; `progress(done, devices)` is called after each device."""
    path = Path(path)
    devices = _devices(path, read_text(path, data))
    codes = _Codes()
    times, kinds = list[NDArray[np.float64]](), list[NDArray[np.float64]]()
    for number, (name, entry) in enumerate(devices.items()):
        if not isinstance(entry, dict) or not isinstance(entry.get("messages"), str):
            raise InputError(f"{path}: device {name!r:.60}: key 'messages' must be a text of events; add it")
        time, kind = _parse(path, name, entry["messages"], codes)
        order = np.argsort(time, kind="stable")
        times.append(time[order])
        kinds.append(kind[order])
        if progress is not None:
            progress(number + 1, len(devices))
    device = np.repeat(np.arange(len(times)), [len(time) for time in times])
    if not len(device):
        raise InputError(f"{path}: no device has an event; give a file with at least one")
    return FlashEvents(tuple(devices), device, np.concatenate(times), np.concatenate(kinds))


def _devices(path: Path, text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{path}: key {twice!r:.60} is given twice; keep one")
        return found

    try:
        devices = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: not JSON ({error.msg}, column {error.colno}); check the file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON that can be read ({error}); check the file") from None
    if not isinstance(devices, dict) or not devices:
        raise InputError(f'{path}:1: not FLASH events; the file must be {{"id": {{"messages": "..."}}, ...}}')
    for name in devices:
        if not name or not {"\0", "\r", "\n"}.isdisjoint(name):
            raise InputError(f"{path}: device {name!r:.60} is not a name; give every device one, on one line")
    return devices


class _Codes(dict[str, float]):
    """The number of each event; levels of the battery are added as they are met, anything else is a ValueError."""

    def __init__(self) -> None:
        super().__init__({event: float(k) for k, event in enumerate(EVENTS)})

    def __missing__(self, text: str) -> float:
        event = text.lower()
        if event in EVENTS:
            number = float(EVENTS.index(event))
        else:
            digits = event.removesuffix("%")
            if digits == event or not digits.replace(".", "", 1).isdecimal() or not 0 <= float(digits) <= 100:
                raise ValueError(text)
            number = LEVEL + float(digits)
        self[text] = number
        return number


def _parse(path: Path, name: str, messages: str, codes: _Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Time and number of each event of one device, in the order of its lines."""
    rows = [line.partition("\t") for line in messages.split("\n") if line and not line.isspace()]

    def fault(row: int, text: str) -> InputError:
        lines = [k for k, line in enumerate(messages.split("\n"), 1) if line and not line.isspace()]
        return InputError(f"{path}: device {name!r:.60}, line {lines[row]} of its messages: {text}")

    stamps = [row[0].strip() for row in rows]
    bad = next((k for k, stamp in enumerate(stamps) if len(stamp) != len(STAMP)), None)
    time, wrong = _seconds("".join(stamps)) if bad is None else (np.empty(0), None)
    bad = wrong if bad is None else bad
    if bad is not None:
        raise fault(bad, f"{stamps[bad]!r:.60} is not a time; write it as '{STAMP}', a tab, the event")
    kinds = np.empty(len(rows))
    try:
        for k, row in enumerate(rows):
            kinds[k] = codes[row[2].strip()]
    except ValueError:
        known = ", ".join((*EVENTS, "NN.N%"))
        raise fault(k, f"unknown event {rows[k][2].strip()!r:.60}; known: {known}") from None
    return time, kinds


def _seconds(stamps: str) -> tuple[NDArray[np.float64], int | None]:
    """Seconds since 1970 of stamps of the right length, and the first that is not a time."""
    text = np.frombuffer(stamps.encode("latin-1", "replace"), dtype=np.uint8).reshape(-1, len(STAMP))
    pattern = np.frombuffer(STAMP.encode(), dtype=np.uint8)
    digit = (pattern >= ord("0")) & (pattern <= ord("9"))
    good = np.all(text[:, ~digit] == pattern[~digit], axis=1)
    values = text.astype(np.int64) - ord("0")
    good &= np.all((values[:, digit] >= 0) & (values[:, digit] <= 9), axis=1)
    year = values[:, :4] @ POWERS
    month, day, hour, minute, second = (values[:, k : k + 2] @ POWERS[2:] for k in (5, 8, 11, 14, 17))
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    opening, closing = (
        m.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for m in (months, months + 1)
    )
    good &= day <= closing - opening
    seconds = (opening + day - 1) * 86400 + hour * 3600 + minute * 60 + second
    wrong = np.flatnonzero(~good)
    return seconds.astype(np.float64), int(wrong[0]) if len(wrong) else None


def _midnight(epoch: str | None, times: FloatArray) -> float:
    if epoch is None:
        return float(times.min() // DAY * DAY)
    found, wrong = _seconds(f"{epoch} 00:00:00") if len(epoch) == 10 else (times, 0)
    if wrong is not None:
        raise ConfigError(f"epoch={epoch!r} must be a date, as in 2020-01-02")
    return float(found[0])
