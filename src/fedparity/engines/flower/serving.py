"""The server's side: our loop over a grid, with a store from which it goes on after anything.

The store holds what a run needs to be the same run: state with ledger, roster and pending offers, committed round by
round, and a secret that nonces are keyed with. When it ends, also by an error, who was online is written down as the
run's trace, so that limits and audits are computed from it like from any other.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from fedparity.core import checks
from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError
from fedparity.core.gate import Gate
from fedparity.core.journal import from_json, to_json
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run_side_by_side
from fedparity.core.protocols import Observer
from fedparity.core.state import State
from fedparity.core.trace import Trace
from fedparity.core.tree import classes_in
from fedparity.core.types import NO_IDS, RoundRecord, Vector
from fedparity.engines.flower import codec
from fedparity.engines.flower.begun import check_same, line_of
from fedparity.engines.flower.grid_engine import GridEngine, RoundEvents
from fedparity.engines.flower.roster import Identity, Roster
from fedparity.store import Store
from fedparity.store.origin import trace_bytes

LogRow = Callable[[RoundRecord, Ledger, Vector], list[Any]]
"""The row of a round in the run's log."""


def serve(
    grid: Grid,
    coordinator: Coordinator,
    params: Vector,
    rounds: int,
    *,
    store: str | Path | None = None,
    method: str = "parity",
    spec: str = "",
    identity: Identity = "query",
    min_clients: int | None = None,
    patience: float = 600.0,
    poll: float = 0.5,
    evaluate_every: int = 0,
    told: Callable[[RoundEvents], None] | None = None,
    observers: Sequence[Observer] = (),
    row: LogRow | None = None,
) -> State:
    """Carry a method through `rounds` rounds of real clients; with a `store`, go on where it stands.

    `min_clients` are waited for before the first round (None: the cohort), each for `patience` seconds; `told` hears of
    every round. After every `evaluate_every` rounds (0: never) the model is scored by those who are online and answer.
    `spec` is what the store keeps of how the run was set up, `row` makes its log.
    """
    check_travels(coordinator)
    checks.at_least("evaluate_every", evaluate_every, 0)
    with contextlib.nullcontext() if store is None else Store.open(store, copies=True) as opened:
        given = coordinator
        coordinator = replace(coordinator, gate=remote(coordinator.gate, opened))
        state = None if opened is None else begin(opened, given, method, params, spec)
        engine = GridEngine(
            grid,
            Roster(None if state is None else state.names),
            identity=identity,
            min_clients=1 if state is not None else coordinator.cohort if min_clients is None else min_clients,
            patience=patience,
            poll=poll,
            max_age=coordinator.gate.max_age,
        )

        def after(name: str, record: RoundRecord, now: State) -> None:
            now.names = engine.roster.names
            events = engine.events
            if events is not None and evaluate_every and now.round % evaluate_every == 0:
                events = replace(events, scores=engine.score(now.params))
            if told is not None and events is not None:
                told(events)
            if opened is not None:
                commit(opened, coordinator.seed, name, now, record, row(record, now.ledger, now.params) if row else [])

        if state is not None and state.round >= rounds:
            return state
        try:
            return run_side_by_side(
                {method: coordinator},
                engine,
                rounds,
                params=params,
                states=None if state is None else {method: state},
                observers=observers,
                after=after,
            )[method]
        finally:
            if opened is not None:
                write_trace(opened, coordinator.seed, method, engine.roster.names)


def check_travels(coordinator: Coordinator) -> None:
    """Refuse what cannot be done with clients beyond a network, before anything is sent."""
    codec.rule_text(coordinator.local)
    missing = sorted(coordinator.report_fields - codec.FIELDS)
    if missing:
        raise ConfigError(f"reports over a network hold no {missing[0]}, which this method needs; use another memory")
    if "validation" in coordinator.scheduler.requires:
        raise ConfigError("this scheduler needs data of the server's own, which a deployment has not; use another")


def remote(gate: Gate, store: Store | None) -> Gate:
    """The gate for clients beyond a network: nonces are keyed with the run's secret."""
    return replace(gate, remote=True, key=secrets.token_bytes(32) if store is None else store.secret())


def begin(store: Store, coordinator: Coordinator, method: str, params: Vector, spec: str = "") -> State | None:
    """The state to go on with, if the store has one of this run; None: a new run begins."""
    if not store.origin.begun:
        store.begin(f"{spec}{line_of(coordinator)}", Trace.from_rounds(1, [NO_IDS]), {})
        return None
    store.origin.check()
    check_same(store.disk.root, store.origin.spec, coordinator)
    fresh = coordinator.init(coordinator.cohort, params)
    state: State | None = store.load(coordinator.seed, method, classes_in(fresh))
    if state is not None and (state.params.shape, state.params.dtype) != (fresh.params.shape, fresh.params.dtype):
        raise ConfigError(
            f"{store.disk.root}: its model has {len(state.params)} numbers of {state.params.dtype}, the app's"
            f" {len(fresh.params)} of {fresh.params.dtype}; start the app it was begun with, or give another store"
        )
    return state


def commit(  # noqa: PLR0917 - one round has that many parts
    store: Store, seed: int, method: str, state: State, record: RoundRecord, row: list[Any]
) -> None:
    """Make a round durable."""
    store.commit(seed, method, state, to_json(record), row, math.nan)


def write_trace(store: Store, seed: int, method: str, names: Mapping[int, str]) -> None:
    """Who was online, as the run's trace: what its limits and audits are computed from."""
    records = [from_json(done.line) for done in store.rounds(seed, method)]
    if not records:
        return
    whole = len(names) == max(names, default=-1) + 1
    trace = Trace.from_rounds(
        max(names, default=0) + 1,
        [np.union1d(record.available, record.busy) for record in records],
        names=tuple(names[k] for k in sorted(names)) if whole else None,
    )
    with store.db.transaction():
        store.origin.replace_trace(trace_bytes(trace))
