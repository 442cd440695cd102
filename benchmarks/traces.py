"""`python -m benchmarks.traces`: how long a FLASH file of 10^6 events and the figures of 10^7 intervals take."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from fedparity.traces.flash import read_events
from fedparity.traces.intervals import DAY, Intervals
from fedparity.traces.stats import trace_stats

NAMES = ("screen_on", "screen_off", "battery_charged_on", "battery_charged_off", "wifi", "4G", "Unknown", "87.0%")


def flash_file(path: Path, devices: int, events: int, days: int = 7) -> Path:
    """A file in FLASH's format with random events, `events` a device."""
    rng = np.random.default_rng(0)
    found = {}
    for device in range(devices):
        seconds = np.sort(rng.integers(0, days * int(DAY), events))
        stamps = np.datetime_as_string(np.datetime64("2020-01-02", "s") + seconds)
        kinds = rng.integers(0, len(NAMES), events).tolist()
        lines = [f"{s.replace('T', ' ')} \t{NAMES[k]}\n" for s, k in zip(stamps.tolist(), kinds, strict=True)]
        found[str(device)] = {"guid": str(device), "model": "x", "messages": "".join(lines)}
    path.write_text(json.dumps(found))
    return path


def large_trace(devices: int = 100_000, each: int = 100, days: int = 10) -> Intervals:
    """Devices with `each` intervals of random length."""
    rng = np.random.default_rng(0)
    edges = np.sort(rng.integers(0, 8 * int(DAY) * days, (devices, 2 * each)), axis=1) / 8 + np.arange(2 * each)
    names = tuple(map(str, range(devices)))
    span = np.full(devices, days * DAY + 2 * each)
    start, end = edges[:, ::2].ravel(), edges[:, 1::2].ravel()
    return Intervals(names, np.zeros(devices), span, np.repeat(np.arange(devices), each), start, end)


def main() -> None:
    """Print both figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = flash_file(Path(folder) / "events.json", 1000, 1000)
        start = time.perf_counter()
        intervals = read_events(path).intervals()
        print(
            f"FLASH, 1,000 devices, 10^6 events: {time.perf_counter() - start:.1f} s ({len(intervals.device)} times ready)"
        )
    table = large_trace()
    start = time.perf_counter()
    trace_stats(table)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"stats, 10^5 devices, 10^7 intervals: {time.perf_counter() - start:.1f} s, {most:.2f} GiB at most")


if __name__ == "__main__":
    main()
