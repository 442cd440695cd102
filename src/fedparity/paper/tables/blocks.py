"""The blocks of runs behind the tables, at three scales.

`smoke` is digits, for a fresh clone; `laptop` is CIFAR-10 in under an hour on two idle cores; `full` is the paper's own
scale. Set-up of Table 2: 100 clients, two labels each, 5 asked per round, two availabilities: the paper-like population
with T=50 and the FLASH replay with T=200 (in 25 hours half of its devices never appear), and T=200 beside the former.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from fedparity.core.errors import unknown
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.paper.tables.rows import ALL, LEVEL

Scale: TypeAlias = Literal["smoke", "laptop", "full"]
What: TypeAlias = Literal["table1", "table2", "figure1", "figure2", "figure3", "all"]
SCHEDULED = (
    "parity", "parity_opportunity", "parity_utility", "cup", "cup_light", "cup_paper", "cup_authors", "uniform",
    "least_served", "inverse", "oracle", "f3ast",
)  # fmt: skip
"""Rows that differ in whom they ask, without looking at what was learnt: enough for participation alone."""
SHORT = ("qffl", "parity", "parity_surrogate", "cup", "cup_light", "cup_paper", "cup_authors", "fedavg", "mifa")
CURVES = ("uniform", LEVEL, "cup_authors", "parity")
SMALLEST = 0.30
"""Test accuracy of FedAvg below which a block says nothing about accuracy."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the rate of each row of a block is chosen: on held-back training samples and other seeds."""

    name: str
    """Blocks with one name share their rates; the first of them is what is tuned."""
    rates: tuple[float, ...]
    seeds: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Block:
    """One set-up: all rows on the same data, availability and first model, seed by seed."""

    name: str
    says: str
    """What it is, in one line."""
    spec: dict[str, Any]
    """A spec without methods and seeds."""
    rows: tuple[str, ...] = ALL
    seeds: int = 10
    seconds: float = 1.0
    """Of one run on one idle core, about."""
    tuning: Tuning | None = None
    trained: bool = True
    """False: participation alone."""
    kept: bool = False
    """Whether every round of a run is committed, so that one that takes minutes goes on where it was."""
    curves: bool = False
    """Whether each round is stored: Table 1, Figures 2 and 3."""

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.spec["rounds"])

    def on(self, people: dict[str, Any], name: str, says: str, **more: Any) -> Block:
        """The same on another population; `more` are other fields that differ."""
        return replace(self, name=name, says=says, spec=self.spec | {"population": people}, **more)

    def spec_of(self, seed: int, *methods: MethodSpec) -> Spec:
        """The spec of one run."""
        return Spec(name=self.name, seed=seed, methods=methods, **self.spec)

    @property
    def setting(self) -> dict[str, Any]:
        """What the cells depend on, beside row, seed and rate; files by their names alone."""
        found: dict[str, Any] = json.loads(json.dumps(self.spec))
        people = found["population"]
        people["availability"] = Path(people["availability"]).name
        return {"name": self.name, **found}


@dataclass(frozen=True, slots=True)
class Recipe:
    """All blocks of one scale."""

    scale: str
    blocks: tuple[Block, ...]
    devices: int = 100
    """Devices of Figure 1 where no trace is given."""

    def needed(self, what: What) -> tuple[Block, ...]:
        """The blocks behind a table or figure."""
        if what == "all":
            return self.blocks
        if what == "table2":
            return tuple(block for block in self.blocks if not block.curves)
        return tuple(block for block in self.blocks if block.curves and what != "figure1")


def _people(clients: int, availability: str, **more: Any) -> dict[str, Any]:
    return {"clients": clients, "availability": availability, **more}


PAPER_LIKE, SKEWED, PHONES = "paper_like", "label_skewed:p_min=.02", "phones"
FEATURES = {
    "data": {
        "set": "cifar10",
        "features": "efficientnet_lite0:size=96",
        "partition": "labels:k=2,samples=250",
        "validation": 0.02,
    },
    "model": {"name": "logistic"},
    "training": {"epochs": 1, "batch": 50, "rate": 0.03},
    "execution": {"score_every": 20, "workers": 1},
}
"""Block A: a head on frozen features of a network trained on ImageNet; the server holds 2 % of the training data."""
SCRATCH = {
    "data": {"set": "cifar10", "partition": "labels:k=2,samples=100", "validation": 0.02},
    "model": {"name": "cnn"},
    "training": {"epochs": 1, "batch": 20, "rate": 0.05},
    "execution": {"score_every": 100},
}
"""Block B: the CNN from random weights."""
RESNET = {
    "data": {"set": "cifar10", "partition": "labels:k=2,samples=40", "validation": 0.02},
    "model": {"name": "resnet18"},
    "training": {"epochs": 1, "batch": 20, "rate": 0.05},
    "execution": {"score_every": 100},
}
"""Block C: the paper's network from random weights, small."""
PAPERS = {
    "data": {"set": "cifar10", "partition": "labels:k=2", "validation": 0.02},
    "model": {"name": "resnet18"},
    "training": {"epochs": 3, "batch": 32, "rate": 0.001, "optimiser": "adam", "clip": 5.0},
    "execution": {"score_every": 5},
}
"""The authors' training: Adam, three local epochs, clipped at 5; from random weights, theirs from ImageNet's."""
DIGITS = {
    "data": {"set": "digits", "validation": 0.02},
    "model": {"name": "mlp:hidden=32"},
    "training": {"epochs": 1, "batch": 16, "rate": 0.1},
    "execution": {"score_every": 20, "workers": 1},
}


