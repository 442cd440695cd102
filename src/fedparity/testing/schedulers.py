"""Laws that every scheduler keeps, and `check_scheduler`, which holds one to all of them.

Each law is a function of a scheduler and a case; the conformance suite of the package's own schedulers calls the same.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import RoundError
from fedparity.core.loop import run, run_side_by_side
from fedparity.core.protocols import Scheduler
from fedparity.core.rng import stream
from fedparity.core.selection import select
from fedparity.core.state import State
from fedparity.core.trace import Trace
from fedparity.core.types import RoundRecord
from fedparity.engines.inprocess import InProcess
from fedparity.engines.intermittent import Intermittent
from fedparity.schedulers import SCHEDULERS
from fedparity.tasks.quadratic import Quadratic
from fedparity.testing.laws import LawError, hold
from fedparity.testing.views import LABELS, RATES, N, a_view, warm

SIGMAS = 4.5
"""How far a frequency may lie from its probability."""


@dataclass(frozen=True, slots=True)
class Case:
    """One round to choose for."""

    seed: int
    available: list[int]
    cohort: int
    left: int | None = 20
    """Rounds left; None: nobody knows."""
    before: int = 0
    """Rounds that the scheduler has already been through."""


def is_part_of_the_available(scheduler: Scheduler[Any], case: Case, *, fills: bool = False) -> None:
    """Those chosen are online, each once and in order, at most as many as asked for, with probabilities in (0, 1]."""
    law = "a cohort is part of the available"
    view = a_view(case.seed, case.available, case.cohort, case.left)
    try:
        chosen, _ = select(scheduler, warm(scheduler, case.seed, case.before), view, stream(case.seed, "select"))
    except RoundError as error:  # what a run would say of it
        raise LawError(scheduler, law, case, str(error)) from error
    hold(chosen.design != "deterministic" or (chosen.probs == 1).all(), scheduler, law, case, chosen.probs.tolist())
    if fills:
        full = min(case.cohort, len(case.available))
        taken = len(chosen.clients)
        hold(taken == full, scheduler, "every slot that can be filled is", case, taken)


def tells_true_probabilities(
    scheduler: Scheduler[Any], before: int = 0, draws: int = 1500, *, fills: bool = False
) -> None:
    """Frequencies over many draws from one state match the probabilities that were returned, if they are claimed."""
    law, case = "inclusion probabilities are true", Case(3, [0, 2, 3, 5, 6, 8, 9, 11], 3, before=before)
    view, state = a_view(case.seed, case.available, case.cohort), warm(scheduler, case.seed, before)
    hits, told = np.zeros(N), dict[int, float]()
    for i in range(draws):
        chosen, _ = select(scheduler, copy.deepcopy(state), view, stream(i, "select"))
        if chosen.design == "unknown":
            hold((chosen.probs == 1).all(), scheduler, law, case, chosen.probs.tolist())
            return
        hits[chosen.clients] += 1
        for client, prob in zip(chosen.clients.tolist(), chosen.probs.tolist(), strict=True):
            hold(told.setdefault(client, prob) == prob, scheduler, law, case, f"client {client} was told two")
    for client, prob in told.items():
        off = abs(hits[client] / draws - prob)
        seen = f"client {client}: {prob:g} told, {hits[client] / draws:g} of {draws} draws"
        hold(off <= SIGMAS * np.sqrt(prob * (1 - prob) / draws) + 1e-12, scheduler, law, case, seen)
    if fills:
        hold(abs(sum(told.values()) - case.cohort) < 1e-6, scheduler, law, case, f"they sum to {sum(told.values()):g}")


def repeats_itself(scheduler: Scheduler[Any]) -> None:
    """The same state and random numbers give the same choice, and the view is left alone."""
    law, case = "same state, same choice", Case(1, list(range(N)), 4)
    view = a_view(case.seed, case.available, case.cohort)
    before = view.ledger.copy()
    first, state = select(scheduler, scheduler.init(N), view, stream(0, "select"))
    again, same = select(scheduler, scheduler.init(N), view, stream(0, "select"))
    hold(np.array_equal(first.clients, again.clients), scheduler, law, case, again.clients)
    hold(np.array_equal(first.probs, again.probs), scheduler, law, case, again.probs)
    hold(view.ledger == before, scheduler, "the view is left alone", case)
    hold(repr(state) == repr(same), scheduler, law, case)


def works_with_few(scheduler: Scheduler[Any]) -> None:
    """Nobody, one or too few online are no reason to fail."""
    for available in ([], [4], [1, 7]):
        case = Case(2, list(available), 5)
        chosen, _ = select(scheduler, scheduler.init(N), a_view(case.seed, case.available, 5), stream(0, "select"))
        hold(len(chosen.clients) <= len(available), scheduler, "few clients are no reason to fail", case)


def resumes(scheduler: Scheduler[Any]) -> None:
    """A run that goes on from a kept state ends like one that was never stopped, to the bit."""
    trace = Trace.from_matrix(stream(5, "t").random((14, N)) < np.clip(RATES * 0.9 + 0.05, 0, 1))
    engine = Intermittent(InProcess(Quadratic.random(N)), trace)
    coordinator = Coordinator(3, seed=9, scheduler=scheduler, labels=LABELS)
    kept: list[State] = []

    def after(_: str, record: RoundRecord, state: State) -> None:
        if record.round == 6:
            kept.append(state.copy())

    whole = run_side_by_side({"": coordinator}, engine, 14, num_clients=N, params=np.zeros(4), after=after)[""]
    resumed = run(coordinator, engine, 14, state=kept[0])
    same = resumed.ledger == whole.ledger and resumed.params.tobytes() == whole.params.tobytes()
    hold(same, scheduler, "resuming equals never stopping", "14 rounds, kept after round 6")


def check_scheduler(
    scheduler: Scheduler[Any] | str, *, fills: bool = False, cases: int = 60, draws: int = 1500
) -> None:
    """Hold a scheduler to every law; LawError names the first that it breaks.

    `fills`: it promises to leave no slot empty that somebody could take.
    """
    made = SCHEDULERS.of(scheduler)
    for number in range(cases):
        rng = stream(number, "cases")
        available = np.flatnonzero(rng.random(N) < rng.random()).tolist()
        left = None if rng.random() < 0.2 else int(rng.integers(0, 41))
        case = Case(number, available, int(rng.integers(1, 16)), left, int(rng.integers(0, 6)))
        is_part_of_the_available(made, case, fills=fills)
    repeats_itself(made)
    works_with_few(made)
    for before in (0, 4):
        tells_true_probabilities(made, before, draws, fills=fills)
    resumes(made)
