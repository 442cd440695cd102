"""Timing that can be trusted on a shared machine: contenders take turns in one process, and ratios are reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Timing:
    """One contender on one workload; `ratio` is its median over the first contender's."""

    benchmark: str
    contender: str
    workload: str
    ratio: float
    median_s: float
    spread: float
    """Highest over lowest time: above 2 the machine was busy."""
    n: int

    def json(self) -> dict[str, object]:
        """As it stands in results.json."""
        return asdict(self)


def race(benchmark: str, workload: str, contenders: dict[str, Callable[[], object]], repeats: int) -> list[Timing]:
    """Time every contender `repeats` times, taking turns; the first one is what the others are compared with."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for name, once in contenders.items():
        once()  # warm up
        times[name].clear()
    for _ in range(repeats):
        for name, once in contenders.items():
            start = time.perf_counter()
            once()
            times[name].append(time.perf_counter() - start)
    base = median(next(iter(times.values())))
    return [
        Timing(benchmark, name, workload, median(t) / base, median(t), max(t) / min(t), repeats)
        for name, t in times.items()
    ]
