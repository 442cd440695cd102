"""The only loop: who is there, whom to ask, what came back, write it down.

Methods compared run side by side on one engine, hence on one availability: each has its own model, ledger and counts
(Algorithm 1 of the paper, whose fair and vanilla branches are two coordinators here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from fedparity.core import checks
from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Engine, Observer
from fedparity.core.reprs import one_line
from fedparity.core.rng import stream
from fedparity.core.state import State
from fedparity.core.types import FloatArray, Ids, RoundRecord, Vector


class Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """Raised by an engine before a client trains, or after a round, to end a run; the last whole round stands."""


def run(
    coordinator: Coordinator,
    engine: Engine,
    rounds: int,
    *,
    params: Vector | None = None,
    num_clients: int | None = None,
    state: State | None = None,
    observers: Sequence[Observer] = (),
    method: str = "",
) -> State:
    """Carry one method through `rounds` rounds; a given `state` is continued where it stands.

    A new run needs the first model `params`, unless it is bookkeeping only, and `num_clients` if the engine cannot say.
    """
    states = None if state is None else {method: state}
    done = run_side_by_side(
        {method: coordinator},
        engine,
        rounds,
        params=params,
        num_clients=num_clients,
        states=states,
        observers=observers,
    )
    return done[method]


def run_side_by_side(
    methods: Mapping[str, Coordinator],
    engine: Engine,
    rounds: int,
    *,
    params: Vector | None = None,
    num_clients: int | None = None,
    states: Mapping[str, State] | None = None,
    observers: Sequence[Observer] = (),
    after: Callable[[str, RoundRecord, State], None] | None = None,
) -> dict[str, State]:
    """Carry several methods through the same rounds of the same availability.

    `after` is called when the observers have been told: it may store the state, or raise to stop the run.
    """
    _check_given(methods, rounds, observers)
    known = clients_of(engine)
    if num_clients is not None and known is not None and num_clients != known:
        raise ConfigError(f"num_clients={num_clients} but the engine has {known}; leave it out")
    now: dict[str, State] = dict(states or {})
    for name, coordinator in methods.items():
        if name not in now:
            now[name] = coordinator.init(num_clients or known or 0, params)
    for t in range(min(state.round for state in now.values()), rounds):
        available, busy = engine.available(t), engine.busy(t)
        registered = clients_of(engine) or 0
        for name, coordinator in methods.items():
            if now[name].round != t:
                continue
            losses = partial(_losses, engine, stream(coordinator.seed, "probe", t))
            state = coordinator.grow(now[name], registered)
            plan, state = coordinator.plan(state, available, rounds - 1 - t, losses, busy)
            reports = list(engine.train(plan))
            only = coordinator.utility.evaluates
            evaluate = engine.evaluate if only == "both" else partial(engine.evaluate, measure=only)
            record, state = coordinator.absorb(state, plan, reports, evaluate, engine.validate)
            now[name] = state
            for observer in observers:
                observer.on_round(name, record, state.ledger, state.params)
            if after is not None:
                after(name, record, state)
    return now


def _check_given(methods: Mapping[str, Coordinator], rounds: int, observers: Sequence[Observer]) -> None:
    checks.at_least("rounds", rounds, 1)
    if not (hasattr(methods, "items") and methods):
        raise ConfigError(f"methods={one_line(methods)} must have at least one entry; give a coordinator by name")
    for coordinator in methods.values():
        checks.instance("coordinator", coordinator, Coordinator)
    checks.instance("observers", observers, Iterable, "give them as a list")


def clients_of(engine: Engine) -> int | None:
    """How many clients an engine has, if it says so."""
    if not callable(getattr(engine, "available", None)):
        raise ConfigError(f"engine={one_line(engine)} must be an engine; InProcess(task) makes one of a task")
    return getattr(engine, "num_clients", None)


def _losses(engine: Engine, rng: np.random.Generator, params: Vector, clients: Ids, samples: int) -> FloatArray:
    """Losses of a model on clients' data, for schedulers that choose by them."""
    if samples:
        return engine.probe(params, clients, samples, rng)
    return engine.evaluate(params, clients, "loss").loss
