"""Under secure aggregation: who is asked is fair, though the server sees nothing but the sum.

    context = LegacyContext(context, ServerConfig(num_rounds=10), SecureFairStrategy(cohort=5))
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2))(grid, context)

Flower 1.41 has secure aggregation in its older workflow alone, with a mod for clients (`secaggplus_mod`); this is
a strategy for it. The workflow hands over the weighted mean of the updates in every client's name: no update can be
refused, weighed or remembered by itself, and no rule may ask for what a client says of itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import FitIns, FitRes, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg

from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Scheduler
from fedparity.core.state import State
from fedparity.core.types import ClientReport, RoundPlan, Vector
from fedparity.engines.flower.roster import Roster, node_name
from fedparity.engines.flower.serving import begin, commit
from fedparity.local import Plain
from fedparity.memory import NoMemory
from fedparity.schedulers import SCHEDULERS
from fedparity.store import Store
from fedparity.surrogates import NoSurrogate
from fedparity.utility import NoUtility
from fedparity.weightings import Mean

METHOD = "fair"
"""What the run is called in its store."""


class SecureFairStrategy(FedAvg):
    """A strategy of Flower's older workflows that asks clients fairly; what else it does is `FedAvg`'s."""

    def __init__(
        self,
        cohort: int,
        *,
        scheduler: Any = "parity",
        seed: int = 0,
        store: str | Path | None = None,
        rules: dict[str, Any] | None = None,
        **fedavg: Any,
    ) -> None:
        """`cohort` are asked per round; what is not named here goes to Flower's `FedAvg`."""
        super().__init__(**{"fraction_evaluate": 0.0, "min_fit_clients": 2, "min_available_clients": 2} | fedavg)
        usual: dict[str, Any] = {"utility": "none", "min_reports": 0}
        scheduler = SCHEDULERS.of(scheduler)
        _check_scheduler(scheduler)
        self._coordinator = Coordinator(cohort, seed=seed, scheduler=scheduler, **usual | (rules or {}))
        _check_sum(self._coordinator)
        self._roster, self._folder = Roster(), store
        self._store: Store | None = None
        self._plan: RoundPlan | None = None
        self.state: State | None = None
        """Ledger and all; None before the first round."""

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """The model to begin with: the store's, if it has one."""
        first = super().initialize_parameters(client_manager)
        if first is None:
            raise ConfigError("there is no first model; give initial_parameters=ndarrays_to_parameters([...])")
        self.state = self._begun(_vector(first))
        return first if self.state is None else _shaped(self.state.params, first)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Whom to ask: `Coordinator.plan` on who is online."""
        self._absorb([])  # the workflow gave the last round up: too few were left to unmask the sum
        proxies = {int(proxy.node_id): proxy for proxy in client_manager.all().values()}
        sent = _vector(parameters)
        self._roster.register({node: node_name(node) for node in proxies})
        registered = len(self._roster)
        if self.state is None:
            self.state = self._coordinator.init(max(registered, self._coordinator.cohort), sent)
        state = self._coordinator.grow(self.state, registered)
        state.params = sent
        available = np.array(self._roster.clients(proxies), dtype=np.int64)
        self._plan, self.state = self._coordinator.plan(state, available)
        config = {} if self.on_fit_config_fn is None else self.on_fit_config_fn(server_round)
        asked = [proxies[self._roster.node[client]] for client in self._plan.cohort.clients.tolist()]
        return [(proxy, FitIns(parameters, config)) for proxy in asked]

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: list[Any]
    ) -> tuple[Parameters | None, dict[str, Any]]:
        """What came back: the mean, in everybody's name."""
        if self._plan is None or self.state is None or not results:
            return None, {}
        came = {int(proxy.node_id) for proxy, _ in results}
        mean = results[0][1].parameters
        delta = _vector(mean) - self._plan.params
        self._absorb([ClientReport(client, delta) for client in self._roster.clients(came)])
        return _shaped(self.state.params, mean), {}

    def _absorb(self, reports: list[ClientReport]) -> None:
        if self._plan is None or self.state is None:
            return
        plan, self._plan = self._plan, None
        record, self.state = self._coordinator.absorb(self.state, plan, reports)
        self.state.names = self._roster.names
        if self._store is not None:
            commit(self._store, self._coordinator.seed, METHOD, self.state, record, [])

    def close(self) -> None:
        """Close the store: these workflows do not say when a run is over. What was committed stands without it, too."""
        self._absorb([])
        if self._store is not None:
            self._store.close()

    def _begun(self, params: Vector) -> State | None:
        """The state to go on with, if there is a store and it holds one."""
        if self._folder is None:
            return None
        self._store = Store.open(self._folder, copies=True)
        state = begin(self._store, self._coordinator, METHOD, params)
        self._roster = Roster(None if state is None else state.names)
        return state


def _vector(parameters: Parameters) -> Vector:
    arrays = parameters_to_ndarrays(parameters)
    return np.concatenate([array.ravel() for array in arrays]).astype(np.float32)


def _shaped(vector: Vector, like: Parameters) -> Parameters:
    shapes = [array.shape for array in parameters_to_ndarrays(like)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    parts = zip(np.split(vector, ends), shapes, strict=True)
    return ndarrays_to_parameters([part.reshape(shape) for part, shape in parts])


def _check_sum(coordinator: Coordinator) -> None:
    """Refuse what needs more than the sum, before anybody is asked."""
    plain: dict[str, type] = {
        "weighting": Mean,
        "memory": NoMemory,
        "surrogate": NoSurrogate,
        "utility": NoUtility,
        "local": Plain,
    }
    for name, kind in plain.items():
        if not isinstance(given := getattr(coordinator, name), kind):
            raise ConfigError(f"{name}={given!r}: secure aggregation shows the sum alone; leave it at its default")


def _check_scheduler(scheduler: Scheduler[Any]) -> None:
    needs = [*sorted(scheduler.report_fields), *scheduler.requires]
    if needs:
        raise ConfigError(
            f"scheduler={scheduler!r} needs {needs[0]} of each client, and secure aggregation shows the sum"
            " alone; use one by participation, such as parity"
        )
