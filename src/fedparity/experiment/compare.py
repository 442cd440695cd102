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
from typing import Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.files import csv_text
from fedparity.core.registry import component_class
from fedparity.core.types import FloatArray
from fedparity.experiment.facts import local_steps
from fedparity.experiment.results import MethodRun, Results
from fedparity.experiment.runner import load_results
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.tasks import build_task
from fedparity.metrics import align_seeds, compare_methods, mean_ranks, summarise_performance
from fedparity.schedulers import SCHEDULERS, Parity
from fedparity.store import Store

WORD = 4
"""Bytes of a number on the wire, whatever the simulation works in."""
BASELINE = "uniform"


@dataclass(frozen=True, slots=True)
class Metric:
    """What is compared: a name of `fedparity list metrics`, its headings, which way is better, decimals shown."""

    key: str
    head: str
    title: str
    higher: bool = False
    places: int = 3


COMPARED = (
    Metric("accuracy", "accuracy", "Accuracy", higher=True),
    Metric("avg_client_accuracy", "client", "Mean client accuracy", higher=True),
    Metric("own_accuracy", "own model", "Mean accuracy of own models", higher=True),
    Metric("worst_accuracy", "worst 10%", "Worst 10 % accuracy", higher=True),
    Metric("variance_percent2", "variance", "Variance of client accuracy (percent squared)", places=1),
    Metric("utility_cv", "utility CV", "Utility CV"),
    Metric("jain_utility", "Jain", "Jain, utility", higher=True),
    Metric("coverage", "coverage", "Coverage", higher=True),
    Metric("selection_gap", "gap", "Selection gap"),
    Metric("selection_gap_avoidable", "avoidable", "Selection gap, avoidable"),
    Metric("gini", "Gini", "Gini"),
    Metric("gini_avoidable", "avoidable", "Gini, avoidable"),
)
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
    """Its bootstrap 95 % interval; None with fewer than two pairs."""
    high: float | None = None
    rank: float | None = None
    """Mean place among all methods, 1 the best."""
    pairs: int | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None


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


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a method's last state holds."""

    parameters: int
    server_words: int
    client_words: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A finished run to be compared."""

    where: str
    results: Results
    footprints: Mapping[str, Footprint]
    """By method; without an entry the run cannot tell."""


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One method of one run, under the name it has in the comparison."""

    name: str
    part: Part
    method: MethodSpec

    @property
    def runs(self) -> list[MethodRun]:
        """Its runs, one a seed."""
        return self.part.results.of(self.method.name)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The table of a paper: methods by metrics, with what each difference to the reference is worth."""

    spec: Spec
    seeds: tuple[int, ...]
    reference: str
    methods: tuple[str, ...]
    values: Mapping[str, Mapping[str, FloatArray]]
    """Metric, method, a number a seed (NaN: undefined)."""
    stats: Mapping[str, Mapping[str, Stat]]
    cost: Mapping[str, Cost]
    curves: tuple[tuple[tuple[float, str], ...], ...] = ()
    """Contenders that differ in parity's beta alone: beta and name, rising."""
    hindsight: frozenset[str] = frozenset()
    """Contenders that know the future: limits, which the outcome leaves aside."""

    def shown(self) -> list[Metric]:
        """The metrics that any method has a number for; own models only where clients keep some."""
        found = [m for m in COMPARED if any(s.n for s in self.stats[m.key].values())]
        own, shared = (self.stats[key] for key in ("own_accuracy", "avg_client_accuracy"))
        same = all(own[name].mean == shared[name].mean for name in self.methods)
        return [m for m in found if m.key != "own_accuracy" or not same]

    def best(self, metric: Metric) -> list[str]:
        """The method with the best mean, then those whose difference to it has an interval around zero."""
        stats = {name: s for name, s in self.stats[metric.key].items() if name not in self.hindsight}
        known = {name: s.mean for name, s in stats.items() if s.mean is not None}
        if not known:
            return []
        sign = -1 if metric.higher else 1
        top = min(known, key=lambda name: (sign * known[name], self.methods.index(name)))
        near = compare_methods(self.values[metric.key], top, higher_is_better=metric.higher)
        tied = [name for name in self.methods if name in near and near[name].low <= 0 <= near[name].high]
        return [top, *(name for name in tied if name in known)]

    def outcome(self) -> str:
        """Who is fairest and who is most accurate, and from whom they cannot be told apart."""
        said = []
        for words, key in (("Fairest by avoidable Gini", FAIRNESS), ("most accurate", ACCURACY)):
            found = self.best(next(m for m in COMPARED if m.key == key))
            if found:
                top, *near = found
                noun, verb = ("difference", "is") if len(near) == 1 else ("differences", "are")
                tied = f" (the {noun} of {_listed(near)} {verb} within the interval of zero)" if near else ""
                said.append(f"{words}: {top}{tied}")
        aside = " (oracles aside)" if self.hindsight and said else ""
        text = f"{'; '.join(said)}{aside}." if said else "Nothing to compare by is defined."
        single = len(self.seeds) == 1 and len(self.methods) > 1
        return f"{text} One seed gives no interval: differences may be chance." if single else text

    def to_json(self, files: Sequence[str] = ()) -> dict[str, Any]:
        """What `--json` prints and comparison.json holds."""
        return {
            "rounds": self.spec.rounds,
            "seeds": len(self.seeds),
            "clients": self.spec.population.clients,
            "cohort": self.spec.cohort,
            "availability": self.spec.population.availability,
            "reference": self.reference,
            "metrics": {
                key: {name: dataclasses.asdict(stat) for name, stat in found.items()}
                for key, found in self.stats.items()
            },
            "cost": {name: dataclasses.asdict(cost) for name, cost in self.cost.items()},
            "outcome": self.outcome(),
            "files": list(files),
        }

    def to_csv(self) -> str:
        """A row a metric and method; what it cost follows, with means alone and the seconds last."""
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


