"""FedAvg's place taken by a fair strategy: stock clients, the same arguments, hostile replies, resume."""

import difflib
import importlib
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp, mod
from flwr.serverapp import ServerApp
from flwr.serverapp import strategy as strategies
from flwr.serverapp.strategy import FedAvg

from fedparity import AVAILABILITY, Trace
from fedparity.core.errors import ConfigError
from fedparity.core.journal import from_json
from fedparity.engines.flower import FairStrategy, LocalGrid, WithLosses, shim, simulate
from fedparity.store import Store

ROOT = Path(__file__).parents[2]
N = 8
FIRST = ArrayRecord({"w": Array(np.zeros(3, np.float32)), "steps": Array(np.array(0, np.int64))})


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("flwr").setLevel(logging.ERROR)


def a_client(change=None):
    """A stock client that moves half way to its number; `change` does something to its reply."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        arrays, k = message.content["arrays"], context.node_config["partition-id"]
        w = arrays["w"].numpy()
        new = ArrayRecord(
            {
                "w": Array((w + 0.5 * (k - w)).astype(np.float32)),
                "steps": Array(np.asarray(arrays["steps"].numpy() + 1)),
            }
        )
        found = RecordDict({"arrays": new, "metrics": MetricRecord({"num-examples": 10, "train_loss": 1.0})})
        if change is not None and k == 2:
            change(found)
        return Message(found, reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        w, k = message.content["arrays"]["w"].numpy(), context.node_config["partition-id"]
        metrics = MetricRecord({"num-examples": 10, "eval_loss": float(((w - k) ** 2).mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def started(strategy, app=None, rounds=4, trace=None, first=FIRST):
    grid = LocalGrid(app or a_client(), N, trace=trace)
    return strategy.start(grid, first, num_rounds=rounds)


def test_with_everybody_asked_it_is_fedavg():
    plain, fair = started(FedAvg()), started(FairStrategy())
    assert fair.arrays["w"].numpy() == pytest.approx(plain.arrays["w"].numpy(), rel=1e-6)
    assert fair.arrays["steps"].numpy() == plain.arrays["steps"].numpy() == 4
    assert fair.arrays["steps"].numpy().dtype == np.int64
    assert fair.evaluate_metrics_clientapp.keys() == plain.evaluate_metrics_clientapp.keys()
    assert dict(fair.train_metrics_clientapp[1]) == dict(plain.train_metrics_clientapp[1])


def test_clients_are_asked_as_evenly_as_they_are_there():
    trace = AVAILABILITY.build("bernoulli:low=.3").draw(N, 30, 0)
    strategy = FairStrategy(fraction_train=0.01, min_train_nodes=2, fraction_evaluate=0.0)
    started(strategy, rounds=30, trace=trace)
    counts = strategy.state.ledger.selected
    assert counts.sum() == np.minimum(trace.sizes(), 2).sum()
    assert counts.max() - counts.min() <= 2
    assert strategy.state.ledger.online.tolist() == trace.counts().tolist()


def test_nobody_is_waited_for():
    """FedAvg would wait for ever for a second node."""
    trace = Trace.from_rounds(N, [np.arange(N), np.array([3]), np.empty(0, np.int64), np.arange(N)])
    strategy = FairStrategy(fraction_evaluate=0.0)
    started(strategy, trace=trace)
    assert strategy.state.ledger.completed.tolist() == [2, 2, 2, 3, 2, 2, 2, 2]


def nan(found):
    found["arrays"]["w"] = Array(np.full(3, np.nan, np.float32))


def shape(found):
    found["arrays"]["w"] = Array(np.zeros(4, np.float32))


def extra(found):
    found["arrays"]["x"] = Array(np.zeros(1))


def weight(found):
    found["metrics"]["num-examples"] = 10**12


def negative(found):
    found["metrics"]["num-examples"] = -5


def no_weight(found):
    del found["metrics"]["num-examples"]


def listed(found):
    found["metrics"]["num-examples"] = [1, 2]


@pytest.mark.parametrize("change", [nan, shape, extra, weight, negative, no_weight, listed])
def test_a_hostile_client_is_left_out_and_named(change):
    strategy = FairStrategy(fraction_evaluate=0.0)
    result = started(strategy, a_client(change))
    assert np.isfinite(result.arrays["w"].numpy()).all()
    assert strategy.state.ledger.failed.tolist() == [4 if k == 2 else 0 for k in range(N)]
    others = np.delete(np.arange(N), 2).mean()
    assert result.arrays["w"].numpy() == pytest.approx(others * (1 - 0.5**4), rel=1e-5)


def test_a_killed_server_goes_on_with_the_next_round(tmp_path):
    trace = AVAILABILITY.build("bernoulli:low=.4").draw(N, 9, 0)

    def made(store=None):
        return FairStrategy(fraction_train=0.3, fraction_evaluate=0.5, store=store)

    class KilledError(Exception):
        pass

    class Dying(FairStrategy):
        def aggregate_train(self, server_round, replies):
            if self.state.round == 4:
                raise KilledError
            return super().aggregate_train(server_round, replies)

    whole = made()
    expected = started(whole, rounds=8, trace=trace)
    with pytest.raises(KilledError):
        started(Dying(fraction_train=0.3, fraction_evaluate=0.5, store=tmp_path / "run"), rounds=8, trace=trace)
    again = made(tmp_path / "run")
    seen = []
    grid = LocalGrid(a_client(), N, trace=trace)
    result = again.start(grid, FIRST, num_rounds=8, evaluate_fn=lambda t, _: seen.append(t))
    assert seen == [4, 5, 6, 7, 8]
    assert sorted(result.evaluate_metrics_clientapp) == [5, 6, 7, 8]
    assert again.state.ledger == whole.state.ledger
    assert result.arrays["w"].numpy().tobytes() == expected.arrays["w"].numpy().tobytes()
    done = made(tmp_path / "run")
    assert (
        started(done, rounds=8, trace=trace).arrays["w"].numpy().tobytes()
        == again.state.params[:3].astype(np.float32).tobytes()
    )
    with Store.read(tmp_path / "run") as store:
        assert store.trace().num_rounds == 8
    with pytest.raises(ConfigError, match="its model has 4 numbers"):
        started(made(tmp_path / "run"), first=ArrayRecord({"w": Array(np.zeros(7))}))


def test_losses_are_reported_by_a_wrapped_client():
    strategy = FairStrategy(scheduler="parity:target=utility", losses=True, min_train_nodes=3, fraction_train=0.01)
    started(strategy, WithLosses(a_client()))
    ledger = strategy.state.ledger
    asked = ledger.selected > 0
    assert np.isfinite(ledger.loss[asked]).all()
    assert ledger.utility[5] > 0 or not asked[5]
    assert started(FedAvg(), WithLosses(a_client())).arrays["w"].numpy() == pytest.approx(
        started(FedAvg()).arrays["w"].numpy()
    )


class Watched(ClientApp):
    """A stock client whose scores are written down by (client, round) as Flower's evaluation hears them."""

    def __init__(self, inner, lost=()):
        super().__init__()
        self.inner, self.heard, self.lost = inner, {}, set(lost)

    def __call__(self, message, context):
        reply = self.inner(message, context)
        if message.metadata.message_type == "evaluate":
            at = context.node_config["partition-id"], int(message.content["config"]["server-round"]) - 1
            if at in self.lost:
                raise OSError("cut off")
            self.heard[at] = reply.content["metrics"]["eval_loss"]
        return reply


