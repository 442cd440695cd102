"""Laws that estimators and availability models keep: `check_estimator`, `check_availability`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fedparity.availability import AVAILABILITY, Bernoulli
from fedparity.core.protocols import Availability, Estimator
from fedparity.core.trace import Trace
from fedparity.core.types import NO_IDS
from fedparity.estimators import ESTIMATORS
from fedparity.testing.laws import hold


def seen(estimator: Estimator[Any], trace: Trace) -> Any:
    """The state of an estimator that watched a trace."""
    state = estimator.init(trace.num_clients)
    for ids in trace:
        state = estimator.observe(state, ids)
    return state


def gives_rates(estimator: Estimator[Any]) -> None:
    """The estimate of a client that was seen is a rate, above 0 and at most 1."""
    trace, state, met = Bernoulli(0.01, 1).draw(80, 120, 4), estimator.init(80), np.zeros(80, dtype=np.bool_)
    for t, ids in enumerate(trace):
        state = estimator.observe(state, ids)
        met[ids] = True
        found = estimator.estimate(state, np.flatnonzero(met))
        fine = found.dtype == np.float64 and ((found > 0) & (found <= 1)).all()
        hold(fine, estimator, "estimates are rates", f"round {t}", found)


def works_with_nobody(estimator: Estimator[Any]) -> None:
    """Before the first round, and when nobody is there, estimates are finite; who is seen counts for more."""
    law, state, everybody = "nobody there is no reason to fail", estimator.init(5), np.arange(5)
    hold(np.isfinite(estimator.estimate(state, everybody)).all(), estimator, law, "before the first round")
    hold(estimator.estimate(state, NO_IDS).shape == (0,), estimator, law, "nobody is asked about")
    state = estimator.observe(state, NO_IDS)
    hold(np.isfinite(estimator.estimate(state, everybody)).all(), estimator, law, "nobody was there")
    found = estimator.estimate(estimator.observe(state, np.array([2])), everybody)
    hold(found[2] > found[0] == found[4], estimator, "who was seen counts for more", "client 2 of 5", found.tolist())


def may_be_asked_in_any_order(estimator: Estimator[Any]) -> None:
    """An estimate is of a client, not of a place in a list; a kept state goes on as if it had not been kept."""
    trace = Bernoulli().draw(20, 60, 0)
    state, order = seen(estimator, trace.head(40)), np.random.default_rng(0).permutation(20)
    found = estimator.estimate(state, np.arange(20))
    law = "clients may be asked for in any order"
    hold(np.array_equal(estimator.estimate(state, order), found[order]), estimator, law, "20 clients")
    kept = copy.deepcopy(state)
    for t in range(40, 60):
        kept = estimator.observe(kept, trace.online(t))
    whole = estimator.estimate(seen(estimator, trace), np.arange(20))
    hold(np.array_equal(estimator.estimate(kept, np.arange(20)), whole), estimator, "a state can be kept", "40 of 60")


def check_estimator(estimator: Estimator[Any] | str) -> None:
    """Hold an estimator of availability to every law; LawError names the first that it breaks."""
    made = ESTIMATORS.of(estimator)
    gives_rates(made)
    works_with_nobody(made)
    may_be_asked_in_any_order(made)


def draws_well_formed(model: Availability, clients: int, rounds: int) -> None:
    """A trace has the clients and rounds asked for, and each round's clients in order."""
    case = f"{clients} clients, {rounds} rounds"
    trace = model.draw(clients, rounds, 3)
    hold((trace.num_clients, trace.num_rounds) == (clients, rounds), model, "a trace is as large as asked", case, trace)
    hold(trace.clients.dtype == np.int32, model, "a trace holds 32-bit numbers", case, trace.clients)
    for ids in trace:
        fine = (np.diff(ids) > 0).all() and ((ids >= 0) & (ids < clients)).all()
        hold(fine, model, "clients of a round are in order", case, ids)


def is_decided_by_its_seed(model: Availability) -> None:
    """The same seed gives the same trace."""
    one, same = model.draw(50, 80, 5), model.draw(50, 80, 5)
    hold(np.array_equal(one.matrix(), same.matrix()), model, "the seed decides", "50 clients, 80 rounds, seed 5")


def begins_alike(model: Availability) -> None:
    """A longer trace begins like a shorter one."""
    alike = np.array_equal(model.draw(40, 90, 1).head(35).matrix(), model.draw(40, 35, 1).matrix())
    hold(alike, model, "a longer trace begins like a shorter one", "35 of 90 rounds")


def check_availability(model: Availability | str, *, by_horizon: bool = False) -> None:
    """Hold a model of availability to every law; LawError names the first that it breaks.

    `by_horizon`: what it draws depends on how many rounds there are, so a longer trace is another one.
    """
    made = AVAILABILITY.of(model)
    for clients, rounds in ((1, 1), (1, 40), (37, 1), (37, 60)):
        draws_well_formed(made, clients, rounds)
    is_decided_by_its_seed(made)
    if not by_horizon:
        begins_alike(made)