def read_part(folder: str | Path) -> Part:
    """A stored run that is finished, or an error that says how to finish it."""
    with Store.read(folder) as store:
        results = load_results(folder, store)
        if not results.complete:
            raise ConfigError(
                f"{folder} is not finished; go on with: fedparity run {Path(folder) / 'spec.toml'} --out {folder}"
                " --resume"
            )
        return part_of(results, store, str(folder))


def part_of(results: Results, store: Store | None, where: str) -> Part:
    """A run that is still at hand."""
    found = {}
    for name in results.methods if store is not None else ():
        footprint = None if store is None else _footprint(store, results.spec.seed, name)
        if footprint is not None:
            found[name] = footprint
    return Part(where, results, found)


def _footprint(store: Store, seed: int, method: str) -> Footprint | None:
    facts = store.facts(seed, method)
    if facts is None or not facts.parameters:
        return None
    return Footprint(facts.parameters, facts.server_words, facts.client_words)


def compare(parts: Sequence[Part], reference: str | None = None) -> Comparison:
    """Every method of every part against `reference` (else `uniform`, else the first); they must be paired."""
    if not parts:
        raise ConfigError("there is nothing to compare; give at least one run")
    for other in parts[1:]:
        _check_paired(parts[0], other)
    found = _contenders(parts)
    names = tuple(c.name for c in found)
    chosen = reference or (BASELINE if BASELINE in names else names[0])
    values: dict[str, dict[str, FloatArray]] = {}
    numbers = {c.name: {run.seed: _numbers(c.part.results, run) for run in c.runs} for c in found}
    seeds: tuple[int, ...] = ()
    for metric in COMPARED:
        by_seed = {name: {s: n[metric.key] for s, n in runs.items()} for name, runs in numbers.items()}
        seeds, values[metric.key] = align_seeds(by_seed)
    stats = {metric.key: _stats(values[metric.key], chosen, metric) for metric in COMPARED}
    steps = _local_steps(parts[0].results)
    cost = {c.name: _cost(c, steps) for c in found}
    return Comparison(
        parts[0].results.spec, seeds, chosen, names, values, stats, cost, _curves(found), _hindsight(found)
    )


def _numbers(results: Results, run: MethodRun) -> dict[str, float]:
    numbers = results.numbers(run)
    known = bool(len(run.accuracy)) and bool(np.isfinite(run.accuracy).all())
    numbers["variance_percent2"] = summarise_performance(run.accuracy).variance_percent2 if known else math.nan
    return numbers


def _stats(values: Mapping[str, FloatArray], reference: str, metric: Metric) -> dict[str, Stat]:
    pairs = compare_methods(values, reference, higher_is_better=metric.higher)
    ranks = mean_ranks(values, higher_is_better=metric.higher).ranks
    found = {}
    for name, column in values.items():
        known = column[np.isfinite(column)]
        mean = float(known.mean()) if len(known) else None
        sd = float(known.std()) if len(known) > 1 else None
        rank = _or_none(ranks[name])
        d = pairs.get(name)
        if d is None:
            found[name] = Stat(mean, sd, len(known), rank=rank)
        else:
            told = (_or_none(d.mean), _or_none(d.low), _or_none(d.high))
            found[name] = Stat(mean, sd, len(known), *told, rank, d.pairs, d.wins, d.ties, d.losses)
    return found


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


# -- pairing ----------------------------------------------------------------------------------------------------------


FREE = {"name", "workers", "methods"}
"""Keys of a spec that may differ between paired runs."""