def test_flower_s_own_evaluation_credits_those_who_took_part(tmp_path):
    app = Watched(a_client(), lost={(3, 1)})
    strategy = FairStrategy(
        scheduler="parity:target=utility", rules={"utility": "global_loss_drop"}, fraction_train=0.01,
        fraction_evaluate=0.01, min_train_nodes=4, min_evaluate_nodes=1, store=tmp_path / "run",
    )  # fmt: skip
    started(strategy, app, rounds=6)
    with Store.read(tmp_path / "run") as store:
        records = [from_json(done.line) for done in store.rounds(0, "fair")]
    assert [record.round for record in records] == list(range(6))
    last = {}
    for record in records:
        for client, gained in zip(record.completed.tolist(), record.utility.tolist(), strict=True):
            now = app.heard.get((client, record.round))
            if now is None:
                assert gained == 0
                continue
            assert gained == pytest.approx(min(10, max(0, last.get(client, now) - now)), abs=1e-9)
            last[client] = now
    assert strategy.state.ledger.utility.sum() > 0
    assert any(record.utility.sum() > 0 for record in records)


def test_without_an_answer_to_the_evaluation_nobody_is_credited_and_the_round_stands():
    everything = {(k, t) for k in range(N) for t in range(4)}
    strategy = FairStrategy(rules={"utility": "global_loss_drop"})
    started(strategy, Watched(a_client(), lost=everything))
    assert strategy.state.round == 4
    assert strategy.state.ledger.completed.tolist() == [4] * N
    assert not strategy.state.ledger.utility.any()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"scheduler": "parity:target=utility"}, r"needs loss_after from clients.*WithLosses\(app\)"),
        ({"weighting": "agnostic"}, r"needs loss_before from clients.*WithLosses\(app\)"),
        ({"scheduler": "oort", "losses": True}, "needs loss_rms from clients, which stock ones do not report"),
        ({"scheduler": "fedgs"}, "needs labels, which a Flower strategy cannot ask for"),
        ({"rules": {"local": "prox"}}, "a stock client trains as it does"),
        ({"rules": {"utility": "accuracy_change"}}, "needs everybody's evaluation, which a Flower strategy cannot"),
        ({"rules": {"utility": "global_loss_drop"}, "fraction_evaluate": 0.0}, "fraction_evaluate=0 asks nobody"),
    ],
)
def test_what_cannot_work_with_stock_clients_is_refused(given, why):
    with pytest.raises(ConfigError, match=why):
        FairStrategy(**given)


