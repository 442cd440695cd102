"""Instead of `FedAvg`: the same arguments, a fair choice of clients, a gate before the sum, a ledger that survives.

    strategy = FedAvg(fraction_train=0.5)      ->      strategy = FairStrategy(fraction_train=0.5)

`configure_train` is `Coordinator.plan`, `aggregate_train` is `Coordinator.absorb`: there is no rule of its own. How
many are asked follows `FedAvg`: max(min_train_nodes, fraction_train x online), of those online now; nobody is waited
for but `min_available_nodes` before the first round. A stock client reports its new model, `weighted_by_key`, and no
loss: what needs one is refused unless clients are wrapped (`WithLosses`) and `losses=True` says so. A utility by the
new model's loss or accuracy (`global_loss_drop`, `accuracy_gain`) is credited from Flower's own evaluation:
those who took part are asked first, and who does not answer is credited nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from fedparity.core.coordinator import COMPONENTS, Coordinator
from fedparity.core.errors import ConfigError, FedparityError, RefusedError
from fedparity.core.gate import MAX_NUMBER, printable
from fedparity.core.intake import Stepped
from fedparity.core.rng import stream
from fedparity.core.state import State
from fedparity.core.types import ClientReport, Evals, Ids, RoundPlan, Vector
from fedparity.engines.flower import codec
from fedparity.engines.flower.grid_engine import GridEngine, reason_of
from fedparity.engines.flower.losses import LOSSES
from fedparity.engines.flower.roster import Identity, Roster
from fedparity.engines.flower.serving import begin, commit, write_trace
from fedparity.local import Plain
from fedparity.schedulers import SCHEDULERS
from fedparity.store import Store

ACCURACIES = ("eval_acc", "eval_accuracy", "eval-acc", "accuracy")
METHOD = "fair"
"""What the run is called in its store."""


class Layout:
    """A model's named arrays as one vector, and back; whole numbers are rounded on their way back."""

    def __init__(self, arrays: ArrayRecord) -> None:
        self.parts = {name: _array(name, array) for name, array in arrays.items()}
        exact = all(part.dtype in (np.float32, np.float16) for part in self.parts.values())
        self.dtype = np.dtype(np.float32 if exact else np.float64)

    def vector(self, arrays: ArrayRecord) -> Vector:
        """The arrays of a model like this one; RefusedError for any other."""
        if list(arrays) != list(self.parts):
            odd = sorted(set(arrays) ^ set(self.parts)) or ["the order of arrays"]
            raise RefusedError(f"the reply and the model differ in {printable(odd[0])!r}")
        found = [codec.checked_array(arrays[name], part.shape, part.dtype) for name, part in self.parts.items()]
        return np.concatenate([np.empty(0, self.dtype), *(one.ravel().astype(self.dtype) for one in found)])

    def record(self, vector: Vector) -> ArrayRecord:
        """A vector as named arrays."""
        ends = np.cumsum([part.size for part in self.parts.values()])[:-1]
        pieces = np.split(vector, ends)
        made = {
            name: (np.rint(piece) if part.dtype.kind in "iu" else piece).astype(part.dtype).reshape(part.shape)
            for (name, part), piece in zip(self.parts.items(), pieces, strict=True)
        }
        return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in made.items()})


def _array(name: str, array: Array) -> Any:
    try:
        found = codec.read_array(array)
    except FedparityError as error:
        raise ConfigError(f"initial_arrays: {name!r} cannot be read ({error}); give numbers") from error
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ConfigError(f"initial_arrays: {name!r} is not finite; give a model to start from")
    return found


