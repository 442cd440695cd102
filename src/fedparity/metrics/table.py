"""Methods by measures, one number per seed: what every table, page and file of results is drawn from.

**Who leads**, said once for all of them: the method with the best mean over seeds. Tied with it is every method whose
mean prints the same and, where there are enough seeds to tell that many methods apart, every method that is not told
apart from it (`metrics.paired`). Methods that know the future are limits, not contenders: they lead only where there is
nobody else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedparity.core.errors import unknown
from fedparity.core.types import FloatArray
from fedparity.metrics.measure import NAN, Measure, Outcome
from fedparity.metrics.measures import RUN, heading, higher_is_better, measure_of, numbers
from fedparity.metrics.paired import align_seeds, compare_methods, pairs_needed

DASH = "–"
MAIN = ("late_accuracy", "late_worst_accuracy", "never_served", "gini_avoidable", "gini", "gini_limit")
"""What a table shows when it is printed."""


@dataclass(frozen=True, slots=True)
class Leaders:
    """The best of a column, and those that cannot be told apart from it, in the table's order."""

    first: str
    tied: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """The best first."""
        return (self.first, *self.tied)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by key (a measure's name, or that with `_limit` or `_avoidable`), in each a vector per method."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[str, FloatArray]]
    """Key, method, one number per seed; NaN: undefined."""
    hindsight: frozenset[str] = frozenset()
    """Methods that know the future."""
    _leaders: dict[str, Leaders | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        outcomes: Mapping[str, Mapping[int, Outcome]],
        measures: tuple[Measure, ...] = RUN,
        hindsight: Iterable[str] = (),
    ) -> Table:
        """Every measure of every outcome, by method and seed: each is computed here, once."""
        found = {name: {seed: numbers(o, measures) for seed, o in runs.items()} for name, runs in outcomes.items()}
        keys = dict.fromkeys(key for runs in found.values() for row in runs.values() for key in row)
        values: dict[str, Mapping[str, FloatArray]] = {}
        seeds: tuple[int, ...] = tuple(sorted({seed for runs in found.values() for seed in runs}))
        for key in keys:
            by_seed = {name: {s: row.get(key, NAN) for s, row in runs.items()} for name, runs in found.items()}
            seeds, values[key] = align_seeds(by_seed)
        return cls(tuple(found), seeds, values, frozenset(hindsight))

    def __repr__(self) -> str:
        return f"Table({len(self.methods)} methods x {len(self.values)} measures, {len(self.seeds)} seeds)"

    def __str__(self) -> str:
        """The main columns as text: means over seeds, each limit behind its measure."""
        keys = self.known(MAIN)
        rows = [("method", *(heading(key, narrow=True) for key in keys))]
        rows += [(name, *(printed(key, self.mean(key, name)) for key in keys)) for name in self.methods]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        cells = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *line[1:]]) for row, line in zip(rows, cells, strict=True))

    def __contains__(self, key: object) -> bool:
        """Whether any method has a number in that column."""
        return key in self.values and any(np.isfinite(v).any() for v in self.values[str(key)].values())

    def known(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Those of the columns in which there is a number."""
        return tuple(key for key in keys if key in self)

    def mean(self, key: str, method: str) -> float | None:
        """Over the seeds for which it is defined; None without any."""
        values = self._finite(key, method)
        return float(values.mean()) if len(values) else None

    def sd(self, key: str, method: str) -> float | None:
        """Over seeds, population; None without any number."""
        values = self._finite(key, method)
        return float(values.std()) if len(values) else None

    def _finite(self, key: str, method: str) -> FloatArray:
        if method not in self.methods:
            raise unknown("method", method, self.methods)
        if key not in self.values:
            measure_of(key)  # a name that is none is an error; one that was not measured has no values
        values = self.values.get(key, {}).get(method)
        return np.empty(0) if values is None else values[np.isfinite(values)]

    def row(self, method: str) -> dict[str, float | None]:
        """One method's means by key, with `_sd` beside each; None where undefined."""
        found: dict[str, float | None] = {}
        for key in self.values:
            found[key] = self.mean(key, method)
            found[f"{key}_sd"] = self.sd(key, method)
        return found

    @property
    def contenders(self) -> tuple[str, ...]:
        """Those that can lead: all but oracles, unless there is nobody else."""
        return tuple(name for name in self.methods if name not in self.hindsight) or self.methods

    def leaders(self, key: str) -> Leaders | None:
        """Who is best in a column, and who cannot be told apart from it; None if nobody has a number."""
        if key not in self._leaders:
            self._leaders[key] = self._lead(key)
        return self._leaders[key]

    def _lead(self, key: str) -> Leaders | None:
        means = {name: mean for name in self.contenders if (mean := self.mean(key, name)) is not None}
        if not means:
            return None
        higher = higher_is_better(key)
        first = (max if higher else min)(means, key=means.__getitem__)
        shown = printed(key, means[first])
        tied = {name for name in means if printed(key, means[name]) == shown}
        if not self.by_chance:
            # Who is first is read off these very numbers, so any two of them might have been compared.
            columns = {name: self.values[key][name] for name in means}
            apart = compare_methods(columns, first, comparisons=max(1, math.comb(len(means), 2)))
            tied |= {name for name, d in apart.items() if not d.told_apart}
        return Leaders(first, tuple(name for name in means if name in tied and name != first))

    @property
    def seeds_needed(self) -> int:
        """With fewer seeds nothing can be told apart from chance, however clear it looks."""
        rivals = len(self.contenders)
        return pairs_needed(math.comb(rivals, 2)) if rivals > 1 else 1

    @property
    def by_chance(self) -> bool:
        """Whether there are too few seeds to tell the contenders apart."""
        return len(self.seeds) < self.seeds_needed

    def caution(self) -> str:
        """What has to be said where there are too few seeds; empty where there are enough."""
        if not self.by_chance:
            return ""
        rivals, needed = len(self.contenders), self.seeds_needed
        return f"Differences may be chance: to tell {rivals} methods apart takes {needed} seeds or more."

    @property
    def led_by(self) -> str:
        """Who stands out in a column, in words."""
        few = f"the best mean ({len(self.seeds)} of the {self.seeds_needed} seeds that it takes to tell methods apart)"
        return few if self.by_chance else "who leads, and who is not told apart from it"

    def level(self, key: str) -> list[str]:
        """Those that lead a column and print the same number, in the table's order: none of them is first."""
        found = self.leaders(key)
        if found is None:
            return []
        shown = printed(key, self.mean(key, found.first))
        return [name for name in self.methods if name in found.all and printed(key, self.mean(key, name)) == shown]

    def said(self, key: str, what: str) -> str:
        """`fairest by avoidable Gini: cup and parity (not told apart from least_served)`; empty without a number."""
        found, level = self.leaders(key), self.level(key)
        if found is None:
            return ""
        tied = [name for name in found.all if name not in level]
        return f"{what}: {listed(level)}{f' (not told apart from {listed(tied)})' if tied else ''}"

    def told_apart(self, key: str) -> bool:
        """Whether anybody is behind the leaders: a column in which all tie has no best."""
        found = self.leaders(key)
        known = [name for name in self.contenders if self.mean(key, name) is not None]
        return found is not None and len(found.all) < len(known)


def listed(names: Sequence[str], most: int = 5) -> str:
    """`a`, `a and b`, `a, b and c`; after `most`, how many more there are."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def printed(key: str, value: float | None) -> str:
    """A number as every table prints it: one way for each measure, a dash for what is undefined."""
    measure = measure_of(key)
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if measure.form == "count":
        return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else _fixed(value, 1)
    if measure.form == "percent":
        return f"{_fixed(100 * value, measure.digits)} %"
    return _brief(value) if measure.form == "brief" else _fixed(value, measure.digits)


def _fixed(value: float, places: int) -> str:
    shown = f"{value:,.{places}f}"
    return shown.replace("-", "", 1) if float(shown.replace(",", "")) == 0 else shown  # never -0.000


def _brief(value: float) -> str:
    """Three digits that count: 535, 0.0123, 1.2e-07."""
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-4 <= size < 1e6:
        return f"{value:.2g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"