def _check_paired(first: Part, other: Part) -> None:
    """Refuse runs of which a difference would mix methods with anything else."""
    a, b = (_flat(part.results.spec.resolved().model_dump(exclude=FREE)) for part in (first, other))
    pair = f"{first.where} and {other.where} cannot be paired"
    for key in a | b:
        if a.get(key) != b.get(key):
            raise ConfigError(
                f"{pair}: {key} is {a.get(key)!r} in the one and {b.get(key)!r} in the other; run both with the same"
            )
    for what, ours, theirs in (
        ("erased other clients", first.results.erased, other.results.erased),
        ("used other seeds", _seeds(first), _seeds(other)),
    ):
        if ours != theirs:
            raise ConfigError(f"{pair}: they {what}; run both anew")
    x, y = first.results.trace, other.results.trace
    same = np.array_equal(x.starts, y.starts) and np.array_equal(x.clients, y.clients)
    if not same or (x.stays is None) != (y.stays is None) or not np.array_equal(_stays(x.stays), _stays(y.stays)):
        raise ConfigError(f"{pair}: their traces differ; run both on the same file")


def _stays(stays: Any) -> Any:
    return [] if stays is None else stays


def _seeds(part: Part) -> set[int]:
    return {run.seed for run in part.results.runs}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _contenders(parts: Sequence[Part]) -> list[Contender]:
    """Every method; a name that several runs have is told apart by the run's name, or its folder."""
    resolved = [(part, m) for part in parts for m in part.results.spec.resolved().methods]
    names = [m.name for _, m in resolved]
    for label in (lambda part: part.results.spec.name, lambda part: Path(part.where).name, lambda part: part.where):
        found = [
            Contender(m.name if names.count(m.name) == 1 else f"{label(part)}/{m.name}", part, m)
            for part, m in resolved
        ]
        if len({c.name for c in found}) == len(found):
            return found
    raise ConfigError(f"{parts[-1].where} is given twice; give each run once")


# -- cost -------------------------------------------------------------------------------------------------------------


def _cost(contender: Contender, steps: Mapping[int, FloatArray] | None) -> Cost:
    runs = contender.runs
    asked = float(np.mean([sum(len(ids) for ids in run.selected) for run in runs]))
    updates = float(np.mean([sum(len(ids) for ids in run.completed) for run in runs]))
    footprint = contender.part.footprints.get(contender.method.name)
    taken = None if steps is None else float(np.mean([steps[run.seed] @ run.ledger.completed for run in runs]))
    return Cost(
        asked=asked,
        updates=updates,
        parameters=None if footprint is None else footprint.parameters,
        megabytes=None if footprint is None else (asked + updates) * footprint.parameters * WORD / 1e6,
        server_words=None if footprint is None else footprint.server_words,
        client_words=None if footprint is None else footprint.client_words,
        local_steps=taken,
        seconds=_or_none(float(np.mean([run.column("seconds").sum() for run in runs]))),
    )


def _local_steps(results: Results) -> dict[int, FloatArray] | None:
    """Mini-batch steps that one participation of each client takes, by seed; None for a task that does not say."""
    found = {}
    for seed in {run.seed for run in results.runs}:
        steps = local_steps(build_task(results.spec, seed))
        if steps is None:
            return None
        found[seed] = steps.astype(np.float64)
    return found


# -- the line over beta -----------------------------------------------------------------------------------------------


def _curves(contenders: Sequence[Contender]) -> tuple[tuple[tuple[float, str], ...], ...]:
    groups: dict[str, list[tuple[float, str]]] = {}
    for c in contenders:
        text = str(c.method.scheduler)
        maker = SCHEDULERS[text.partition(":")[0].strip()]
        scheduler = SCHEDULERS.build(text) if component_class(maker) is Parity else None
        if isinstance(scheduler, Parity) and not isinstance(scheduler.target, str):
            rest = c.method.model_dump(exclude={"name", "scheduler"})
            key = repr((dataclasses.replace(scheduler, target="share"), sorted(rest.items()), c.part.where))
            groups.setdefault(key, []).append((float(scheduler.target), c.name))
    return tuple(tuple(sorted(points)) for points in groups.values() if len(points) > 1)


def _hindsight(contenders: Sequence[Contender]) -> frozenset[str]:
    return frozenset(c.name for c in contenders if c.method.hindsight)


def with_betas(methods: Sequence[MethodSpec], betas: Sequence[float]) -> tuple[MethodSpec, ...]:
    """The methods and `parity:target=beta` for each beta, called parity_beta0.25 and the like."""
    added = [MethodSpec(name=f"parity_beta{beta:g}", scheduler=f"parity:target={beta:g}") for beta in betas]
    return (*methods, *added)


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
