"""Dropout that goes with the data erodes rare classes, and what surrogates do about it, on softmax regression in NumPy.

A tenth of the clients is online in a tenth of the rounds, everybody else in half of them:

    blind      these rare clients hold the same classes as everybody else
    tied       they are the only ones that hold class 0, each with a coin of its own
    together   the same, and they come all at once, in bursts
    equal      the last two again, with these clients online as often as everybody else: mutual correlation alone

Class coverage is the share of rounds with class 0 among the data of those selected; recall is on test samples, averaged
over the last half of the rounds. The surrogate of section 3.3 is credited utility and never touches the model: recall
is the same to the bit. What helps is memory, earlier updates of the absent in the step (Lemma 3's aggregate).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedparity.core.coordinator import Coordinator
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids, RoundRecord, Vector
from fedparity.engines import InProcess, Intermittent
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.tasks import Logistic

METHODS: dict[str, dict[str, Any]] = {
    "mean": {},
    "surrogate": {"surrogate": "utility"},
    "memory": {"weighting": "memory_mean:over=seen", "memory": "last_updates:own=replace"},
}
"""Ways to treat the absent, each as parts of a Coordinator."""
RUNS = {
    "blind": ("blind", "mean"),
    "tied": ("tied", "mean"),
    "together": ("together", "mean"),
    "together, surrogate": ("together", "surrogate"),
    "together, memory": ("together", "memory"),
    "equal, tied": ("tied", "mean"),
    "equal, together": ("together", "mean"),
}
"""What is run: kind of dropout and method."""
USUAL = 0.5
"""Share of the rounds in which everybody else is online."""


@dataclass(slots=True)
class _Recall:
    """Recall per class after every round, and whether class 0 was among the data of those selected."""

    score: Callable[[Vector], FloatArray]
    holders: Ids
    """Clients that hold class 0."""
    recalls: list[FloatArray] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        self.recalls.append(self.score(params))
        self.covered.append(bool(np.isin(record.selected, self.holders).any()))


@dataclass(frozen=True, slots=True)
class CorrelatedDropout(Claim):
    """Recall of class 0 with dropout that goes with it or not, with and without surrogates."""

    id = "correlated-dropout"
    where = "Section 3.3"
    statement = "Correlated dropout erodes rare classes; surrogate updates mitigate this."
    assumptions = "Surrogates enter utility tracking “without introducing stale parameter updates”."
    corrected = (
        "Dropout does erode a class that only rarely available clients hold; utility surrogates leave the model as it"
        " is, to the bit; earlier updates of the absent in the step (memory) bring its recall back."
    )
    method = "6 paired seeds, 30 clients, m = 5, 80 rounds, 5 classes, softmax regression in NumPy"
    expected = "needs-assumption"

    clients: int = 30
    cohort: int = 5
    rounds: int = 80
    draws: int = 6
    burst: int = 4
    """Rounds in a row that rare clients are there when they come together."""
    rare_online: float = 0.1
    """Share of the rounds in which rare clients are online; 0.5 is as often as everybody else."""
    mended_by: str = "together, memory"
    """What the corrected statement says brings recall back."""
    touches: bool = False
    """Whether the surrogate of the statement enters the model's step after all."""

    def examine(self) -> Finding:
        """Recall and coverage of class 0, by kind of dropout and by method."""
        recall: dict[str, list[float]] = {name: [] for name in RUNS}
        covered: dict[str, list[float]] = {name: [] for name in RUNS}
        curves: dict[str, FloatArray] = {}
        by_class: dict[str, FloatArray] = {}
        for draw in range(self.draws):
            for name, (kind, method) in RUNS.items():
                watch = self._run(kind, method, draw, USUAL if name.startswith("equal") else self.rare_online)
                late = np.array(watch.recalls[self.rounds // 2 :]).mean(axis=0)
                recall[name].append(float(late[0]))
                covered[name].append(float(np.mean(watch.covered)))
                if draw == 0:
                    curves[name], by_class[name] = np.array(watch.recalls)[:, 0], late
        means = {name: Estimate.of(np.array(values)) for name, values in recall.items()}
        worse = np.array(recall["together"])
        eroded = Estimate.of(np.array(recall["blind"]) - worse)
        stated = np.array(recall["together, memory" if self.touches else "together, surrogate"]) - worse
        mended = Estimate.of(np.array(recall[self.mended_by]) - worse)
        bursts = {
            name: Estimate.of(np.array(recall[f"{case}tied"]) - np.array(recall[f"{case}together"]))
            for name, case in (("rare", ""), ("equal", "equal, "))
        }
        x = range(1, self.rounds + 1)
        shown = {name: f"{one.mean:.2f}" for name, one in means.items()}
        return Finding(
            "fails" if eroded.low <= 0 else "holds" if (stated > 0).all() else "needs-assumption",
            eroded.low > 0 and mended.low > 0,
            f"Recall of class 0: {shown['blind']} if dropout is blind to classes, {shown['tied']} if it goes with the"
            f" class, {shown['together']} if its clients also come all at once; with utility surrogates"
            f" {shown['together, surrogate']}, the same to the bit; with memory {shown['together, memory']}. Its"
            f" coverage is {np.mean(covered['blind']):.0%}, {np.mean(covered['tied']):.0%} and"
            f" {np.mean(covered['together']):.0%} of the rounds. Coming all at once costs recall"
            f" {_spelled(bursts['rare'])} if its clients are online in {self.rare_online:.0%} of the rounds, and"
            f" {_spelled(bursts['equal'])} if they are online as often as everybody else.",
            {
                "draws": self.draws,
                "recall_of_class_0": {name: one.to_json() for name, one in means.items()},
                "coverage_of_class_0": {name: float(np.mean(values)) for name, values in covered.items()},
                "recall_by_class_first_seed": by_class,
                "lost": eroded.to_json(),
                "lost_by_coming_together": {name: one.to_json() for name, one in bursts.items()},
                "won_back_by_memory": Estimate.of(np.array(recall["together, memory"]) - worse).to_json(),
                "utility_surrogate_changes_the_model": bool(np.any(stated)) if not self.touches else None,
            },
            Lines(
                "Recall of class 0, first seed",
                "round",
                "recall",
                tuple(Curve(name, x, curves[name]) for name in ("blind", "tied", "together", "together, memory")),
            ),
        )

    @property
    def rare(self) -> int:
        """How many clients are rarely there: the first."""
        return max(1, self.clients // 10)

    def _tasks(self, kind: str, draw: int) -> tuple[Logistic, Logistic]:
        """Clients' data, and test samples with one class in each place."""
        rng = stream(SEED, self.id, draw)
        classes, samples = 5, 24
        means = 2.2 * np.eye(classes)  # all classes equally far apart, so that seeds differ in noise alone
        others = 1 + np.arange(self.clients) % (classes - 1)
        zero = slice(self.rare, 2 * self.rare) if kind == "blind" else slice(0, self.rare)
        home = others.copy()
        home[zero] = 0
        y = np.where(rng.random((self.clients, samples)) < 0.8, home[:, None], others[:, None])
        truth = np.repeat(np.arange(classes)[:, None], 100, axis=1)
        clients, test = ((means[labels] + rng.normal(size=(*labels.shape, classes)), labels) for labels in (y, truth))
        return Logistic(*clients, classes, rate=0.2), Logistic(*test, classes)

    def _trace(self, kind: str, draw: int, share: float) -> Trace:
        """Who is online, the rare clients in that share of the rounds."""
        rng = stream(SEED, f"{self.id}-online", draw)
        online = rng.random((self.rounds, self.clients)) < USUAL
        alone = rng.random((self.rounds, self.rare)) < share
        period = round(self.burst / share)
        first = int(rng.integers(0, period))
        burst = (np.arange(self.rounds)[:, None] + first) % period < self.burst
        online[:, : self.rare] = burst if kind == "together" else alone
        return Trace.from_matrix(online)

    def _run(self, kind: str, method: str, draw: int, share: float) -> _Recall:
        task, test = self._tasks(kind, draw)
        every, labels = np.arange(test.num_clients), task.label_counts()
        watch = _Recall(lambda params: test.evaluate(params, every).accuracy, np.flatnonzero(labels[:, 0] > 0))
        rule = Coordinator(self.cohort, seed=draw, scheduler="uniform", **METHODS[method])
        engine = Intermittent(InProcess(task), self._trace(kind, draw, share))
        run(rule, engine, self.rounds, params=task.init(stream(draw, "start")), observers=[watch])
        return watch


def _spelled(lost: Estimate) -> str:
    return f"{lost.mean:.2f} (95 % {lost.low:.2f} to {lost.high:.2f}{'' if lost.low > 0 else ', not significant'})"
