"""The scripts in examples/: they run, and the plain round gives the library's numbers."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedparity import SCHEDULERS, Coordinator, InProcess, Intermittent, Trace, stream
from fedparity.local import Mixed
from fedparity.schedulers import Reactive
from fedparity.tasks import Quadratic
from fedparity.testing import check_scheduler

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lam", [0.7, 0.0])
def test_the_plain_round_and_the_library_agree(seed, lam):
    plain, rng = load("one_round"), stream(seed, "example")
    n, rounds, m = 8, 12, 3
    alpha = tuple((1 + rng.permutation(n) / 97).tolist())
    task = Quadratic(rng.normal(size=(n, 3)) * 4, rng.uniform(0.5, 2, (n, 3)), rate=0.1, steps=5)
    online = [np.flatnonzero(rng.random(n) < 0.6) if t != 3 else np.empty(0, np.int64) for t in range(rounds)]
    stays = [rng.random(len(ids)) < 0.7 for ids in online]
    engine = Intermittent(InProcess(task), Trace.from_rounds(n, online, stays))

    coordinator = Coordinator(m, scheduler=Reactive(alpha=alpha, lam=lam), local=Mixed(0.5))
    state = coordinator.init(n, np.zeros(3))
    clients = [
        plain.Client(c, h, a)
        for c, h, a in zip(task.centres.tolist(), task.curvature.tolist(), alpha, strict=True)
    ]  # fmt: skip
    w, failures = [0.0] * 3, 0
    for t in range(rounds):
        available, leaving = online[t].tolist(), online[t][~stays[t]].tolist()
        w, asked, variance = plain.one_round(t, w, clients, available, leaving, m=m, lam=lam)
        plan, state = coordinator.plan(state, engine.available(t))
        record, state = coordinator.absorb(state, plan, engine.train(plan), engine.evaluate)
        failures += len(record.failed)
        assert asked == record.selected.tolist()
        assert state.params == pytest.approx(w, rel=0, abs=1e-12)
        assert state.ledger.fairness_variance() == pytest.approx(variance, rel=1e-12, abs=1e-12)
    assert failures > 0
    ledger = state.ledger
    for name in ("online", "selected", "completed"):
        assert getattr(ledger, name).tolist() == [getattr(c, name) for c in clients]
    assert ledger.utility == pytest.approx([c.utility for c in clients], rel=0, abs=1e-12)
    assert ledger.utility.max() > 1


OWN = """\
scheduler     gap (limit)   Gini (limit)  CV per round online
uniform     0.707  (0.207)  0.467  (0.123)                0.676
tickets     0.719  (0.207)  0.469  (0.123)                0.427
parity      0.209  (0.207)  0.124  (0.123)                1.016
"""


def test_the_own_scheduler_is_compared_with_parity(capsys, monkeypatch):
    for name in ("_entries", "_registered"):
        monkeypatch.setattr(SCHEDULERS, name, getattr(SCHEDULERS, name).copy())
    load("own_scheduler").main()
    assert capsys.readouterr().out == OWN


def test_the_own_scheduler_is_found_beside_the_command(tmp_path):
    """In a process of its own: by the text that the example shows, on the command line and in a spec."""
    (tmp_path / "spec.toml").write_text(
        'version = 2\nrounds = 3\n[population]\nclients = 9\n[data]\nset = "quadratic"\n'
        '[[methods]]\nname = "tickets"\nscheduler = "own_scheduler:Tickets:per_round=2"\n'
    )
    spec = ["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out")]
    for arguments in (["schedule", "--scheduler", "own_scheduler:Tickets:per_round=2", "--draws", "1"], spec):
        code = f"from fedparity.cli.main import main; import sys; sys.argv[1:] = {arguments!r}; main()"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], cwd=EXAMPLES, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "ickets" in done.stdout


def test_the_own_scheduler_keeps_the_laws_of_all_schedulers():
    check_scheduler(load("own_scheduler").Tickets())


def test_an_own_model_needs_few_lines_and_public_names():
    text = (EXAMPLES / "own_model.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    assert [line for line in text.splitlines() if "fedparity" in line and "import" in line] == [
        "import fedparity as fp"
    ]


def test_there_are_examples():
    assert {"one_round.py", "own_model.py", "own_scheduler.py"} <= {path.name for path in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_example_runs(script, tmp_path):
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
