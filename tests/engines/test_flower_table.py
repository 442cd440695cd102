"""Every cell of the table in docs/flower.md is tried: what is said to work is built, the rest refused in one line."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping

from fedparity import MEMORIES, METHODS, SCHEDULERS, UTILITIES, WEIGHTINGS, Coordinator
from fedparity.core.errors import ConfigError
from fedparity.engines.flower import FairStrategy, LocalGrid, SecureFairStrategy
from fedparity.engines.flower.serving import check_travels
from fedparity.local import LOCALS

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
KINDS = {"schedulers": "scheduler", "weightings": "weighting", "memories": "memory", "utilities": "utility"}
KINDS |= {"local rules": "local"}

TABLES = {"scheduler": SCHEDULERS, "weighting": WEIGHTINGS, "memory": MEMORIES, "utility": UTILITIES, "local": LOCALS}
OURS = {(kind, name) for kind, table in TABLES.items() for name in table}
"""Now, before other tests register theirs."""


def cells():
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    heads = [cell.strip() for cell in rows[0]][1:]
    for first, *said in rows[2:]:
        kind = KINDS[first.strip().partition("`")[0].strip()]
        for name in re.findall(r"`([^`]+)`", first):
            for head, cell in zip(heads, said, strict=True):
                yield pytest.param(kind, name, head, cell.strip().startswith("yes"), id=f"{name} {head}")


def rules_of(kind, name):
    """A component with what it works on: that of the first method that has it, if it is of those with a memory."""
    if kind not in {"memory", "weighting"}:
        return {kind: name}
    methods = (m for m in METHODS.values() if re.match(r"\w+", str(getattr(m, kind)))[0] == name)
    method = next((m for m in methods if str(m.memory) != "none"), None)
    return {kind: name} if method is None else {key: getattr(method, key) for key in ("memory", "weighting", "local")}


def strategy(rules, **more):
    named = {key: rules[key] for key in ("scheduler", "weighting") if key in rules}
    return FairStrategy(**named, rules={k: v for k, v in rules.items() if k not in named}, **more)


def under_privacy(rules):
    """One round under Flower's own wrapper."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    app = ClientApp()

    @app.train()
    def train(message, _):
        told = MetricRecord({"num-examples": 10})
        new = ArrayRecord({"w": Array((message.content["arrays"]["w"].numpy() + 1).astype(np.float32))})
        return Message(RecordDict({"arrays": new, "metrics": told}), reply_to=message)

    @app.evaluate()
    def evaluate(message, _):
        told = MetricRecord({"num-examples": 10, "eval_loss": 1.0, "eval_acc": 0.5})
        return Message(RecordDict({"metrics": told}), reply_to=message)

    inner = strategy(rules)
    wrapped = DifferentialPrivacyServerSideFixedClipping(inner, 0.001, 1.0, 4)
    first = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    found = wrapped.start(LocalGrid(app, 4), first, num_rounds=2).arrays["w"].numpy()
    assert np.isfinite(found).all()
    assert inner.state.round == 2


def secure(rules):
    named = {"scheduler": rules["scheduler"]} if "scheduler" in rules else {}
    SecureFairStrategy(4, **named, rules={k: v for k, v in rules.items() if k != "scheduler"})


TRIED = {
    "`client_app`": lambda rules: check_travels(Coordinator(4, **rules)),
    "stock clients": strategy,
    "with `WithLosses`": lambda rules: strategy(rules, losses=True),
    "differential privacy": under_privacy,
    "secure aggregation": secure,
}


def test_every_component_has_its_row():
    assert {(kind, name) for kind, name, *_ in (param.values for param in cells()) if ":" not in name} == OURS


@pytest.mark.parametrize(("kind", "name", "head", "works"), list(cells()))
def test_a_cell(kind, name, head, works):
    rules = rules_of(kind, name)
    if works:
        TRIED[head](rules)
        return
    with pytest.raises(ConfigError) as told:
        TRIED[head](rules)
    assert "\n" not in str(told.value)
    assert ";" in str(told.value)
