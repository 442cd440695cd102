"""Rounds as a scheduler meets them: plausible histories, views with little or much in them, states with a past."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Feedback, Learner, Scheduler
from fedparity.core.rng import stream
from fedparity.core.selection import select
from fedparity.core.types import ClientReport, Ids, RoundRecord, RoundView, SurrogateCredit

N = 12
"""Clients."""
LABELS = stream(0, "labels").integers(0, 3, (N, 5)) * 4
RATES = np.linspace(0.05, 0.95, N)


def a_ledger(seed: int, rounds: int = 9) -> Ledger:
    """A plausible history: some clients never seen, some never selected."""
    rng, ledger = stream(seed, "history"), Ledger.empty(N)
    for t in range(rounds):
        online = np.flatnonzero(rng.random(N) < RATES)
        record(ledger, t, online, np.sort(rng.permutation(online)[:3]), rng)
    return ledger


def record(ledger: Ledger, t: int, online: Ids, chosen: Ids, rng: np.random.Generator) -> None:
    """Write one round into a ledger in which all who were chosen took part."""
    gain, empty = rng.random(len(chosen)), np.empty(0)
    ledger.record(
        RoundRecord(
            round=t,
            available=online,
            selected=chosen,
            probs=np.ones(len(chosen)),
            design="unknown",
            wasted=0,
            completed=chosen,
            utility=gain,
            loss=gain,
            failed=(),
            abandoned=False,
            row_clients=chosen,
            row_ages=chosen * 0,
            row_weights=empty,
            surrogate=SurrogateCredit(),
            model_sha256="",
        )
    )


def a_view(seed: int, available: list[int], cohort: int, left: int | None = 20) -> RoundView:
    """A round after a plausible history."""
    return view_of(a_ledger(seed), np.array(available, dtype=np.int64), cohort, left, seed)


def view_of(ledger: Ledger, ids: Ids, cohort: int, left: int | None, seed: int) -> RoundView:
    """A round in which `ids` are there, with everything that a scheduler may ask for."""
    pi = (ledger.online[ids] + 2) / (ledger.rounds + 3)
    loss = stream(seed, "losses", ledger.rounds).random(N)
    return RoundView(
        ledger.rounds,
        left,
        cohort,
        ids,
        pi,
        None if left is None else pi * left,
        ledger,
        losses=lambda clients, samples: loss[clients] + samples,
        expected=lambda rounds: pi * rounds,
        futures=lambda rounds, samples, rng: rng.random((rounds, samples, N)) < RATES,
        labels=LABELS,
    )


def a_round(rng: np.random.Generator, t: int, clients: Ids, ledger: Ledger) -> Feedback:
    """What the clients say after a round; some say nothing of their loss, some of how long they took."""
    reports = [
        ClientReport(
            int(client),
            rng.normal(size=4),
            num_samples=int(rng.integers(1, 50)),
            loss_rms=float(rng.choice([np.nan, rng.random()])),
            duration=float(rng.choice([np.nan, rng.random()])),
        )
        for client in clients
    ]
    return Feedback(t, np.zeros(4), reports, ledger, lambda params: float(((params - 0.3) ** 2).sum()))


def warm(scheduler: Scheduler[Any], seed: int, rounds: int) -> Any:
    """The state after some rounds of a plausible history."""
    state, rng, ledger = scheduler.init(N), stream(seed, "warm"), Ledger.empty(N)
    for t in range(rounds):
        online = np.flatnonzero(rng.random(N) < np.linspace(0.3, 0.95, N))
        cohort, state = select(scheduler, state, view_of(ledger, online, 3, None, seed), stream(seed, "select", t))
        came = cohort.clients[rng.random(len(cohort.clients)) < 0.8]
        record(ledger, t, online, cohort.clients, rng)
        if isinstance(scheduler, Learner):
            state = scheduler.learn(state, a_round(rng, t, came, ledger))
    return state
