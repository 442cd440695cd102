"""Methods side by side, seed by seed: what each difference is worth, and what it cost.

Runs are paired only if everything but their methods is the same (and the trace itself is): a seed then fixes data,
availability and first model for all, and the spread between seeds drops out of the differences (`metrics.paired`).
All seeds of a run share one trace, so an interval says nothing about other traces.

    communication   (models sent to those asked + updates that came back) x parameters x 4 bytes
    memory          numbers that the method's rules keep on the server, and those that its clients keep
    compute         mini-batch steps behind the updates that were used; seconds from the log (telemetry)

Training traffic only: what schedulers probe or a utility rule evaluates is not in the journal and not counted, nor is a
personal model trained beside the shared one. What a run cannot tell is None, never a guess.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedparity.availability import shown_name
from fedparity.core.errors import ConfigError
from fedparity.core.files import csv_text
from fedparity.core.ledger import Normaliser
from fedparity.core.trace import Trace
from fedparity.experiment.run import MethodRun, Run
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.metrics import Table, compare_methods, in_reading, mean_ranks, pairs_needed
from fedparity.metrics.measures import higher_is_better
from fedparity.schedulers import Parity

WORD = 4
"""Bytes of a number on the wire, whatever the simulation works in."""
BASELINE = "uniform"


BLOCKS = (
    ("accuracy", "avg_client_accuracy", "own_accuracy", "worst_accuracy", "variance_percent2"),
    ("utility_cv", "jain_utility", "coverage", "round_seconds"),
    ("selection_gap", "selection_gap_avoidable", "gini", "gini_avoidable"),
)
"""What stands side by side: three narrow tables fit where one wide one does not."""
READ = ("utility_cv", "jain_utility")
"""Which of them have readings; the one asked for is shown, the files hold all."""
COMPARED = (
    *(key for block in BLOCKS for key in block),
    *(in_reading(key, by) for by in get_args(Normaliser)[1:] for key in READ),
)
"""What is compared: measures, and parts of them."""
FAIRNESS, ACCURACY = "gini_avoidable", "accuracy"
"""What the outcome and the picture speak of."""


@dataclass(frozen=True, slots=True)
class Stat:
    """One metric of one method over seeds, beside the reference; None where undefined."""

    mean: float | None
    sd: float | None
    """Over seeds, population, as in summary.json; None with a single one."""
    n: int
    """Seeds for which it is defined."""
    difference: float | None = None
    """Mean over pairs of method - reference; None for the reference itself."""
    low: float | None = None
    """Its paired t interval, 95 %; None with fewer than two pairs."""
    high: float | None = None
    rank: float | None = None
    """Mean place among all methods, 1 the best."""
    pairs: int | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    p: float | None = None
    """Sign-flip test; None with fewer than six pairs."""
    p_holm: float | None = None
    """The same after Holm's correction over all methods but the reference."""
    told_apart: bool | None = None
    """Whether it differs from the reference by more than chance explains (`PairedDifference.told_apart`): a star."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a method took, means over seeds; None where the run cannot tell."""

    asked: float
    """Models sent to clients."""
    updates: float
    """Updates that came back and were used."""
    parameters: int | None
    megabytes: float | None
    server_words: int | None
    """Numbers in the states of its rules after the last round (first seed)."""
    client_words: int | None
    """Numbers that clients keep of their own."""
    local_steps: float | None
    seconds: float | None
    """Telemetry."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRun:
    """A finished run, and where it came from."""

    where: str
    run: Run

    @classmethod
    def of(cls, folder: str | Path) -> ComparedRun:
        """A stored run that is finished, or an error that says how to finish it."""
        run = Run.open(folder)
        if not run.complete:
            again = f"fedparity run {Path(folder) / 'spec.toml'} --out {folder} --resume"
            raise ConfigError(f"{folder} is not finished; go on with: {again}")
        return cls(str(folder), run)


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One method of one run, under the name it has in the comparison."""

    name: str
    part: ComparedRun
    method: MethodSpec

    @property
    def runs(self) -> list[MethodRun]:
        """Its runs, one per seed."""
        return self.part.run.of(self.method.name)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The table of a paper: methods by measures, with what each difference to the reference is worth."""

    spec: Spec
    reference: str
    table: Table
    stats: Mapping[str, Mapping[str, Stat]]
    cost: Mapping[str, Cost]
    curves: tuple[tuple[tuple[float, str], ...], ...] = ()
    """Contenders that differ in parity's beta alone: beta and name, rising."""
    normaliser: Normaliser = "availability"
    """In which reading utilities are shown."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The contenders by name."""
        return self.table.methods

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that all of them have."""
        return self.table.seeds

    def blocks(self) -> list[list[str]]:
        """The columns that stand side by side, those without a number left out."""
        read = ([in_reading(key, self.normaliser) if key in READ else key for key in block] for block in BLOCKS)
        return [keys for block in read if (keys := self.shown(block))]

    def shown(self, keys: Sequence[str] = COMPARED) -> list[str]:
        """The columns in which there is a number; kept models only where clients keep some."""
        kept, shared = (self.table.values[key] for key in ("own_accuracy", "avg_client_accuracy"))
        same = all(np.array_equal(kept[name], shared[name], equal_nan=True) for name in self.methods)
        return [key for key in self.table.known(keys) if key != "own_accuracy" or not same]

    def outcome(self) -> str:
        """Who is fairest and who is most accurate, and from whom they are not told apart."""
        table = self.table
        said = [table.said(FAIRNESS, "Fairest by avoidable Gini"), table.said(ACCURACY, "most accurate")]
        told = "; ".join(text for text in said if text)
        aside = " (oracles aside)" if table.hindsight and told else ""
        text = f"{told}{aside}." if told else "Nothing to compare by is defined."
        return f"{text} {table.caution()}".rstrip()

    def note(self) -> str:
        """What stands under the differences: which interval and test, over how many pairs, corrected for how many."""
        pairs = [s.pairs for by_name in self.stats.values() for s in by_name.values() if s.pairs]
        if not pairs:
            return ""
        others, low, high = len(self.methods) - 1, min(pairs), max(pairs)
        over = f"{low} to {high} paired seeds" if low < high else f"{high} paired seed{'s' * (high > 1)}"
        needed = pairs_needed(others)
        few = f"; fewer than {needed} seeds have none" if low < needed else ""
        return (
            f"Differences to {self.reference} over {over}: paired t intervals, 95 %. A star: told apart by the"
            f" sign-flip test, p at most .05 after Holm's correction over {others} method{'s' * (others > 1)}{few}."
        )

    def to_json(self, files: Sequence[str] = ()) -> dict[str, Any]:
        """What `--json` prints and comparison.json holds."""
        return {
            "rounds": self.spec.rounds,
            "seeds": len(self.seeds),
            "clients": self.spec.population.clients,
            "cohort": self.spec.cohort,
            "availability": shown_name(self.spec.population.shown),
            "reference": self.reference,
            "normaliser": self.normaliser,
            "metrics": {
                key: {name: dataclasses.asdict(stat) for name, stat in found.items()}
                for key, found in self.stats.items()
            },
            "cost": {name: dataclasses.asdict(cost) for name, cost in self.cost.items()},
            "note": self.note(),
            "outcome": self.outcome(),
            "files": list(files),
        }

    def to_csv(self) -> str:
        """One row per metric and method; what it cost follows, with means alone and the seconds last."""
        columns = [f.name for f in dataclasses.fields(Stat)]
        rows: list[list[object]] = [
            [key, name, *(getattr(stat, column) for column in columns)]
            for key, found in self.stats.items()
            for name, stat in found.items()
        ]
        blank = [None] * (len(columns) - 1)
        for field in dataclasses.fields(Cost):
            rows += [[field.name, name, getattr(cost, field.name), *blank] for name, cost in self.cost.items()]
        return csv_text(["metric", "method", *columns], rows)


def compare(
    parts: Sequence[ComparedRun], reference: str | None = None, normaliser: Normaliser | None = None
) -> Comparison:
    """Every method of every part against `reference` (else `uniform`, else the first); they must be paired.

    Utilities are shown in the reading of `normaliser`, else in the first run's.
    """
    if not parts:
        raise ConfigError("there is nothing to compare; give at least one run")
    for other in parts[1:]:
        _check_paired(parts[0], other)
    found = _contenders(parts)
    names = tuple(c.name for c in found)
    chosen = reference or (BASELINE if BASELINE in names else names[0])
    table = _joined(found)
    stats = {key: _stats(table, key, chosen) for key in COMPARED}
    cost = {c.name: _cost(c) for c in found}
    spec = parts[0].run.spec
    return Comparison(spec, chosen, table, stats, cost, _curves(found), normaliser or spec.reading)


def _joined(contenders: Sequence[Contender]) -> Table:
    """The columns that are compared, of all runs together."""
    first = contenders[0].part.run.table
    values = {key: {c.name: c.part.run.table.values[key][c.method.name] for c in contenders} for key in COMPARED}
    hindsight = frozenset(c.name for c in contenders if c.method.name in c.part.run.hindsight)
    return Table(tuple(c.name for c in contenders), first.seeds, values, hindsight)


def _stats(table: Table, key: str, reference: str) -> dict[str, Stat]:
    values, higher = table.values[key], higher_is_better(key)
    pairs = compare_methods(values, reference, higher_is_better=higher)
    ranks = mean_ranks(values, higher_is_better=higher).ranks
    found = {}
    for name, column in values.items():
        n = int(np.isfinite(column).sum())
        ends = (table.mean(key, name), table.sd(key, name) if n > 1 else None, n)
        d = pairs.get(name)
        if d is None:
            found[name] = Stat(*ends, rank=_or_none(ranks[name]))
        else:
            told = (_or_none(d.mean), _or_none(d.low), _or_none(d.high))
            tested = (_or_none(d.p), _or_none(d.p_holm), d.told_apart)
            found[name] = Stat(*ends, *told, _or_none(ranks[name]), d.pairs, d.wins, d.ties, d.losses, *tested)
    return found


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


# -- pairing ----------------------------------------------------------------------------------------------------------


FREE: dict[str, Any] = {"name": True, "normaliser": True, "methods": True, "execution": {"workers": True}}
"""Keys of a spec that may differ between paired runs."""


def _check_paired(first: ComparedRun, other: ComparedRun) -> None:
    """Refuse runs of which a difference would mix methods with anything else."""
    a, b = (_flat(part.run.resolved.model_dump(exclude=FREE)) for part in (first, other))
    pair = f"{first.where} and {other.where} cannot be paired"
    for key in a | b:
        if a.get(key) != b.get(key):
            raise ConfigError(
                f"{pair}: {key} is {a.get(key)!r} in the one and {b.get(key)!r} in the other; run both with the same"
            )
    for what, ours, theirs in (
        ("erased other clients", first.run.erased, other.run.erased),
        ("used other seeds", first.run.table.seeds, other.run.table.seeds),
    ):
        if ours != theirs:
            raise ConfigError(f"{pair}: they {what}; run both anew")
    if not _same_trace(first.run.trace, other.run.trace):
        raise ConfigError(f"{pair}: their traces differ; run both on the same file")


def _same_trace(x: Trace, y: Trace) -> bool:
    same = np.array_equal(x.starts, y.starts) and np.array_equal(x.clients, y.clients)
    if x.stays is None or y.stays is None:
        return same and x.stays is y.stays
    return same and np.array_equal(x.stays, y.stays)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _contenders(parts: Sequence[ComparedRun]) -> list[Contender]:
    """Every method; a name that several runs have is told apart by the run's name, or its folder.

    Names stand in files that are published, so of a folder only the part is shown in which the runs differ.
    """
    folders = [Path(part.where).resolve() for part in parts]
    shared = next((p for p in folders[0].parents if all(f.is_relative_to(p) for f in folders)), folders[0])
    tails = {part.where: folder.relative_to(shared).as_posix() for part, folder in zip(parts, folders, strict=True)}
    resolved = [(part, m) for part in parts for m in part.run.resolved.methods]
    names = [m.name for _, m in resolved]
    for label in (lambda part: part.run.spec.name, lambda part: Path(part.where).name, lambda part: tails[part.where]):
        found = [
            Contender(m.name if names.count(m.name) == 1 else f"{label(part)}/{m.name}", part, m)
            for part, m in resolved
        ]
        if len({c.name for c in found}) == len(found):
            return found
    raise ConfigError(f"{parts[-1].where} is given twice; give each run once")


# -- cost -------------------------------------------------------------------------------------------------------------


def _cost(contender: Contender) -> Cost:
    runs = contender.runs
    asked = float(np.mean([one.ledger.selected.sum() for one in runs]))
    updates = float(np.mean([one.ledger.completed.sum() for one in runs]))
    facts = runs[0].facts
    size = None if facts is None or not facts.parameters else facts.parameters
    return Cost(
        asked=asked,
        updates=updates,
        parameters=size,
        megabytes=None if size is None else (asked + updates) * size * WORD / 1e6,
        server_words=None if facts is None or size is None else facts.server_words,
        client_words=None if facts is None or size is None else facts.client_words,
        local_steps=_mean_steps(runs),
        seconds=_or_none(float(np.mean([one.column("seconds").sum() for one in runs]))),
    )


def _mean_steps(runs: Sequence[MethodRun]) -> float | None:
    """Mini-batch steps behind the updates that were used; None for a task that does not say."""
    taken = []
    for one in runs:
        if one.facts is None or one.facts.local_steps is None:
            return None
        taken.append(float(one.facts.local_steps @ one.ledger.completed))
    return float(np.mean(taken))


# -- the line over beta -----------------------------------------------------------------------------------------------


def _curves(contenders: Sequence[Contender]) -> tuple[tuple[tuple[float, str], ...], ...]:
    groups: dict[str, list[tuple[float, str]]] = {}
    for c in contenders:
        scheduler = c.method.parts.scheduler
        if isinstance(scheduler, Parity) and not isinstance(scheduler.target, str):
            rest = c.method.model_dump(exclude={"name", "scheduler"})
            key = repr((dataclasses.replace(scheduler, target="share"), sorted(rest.items()), c.part.where))
            groups.setdefault(key, []).append((float(scheduler.target), c.name))
    return tuple(tuple(sorted(points)) for points in groups.values() if len(points) > 1)


def with_betas(methods: Sequence[MethodSpec], betas: Sequence[float]) -> tuple[MethodSpec, ...]:
    """The methods and `parity:target=beta` for each beta, called parity_beta0.25 and the like."""
    added = [MethodSpec(name=f"parity_beta{beta:g}", scheduler=f"parity:target={beta:g}") for beta in betas]
    return (*methods, *added)
