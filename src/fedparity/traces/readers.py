"""Reads any supported trace file: our own, FLASH's events, FedScale's pickle, a table; its content tells which.

    # fedparity-trace 1 ...        our own (`plain`)
    {"0": {"messages": ...         FLASH events (`flash`), under a readiness rule
    a pickle's first byte          FedScale (`fedscale`)
    client,start_s,end_s           a table of intervals (`tables`), best with a table of devices

A name that ends in .gz is unpacked first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from fedparity.core.checks import at_least, not_negative, positive
from fedparity.core.checks import path as check_path
from fedparity.core.errors import ConfigError, unknown
from fedparity.core.trace import Trace
from fedparity.traces.fedscale import read_fedscale
from fedparity.traces.flash import FlashEvents, read_events
from fedparity.traces.intervals import ROUND_SECONDS, Intervals
from fedparity.traces.plain import read_data, read_plain
from fedparity.traces.rules import DEFAULT_RULE, parse_rule
from fedparity.traces.tables import is_table, read_tables

Format: TypeAlias = Literal["auto", "plain", "flash", "fedscale", "intervals"]
MOST_ROUNDS = 1_000_000
ONE_PASS = 100_000
"""Rounds that a file is replayed for if nobody says how many: at 1800 s almost six years."""
SURELY_FINE, PER_BYTE = 5_000_000, 1000
"""Devices times rounds that a file may ask for by itself: so many, or so many for each of its bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """What a trace file holds."""

    format: Format
    intervals: Intervals
    header: dict[str, float]
    """What our own files say of their replay."""
    size: int
    """Bytes of the file, unpacked."""
    events: FlashEvents | None = None
    """The events behind the intervals, if the file has any."""


def detect(data: bytes) -> Format:
    """What a file's first bytes say that it is; our own, if nothing else fits: its reader says what is missing."""
    head = data.removeprefix(b"\xef\xbb\xbf")[:4096].lstrip()
    if head.startswith(b"{"):
        return "flash"
    if head[:1] in (b"\x80", b"(", b"}"):
        return "fedscale"
    return "intervals" if is_table(head) else "plain"


def open_file(
    path: str | os.PathLike[str],
    rule: str | None = None,
    *,
    form: Format = "auto",
    devices: str | os.PathLike[str] | None = None,
    wifi_cleared: bool = True,
    open_end: bool = True,
    epoch: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Opened:
    """A trace file of any kind; an option that means nothing to its kind is refused."""
    if form not in get_args(Format):
        raise unknown("format", form, get_args(Format))
    tree = parse_rule(DEFAULT_RULE if rule is None else rule)
    check_path("path", path)
    path = Path(path)
    data = read_data(path)
    kind = detect(data) if form == "auto" else form
    for option, given, wanted in (
        ("rule", rule is not None, "flash"),
        ("wifi_cleared=False", not wifi_cleared, "flash"),
        ("open_end=False", not open_end, "flash"),
        ("epoch", epoch is not None, "flash"),
        ("devices", devices is not None, "intervals"),
    ):
        if given and kind != wanted:
            what = {"flash": "files of events (FLASH)", "intervals": "tables of intervals"}[wanted]
            raise ConfigError(f"{option} is for {what}, but {path} is not one ({kind}); leave it out")
    if kind == "flash":
        events = read_events(path, data=data, progress=progress)
        intervals = events.intervals(tree, wifi_cleared=wifi_cleared, open_end=open_end, epoch=epoch)
        return Opened(kind, intervals, {}, len(data), events)
    if kind == "fedscale":
        return Opened(kind, read_fedscale(path, data=data), {}, len(data))
    if kind == "intervals":
        return Opened(kind, read_tables(path, devices, data=data), {}, len(data))
    intervals, header = read_plain(path, data)
    return Opened("plain", intervals, header, len(data))


def load_trace(
    path: str | os.PathLike[str],
    rounds: int | None = None,
    round_seconds: float | None = None,
    start: float | None = None,
    work_seconds: float | None = None,
    *,
    rule: str | None = None,
    devices: str | os.PathLike[str] | None = None,
    open_end: bool = True,
    watch: int | None = None,
) -> Trace:
    """A trace file of any kind as rounds.

    What is not given is taken from its header, else one pass at 1800 s per round. `rule` and `open_end` (False: drop
    what is still open at a device's last event) are for files of events, `devices` for tables of intervals. The server
    has watched the `watch` rounds before `start`; if that is not given, all that fit between the beginning of the file
    and `start`: 0 if it starts there.
    """
    named = {"rounds": rounds, "round_seconds": round_seconds, "work_seconds": work_seconds, "start": start}
    given = {key: value for key, value in named.items() if value is not None}
    _check_given(given, watch)
    opened = open_file(path, rule, devices=devices, open_end=open_end)
    intervals = opened.intervals
    settings = opened.header | {key: float(value) for key, value in given.items()}
    seconds, offset = settings.get("round_seconds", ROUND_SECONDS), settings.get("start", 0.0)
    span = float(intervals.last_seen.max() - intervals.first_seen.min()) - offset
    count = settings.get("rounds", max(1.0, (span / seconds + 1e-9) // 1))
    if "rounds" not in settings and count > ONE_PASS:
        raise ConfigError(
            f"{path}: one pass has {count:.0f} rounds of {seconds:g} s, more than {ONE_PASS}; correct it or give rounds"
        )
    if count > MOST_ROUNDS:
        raise ConfigError(f"rounds={count:g} must be at most {MOST_ROUNDS}; give fewer rounds or longer ones")
    most = int((offset / seconds + 1e-9) // 1)
    watched = most if watch is None else watch
    if not 0 <= watched <= most:
        raise ConfigError(
            f"watch={watch} must be between 0 and the {most} rounds that lie before start={offset:g}; lower it"
        )
    if watched > MOST_ROUNDS:
        raise ConfigError(f"start={offset:g} has {watched} rounds before it, at most {MOST_ROUNDS}; give watch")
    by_itself = (0 if rounds is not None else count) + (0 if watch is not None else watched)
    if by_itself * len(intervals.names) > max(SURELY_FINE, PER_BYTE * opened.size):
        raise ConfigError(
            f"{path}: {opened.size} bytes ask for {by_itself:.0f} rounds of {len(intervals.names)} devices; "
            "correct the file or give rounds and watch"
        )
    trace = intervals.replay(int(count), seconds, offset, settings.get("work_seconds", 0.0))
    if not watched:
        return trace
    return replace(trace, before=intervals.replay(watched, seconds, offset - watched * seconds))


def _check_given(given: Mapping[str, float], watch: int | None) -> None:
    for key, value in given.items():
        if key == "rounds":
            at_least(key, value, 1)  # type: ignore[arg-type] # which is what it finds out
        elif key == "round_seconds":
            positive(key, value)
        else:
            not_negative(key, value)
    if watch is not None:
        at_least("watch", watch, 0)