def test_a_model_that_cannot_be_started_from_is_refused():
    with pytest.raises(ConfigError, match="initial_arrays: 'w' is not finite"):
        started(FairStrategy(), first=ArrayRecord({"w": Array(np.full(3, np.nan))}))


def private(kind):
    """Flower's own differential privacy, with next to no noise, and the mod its clients need."""
    where, how = kind.split()
    wrapper = getattr(strategies, f"DifferentialPrivacy{where}Side{how}Clipping")
    given = {"noise_multiplier": 0.001, "clipping_norm": 1.0} if how == "Fixed" else {"noise_multiplier": 0.3}
    mods = [getattr(mod, f"{how.lower()}clipping_mod")] if where == "Client" else []
    return (lambda inner: wrapper(inner, num_sampled_clients=N, **given)), mods


@pytest.mark.parametrize("kind", ["Server Fixed", "Server Adaptive", "Client Fixed", "Client Adaptive"])
def test_flower_s_differential_privacy_goes_around_it(kind):
    wrap, mods = private(kind)
    app = ClientApp()

    @app.train(mods=mods)
    def train(message, context):
        w, k = message.content["arrays"]["w"].numpy(), context.node_config["partition-id"] + 1
        new = ArrayRecord({"w": Array((w + 0.5 * (k - w)).astype(np.float32))})
        return Message(RecordDict({"arrays": new, "metrics": MetricRecord({"num-examples": 10})}), reply_to=message)

    fair, first = FairStrategy(fraction_evaluate=0.0), ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    found = [
        started(wrap(inner), app, rounds=3, first=first).arrays["w"].numpy()
        for inner in (fair, FedAvg(fraction_evaluate=0.0))
    ]
    assert found[0] == pytest.approx(found[1], abs=0.1)
    assert fair.state.ledger.completed.tolist() == [3] * N


def test_flower_s_local_differential_privacy_goes_with_it():
    app = ClientApp()

    @app.train(mods=[mod.LocalDpMod(clipping_norm=10.0, sensitivity=1e-6, epsilon=10.0, delta=1e-5)])
    def train(message, context):
        w, k = message.content["arrays"]["w"].numpy(), context.node_config["partition-id"] + 1
        new = ArrayRecord({"w": Array((w + 0.5 * (k - w)).astype(np.float32))})
        return Message(RecordDict({"arrays": new, "metrics": MetricRecord({"num-examples": 10})}), reply_to=message)

    fair, first = FairStrategy(fraction_evaluate=0.0), ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    found = [
        started(one, app, rounds=3, first=first).arrays["w"].numpy() for one in (fair, FedAvg(fraction_evaluate=0.0))
    ]
    assert found[0] == pytest.approx(found[1], abs=0.01)
    assert fair.state.ledger.completed.tolist() == [3] * N


@pytest.mark.parametrize("kind", ["secagg_mod", "secaggplus_mod"])
def test_secure_aggregation_of_the_older_workflow_is_refused_by_its_clients(kind):
    """Its mod waits for the stages of `SecAggPlusWorkflow`: each client says so, and the model stays."""
    app = ClientApp(mods=[getattr(importlib.import_module("flwr.client.mod"), kind)])

    @app.train()
    def train(*_):
        raise AssertionError("never reached")

    strategy = FairStrategy(fraction_evaluate=0.0)
    heard = []
    absorb = strategy._coordinator.__class__.step

    def step(self, state, plan, reports):
        heard.extend(report.failure for report in reports)
        return absorb(self, state, plan, reports)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy._coordinator.__class__, "step", step)
        result = started(strategy, app, rounds=1)
    assert len(heard) == N
    assert all(heard)
    assert result.arrays["w"].numpy().tolist() == [0, 0, 0]
    assert strategy.state.ledger.failed.tolist() == [1] * N