class FairStrategy(FedAvg):
    """A drop-in for `FedAvg` that asks clients fairly, refuses what cannot be used, and resumes."""

    def __init__(
        self,
        *fedavg: Any,
        scheduler: Any = "parity",
        weighting: Any = "by_size",
        seed: int = 0,
        losses: bool = False,
        identity: Identity = "node",
        store: str | Path | None = None,
        patience: float = 600.0,
        rules: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """What is not named here goes to `FedAvg`.

        `rules` are further choices of a `Coordinator` (memory, server, estimator, gate, ...). `losses`: clients report
        them. `identity` and `patience` are as in `GridEngine`, `store` is a folder to go on from.
        """
        super().__init__(*fedavg, **named)
        scheduler = SCHEDULERS.of(scheduler)
        credited = losses or "utility" in scheduler.requires  # which stock clients cannot give, as is then said
        usual = {"utility": "loss_drop" if credited else "none", "min_reports": 0}
        self._coordinator = Coordinator(1, seed=seed, scheduler=scheduler, weighting=weighting, **usual | (rules or {}))
        _check_stock(self._coordinator, losses=losses, evaluates=self.fraction_evaluate > 0)
        self._identity, self._patience, self._folder = identity, patience, store
        self._rounds: int | None = None
        self._store: Store | None = None
        self._engine: GridEngine | None = None
        self._layout: Layout | None = None
        self._plan: tuple[RoundPlan, list[Message]] | None = None
        self._stepped: tuple[RoundPlan, Stepped] | None = None
        """A round whose clients wait for Flower's evaluation to be credited."""
        self._evaluating: list[tuple[Message, int]] = []
        """The messages of that evaluation, and whom each asks."""
        self.state: State | None = None
        """Ledger and all; None before the first round."""

    def start(  # noqa: PLR0917 - Flower's signature
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As `FedAvg` does; with a store, after the last round that was committed. Rounds keep their numbers."""
        self._layout, self._rounds = Layout(initial_arrays), num_rounds
        if self._folder is not None:
            self._store = Store.open(self._folder, copies=True)
        done = 0
        try:
            if self._store is not None:
                params = self._layout.vector(initial_arrays)
                self.state = begin(self._store, self._coordinator, METHOD, params)
                done = 0 if self.state is None else self.state.round
            arrays = initial_arrays if self.state is None else self._layout.record(self.state.params)
            scored = None if evaluate_fn is None else lambda t, arrays: evaluate_fn(t + done, arrays)
            left = max(0, num_rounds - done)
            result = super().start(grid, arrays, left, timeout, train_config, evaluate_config, scored)
            self._settle({})
            if not left:
                result.arrays = arrays
            if self._store is not None:
                if self.state is not None:
                    write_trace(self._store, self._coordinator.seed, METHOD, self.state.names)
                self._store.close()
        except BaseException:
            if self._store is not None:
                self._store.abandon()
            raise
        for told in (
            result.train_metrics_clientapp, result.evaluate_metrics_clientapp, result.evaluate_metrics_serverapp,
        ):  # fmt: skip
            moved = {number + done: record for number, record in told.items()}
            told.clear()
            told.update(moved)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Whom to ask: `Coordinator.plan` on who is online."""
        if self.fraction_train == 0:
            return []
        self._settle({})
        layout = self._layout = self._layout or Layout(arrays)
        if self._engine is None or self._engine.grid is not grid:
            known = None if self.state is None else self.state.names
            self._engine = GridEngine(
                grid,
                Roster(known),
                identity=self._identity,
                min_clients=1 if known else max(1, self.min_available_nodes),
                patience=self._patience,
            )
        engine = self._engine
        registered = engine.num_clients
        sent = layout.vector(arrays)
        state = self._coordinator.grow(self.state or self._coordinator.init(registered, sent), registered)
        # A wrapper may have added noise to what was aggregated: updates are relative to what is sent.
        state.params = sent
        available = engine.available(state.round)
        state = self._coordinator.grow(state, engine.num_clients)
        cohort = max(1, int(len(available) * self.fraction_train), self.min_train_nodes)
        left = None if self._rounds is None else max(0, self._rounds - 1 - state.round)
        plan, self.state = replace(self._coordinator, cohort=cohort).plan(state, available, left)
        config["server-round"] = plan.round + 1
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        nodes = [engine.roster.node[client] for client in plan.cohort.clients.tolist()]
        messages = list(self._construct_messages(content, nodes, MessageType.TRAIN))
        self._plan = plan, messages
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What came back: `Coordinator.absorb`, and a commit."""
        if self._plan is None or self.state is None or self._layout is None or self._engine is None:
            return None, None
        (plan, messages), self._plan = self._plan, None
        clients = plan.cohort.clients.tolist()
        asked = {m.metadata.message_id: client for m, client in zip(messages, clients, strict=True)}
        contents: dict[int, RecordDict] = {}
        reports = []
        for reply in replies:
            client = asked.get(reply.metadata.reply_to_message_id)
            if client is None:
                continue
            if reply.has_error():
                reports.append(ClientReport(client, failure=reason_of(reply)))
            else:
                reports.append(self._report(client, reply.content, plan.params))
                contents[client] = reply.content
        stepped, self.state = self._coordinator.step(self.state, plan, reports)
        self._stepped = plan, stepped
        used = [contents[one.client] for one in stepped.intake.used if one.client in contents]
        if not self._coordinator.utility.needs_evaluation:
            self._settle({})
        return self._layout.record(self.state.params), self._aggregated(self.train_metrics_aggr_fn, used)

    def _settle(self, scores: Mapping[int, tuple[float, float]]) -> None:
        """Credit the clients of the last round by their scores of the new model, and commit it."""
        if self._stepped is None or self.state is None or self._engine is None:
            return
        (plan, stepped), self._stepped = self._stepped, None

        def evaluate(_: Vector, clients: Ids) -> Evals:
            known = np.array([scores.get(client, (math.nan, math.nan)) for client in clients.tolist()]).reshape(-1, 2)
            return Evals(clients, known[:, 0], known[:, 1])

        record, self.state = self._coordinator.settle(self.state, plan, stepped, evaluate)
        self.state.names = self._engine.roster.names
        if self._store is not None:
            commit(self._store, self._coordinator.seed, METHOD, self.state, record, [])

    def _report(self, client: int, content: RecordDict, params: Vector) -> ClientReport:
        try:
            if len(content.array_records) != 1 or len(content.metric_records) != 1 or self._layout is None:
                raise RefusedError("a reply must hold one ArrayRecord and one MetricRecord")
            model = self._layout.vector(next(iter(content.array_records.values())))
            said = next(iter(content.metric_records.values()))
            samples = said.get(self.weighted_by_key)
            if not isinstance(samples, (int, float)) or not 0 < samples < math.inf:
                raise RefusedError(f"{self.weighted_by_key!r} must be a number above 0")
            losses: dict[str, Any] = {name: _loss(said, name) for name in ("loss_before", "loss_after")}
            return ClientReport(client, model - params, num_samples=max(1, round(samples)), **losses)
        except (FedparityError, AttributeError, KeyError, TypeError, ValueError) as error:
            return codec.unreadable(client, error)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Those who wait for it to be credited, and a share of those online, by lot; nobody is waited for."""
        self._evaluating = []
        online = sorted(int(node) for node in grid.get_node_ids())
        wanted = max(int(len(online) * self.fraction_evaluate), self.min_evaluate_nodes)
        if self.fraction_evaluate == 0 or not online:
            return []
        done = server_round if self.state is None else self.state.round + (self._stepped is not None)
        rng = stream(self._coordinator.seed, "evaluate", done)
        known = {} if self._engine is None else {node: client for client, node in self._engine.roster.node.items()}
        part = set() if self._stepped is None else {one.client for one in self._stepped[1].intake.all}
        drawn = [online[i] for i in rng.permutation(len(online)).tolist()]
        nodes = [node for node in online if known.get(node) in part]
        nodes += [node for node in drawn if node not in nodes][: max(0, wanted - len(nodes))]
        config["server-round"] = done
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        messages = list(self._construct_messages(content, sorted(nodes), MessageType.EVALUATE))
        self._evaluating = [(m, known[m.metadata.dst_node_id]) for m in messages if m.metadata.dst_node_id in known]
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """As `FedAvg` does, over the replies that make sense; the round is credited by them."""
        asked = {message.metadata.message_id: client for message, client in self._evaluating}
        sensible = [reply for reply in replies if not reply.has_error() and self._sensible(reply.content)]
        scores: dict[int, tuple[float, float]] = {}
        for reply in sensible:
            said = next(iter(reply.content.metric_records.values()))
            client = asked.get(reply.metadata.reply_to_message_id)
            if client is not None:
                scores[client] = _first(said, LOSSES), _first(said, ACCURACIES)
        self._settle(scores)
        return self._aggregated(self.evaluate_metrics_aggr_fn, [reply.content for reply in sensible])

    def _sensible(self, content: RecordDict) -> bool:
        said = next(iter(content.metric_records.values()), None)
        if said is None or len(content.metric_records) != 1:
            return False
        weight = said.get(self.weighted_by_key)
        numbers = [value for value in said.values() if isinstance(value, (int, float))]
        return (
            isinstance(weight, (int, float))
            and 0 < weight <= self._coordinator.gate.max_samples
            and bool(np.isfinite(numbers).all())
        )

    def _aggregated(
        self, rule: Callable[[list[RecordDict], str], MetricRecord], contents: list[RecordDict]
    ) -> MetricRecord | None:
        """Metrics of those who have the same; figures for people to read never end a run."""
        try:
            return rule(contents, self.weighted_by_key) if contents else None
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            return None


def _loss(said: MetricRecord, name: str) -> float:
    value = said.get(name, math.nan)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _first(said: MetricRecord, names: Sequence[str]) -> float:
    """The number under the first name that is there, if it is one that a report might hold."""
    found = next((_loss(said, name) for name in names if name in said), math.nan)
    return found if abs(found) <= MAX_NUMBER else math.nan


def _check_stock(coordinator: Coordinator, *, losses: bool, evaluates: bool) -> None:
    """Refuse what a stock client cannot answer, before anybody is asked."""
    if not isinstance(coordinator.local, Plain):
        raise ConfigError(f"local={coordinator.local!r}: a stock client trains as it does; use `client_app`, or plain")
    utility = coordinator.utility
    scored = utility.needs_evaluation and not utility.credits_all
    if scored and not evaluates:
        raise ConfigError(
            f"utility={utility!r} is credited from Flower's evaluation, and fraction_evaluate=0 asks nobody; raise it"
        )
    can = frozenset({"loss_before", "loss_after"}) if losses else frozenset()
    # What a client received is told by its evaluation of the round before: the rule does without its own word.
    asked = [getattr(coordinator, name) for name in COMPONENTS if not (name == "utility" and scored)]
    missing = sorted({field for part in asked for field in getattr(part, "report_fields", ())} - can)
    if missing:
        fix = "wrap the ClientApp, app = WithLosses(app), and give losses=True" if not losses else "use `client_app`"
        raise ConfigError(f"a rule in use needs {missing[0]} from clients, which stock ones do not report; {fix}")
    needs = [what for what in coordinator.scheduler.requires if what != "utility"]
    if needs or utility.credits_all:
        what = needs[0] if needs else "everybody's evaluation"
        raise ConfigError(f"a rule in use needs {what}, which a Flower strategy cannot ask for; use `serve`")