def _flash(trace: Path | None, clients: int) -> tuple[dict[str, Any], str]:
    """Who is there in the replay, and in words."""
    if trace is None:
        return _people(clients, PHONES), "phones like FLASH's (no trace file was given), T=200"
    replay = _people(100, str(trace), start=108_000.0, watch=0)
    return replay, f"FLASH replay ({trace.name}, hour 30 on), T=200"


def _participation(clients: int, cohort: int, long: int, draws: int, trace: Path | None) -> tuple[Block, ...]:
    replay, said = _flash(trace, clients)
    blocks = (
        ("participation-paper_like", f"paper-like, T={long}", long, _people(clients, PAPER_LIKE)),
        ("participation-paper_like-50", "paper-like, T=50", 50, _people(clients, PAPER_LIKE)),
        ("participation-label_skewed", f"label-skewed, T={long}", long, _people(clients, SKEWED)),
        ("participation-flash", said, 200, replay),
    )
    return tuple(
        Block(
            name,
            f"participation alone: {says}",
            {"rounds": rounds, "cohort": cohort, "population": people},
            SCHEDULED,
            draws,
            0.15,
            trained=False,
        )
        for name, says, rounds, people in blocks
    )


def _smoke(trace: Path | None) -> Recipe:
    clients, cohort = 40, 4
    shared = {"cohort": cohort, **DIGITS}
    tuning = Tuning("smoke", (0.05, 0.2), 1, 20)
    main = Block(
        "A-paper_like",
        "digits, paper-like, T=40",
        {"rounds": 40, "population": _people(clients, PAPER_LIKE), **shared},
        seeds=2,
        seconds=0.4,
        tuning=tuning,
    )
    curves = Block(
        "curves",
        "digits, paper-like, T=50, every round",
        {"rounds": 50, "population": _people(clients, PAPER_LIKE), **shared, "execution": {"workers": 1}},
        CURVES,
        1,
        0.8,
        curves=True,
    )
    said = "digits, availability tells the labels, T=40"
    skewed = main.on(_people(clients, SKEWED), "A-label_skewed", said, rows=SHORT)
    return Recipe("smoke", (curves, *_participation(clients, cohort, 100, 2, trace), main, skewed))


def _laptop(trace: Path | None) -> Recipe:
    n, m = 100, 5
    replay, said = _flash(trace, n)
    tuning = Tuning("A", (0.001, 0.003, 0.01, 0.03, 0.1), 1, 200)
    main = Block(
        "A-paper_like",
        "pretrained features, paper-like, T=200",
        {"rounds": 200, "cohort": m, "population": _people(n, PAPER_LIKE), **FEATURES},
        seconds=2.0,
        tuning=tuning,
    )
    short = main.spec | {"rounds": 50}
    blocks = (
        main,
        main.on(
            _people(n, SKEWED),
            "A-label_skewed",
            "pretrained features, availability tells the labels, T=200",
            tuning=replace(tuning, name="A-label_skewed"),
        ),
        main.on(replay, "A-flash", f"pretrained features, {said}", tuning=replace(tuning, name="A-flash")),
        replace(main, name="A-paper_like-50", says="pretrained features, paper-like, T=50", spec=short, seconds=0.7),
        replace(
            main,
            name="A-paper_like-50-accuracy_gain",
            says="pretrained features, paper-like, T=50, utility is accuracy gained",
            spec=short | {"utility": "accuracy_gain"},
            seeds=3,
            seconds=2.5,
        ),
        Block(
            "B",
            "the CNN from scratch, 100 samples per client, paper-like, T=100",
            {"rounds": 100, "cohort": m, "population": _people(n, PAPER_LIKE), **SCRATCH},
            ("fedavg", "mifa", "parity", "cup", "cup_light"),
            3,
            60.0,
            kept=True,
        ),
        Block(
            "C",
            "ResNet-18 from scratch, 40 samples per client, paper-like, T=10",
            {"rounds": 10, "cohort": m, "population": _people(n, PAPER_LIKE), **RESNET},
            ("fedavg", "parity"),
            1,
            320.0,
            kept=True,
        ),
    )
    curves = Block(
        "curves",
        "pretrained features, paper-like, T=50, every round",
        short | {"execution": {"workers": 1}},
        CURVES,
        3,
        2.5,
        curves=True,
    )
    return Recipe("laptop", (curves, *_participation(n, m, 200, 30, trace), *blocks))


def _full(trace: Path | None) -> Recipe:
    n, m = 100, 5
    replay, said = _flash(trace, n)
    main = Block(
        "full-paper_like",
        "ResNet-18, the authors' training, paper-like, T=50",
        {"rounds": 50, "cohort": m, "population": _people(n, PAPER_LIKE), **PAPERS},
        seeds=3,
        seconds=7200.0,
        kept=True,
    )
    flash = replace(
        main,
        name="full-flash",
        says=f"ResNet-18, the authors' training, {said}",
        spec=main.spec | {"rounds": 200, "population": replay},
        seconds=28_800.0,
    )
    curves = replace(main, name="curves", says=f"{main.says}, every round", rows=CURVES, seeds=1, curves=True)
    return Recipe("full", (curves, *_participation(n, m, 200, 30, trace), main, flash))


SCALES = {"smoke": _smoke, "laptop": _laptop, "full": _full}


def recipe_of(scale: str, trace: Path | None = None) -> Recipe:
    """The recipe of that name; `trace` is a FLASH file of events."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    return SCALES[scale](trace)


def check_what(what: str) -> What:
    """A table or figure by name, or an error with the nearest one."""
    for known in get_args(What):
        if what == known:
            return known  # type: ignore[no-any-return]
    raise unknown("table or figure", what, get_args(What))