# --- an unchanged Flower app in this process


def test_a_server_app_runs_unchanged_without_ray():
    app, seen = ServerApp(), {}

    @app.main()
    def main(grid, context):
        strategy = FedAvg(fraction_evaluate=0.0)
        seen["w"] = strategy.start(grid, FIRST, num_rounds=2, train_config=ConfigRecord({"x": 1})).arrays["w"].numpy()
        seen["config"] = context.run_config["rate"]

    simulate(app, a_client(), 4, run_config={"rate": 0.5})
    assert seen["w"] == pytest.approx(1.5 * 0.75)
    assert seen["config"] == 0.5
    assert "ray" not in sys.modules


def test_what_a_client_changes_in_a_message_nobody_else_sees():
    """Messages of a round share their content; beyond a network each client would have one of its own."""
    app, seen = ClientApp(), []

    @app.train()
    def train(message, context):
        config = message.content["config"]
        seen.append((config["stage"], list(config["steps"]), list(message.content["arrays"])))
        del config["stage"], message.content["arrays"]["w"]
        config["steps"].append(context.node_id)
        return Message(RecordDict(), reply_to=message)

    content = RecordDict({"config": ConfigRecord({"stage": "first", "steps": [1]}), "arrays": FIRST})
    grid = LocalGrid(app, 3)
    replies = grid.send_and_receive([Message(content, 1000 + k, "train") for k in range(3)])
    assert not [reply.error for reply in replies if reply.has_error()]
    assert seen == [("first", [1], ["w", "steps"])] * 3


def test_a_trace_must_fit_the_nodes():
    with pytest.raises(ConfigError, match="the trace has 3 clients but there are 8 nodes"):
        LocalGrid(a_client(), N, trace=Trace.from_matrix(np.ones((2, 3))))


# --- the example


EXAMPLE = ROOT / "examples" / "flower_app"


def test_the_example_is_made_fair_by_two_lines():
    before, after = (
        (EXAMPLE / "quickstart" / name).read_text().splitlines() for name in ("server_app.py", "fair_server_app.py")
    )
    changed = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:1] in "+-"]
    assert len([line for line in changed[2:] if line[0] == "+"]) == 2
    readme = (EXAMPLE / "README.md").read_text()
    assert all(line in readme for line in changed[2:])


def test_the_figures_in_the_example_s_readme_are_what_its_command_prints():
    done = subprocess.run(
        [sys.executable, EXAMPLE / "compare.py"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() in (EXAMPLE / "README.md").read_text()


# --- Flower itself


def test_import_fedparity_does_not_import_flower():
    code = "import sys, fedparity, fedparity.engines, fedparity.engines.flower; print('flwr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("version", "why"),
    [(None, "Flower is not installed; pip install"), ("1.40.2", r"Flower 1.40.2 is installed, but 1.41 or 1.42 is")],
)
def test_a_missing_or_unsupported_flower_is_one_line(monkeypatch, version, why):
    def found(_):
        if version is None:
            raise shim.metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(shim.metadata, "version", found)
    module = importlib.import_module("fedparity.engines.flower")
    with pytest.raises(ConfigError, match=why):
        module.serve  # noqa: B018


def test_what_is_needed_of_flower_and_not_public_is_there():
    from flwr.supercore.task_identity import TaskIdentity

    assert shim.LOWEST <= tuple(int(n) for n in shim.require().split(".")[:2]) < shim.BELOW
    LocalGrid(a_client(), 1, run_id=7)
    assert (TaskIdentity.run_id, TaskIdentity.node_id) == (7, shim.SERVER_NODE)
    message = Message(RecordDict(), 5, "train")
    shim.give_id(message, "an id")
    assert message.metadata.message_id == "an id"
    assert Message(RecordDict(), reply_to=message).metadata.reply_to_message_id == "an id"


def test_the_names_of_the_package_are_those_it_says():
    module = importlib.import_module("fedparity.engines.flower")
    for name in module.__all__:
        assert name in module.__doc__
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError):
        module.nothing  # noqa: B018
