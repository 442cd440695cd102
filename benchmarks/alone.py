"""What is measured in a process of its own, memory and compiling: `python benchmarks/alone.py NAME` prints JSON.

resnet18    100 clients x 128 samples, 10 asked, alpha = 1, no activation cache, utility surrogates, tested every round
rounds      1,000 rounds of 100 clients on digits with utility surrogates: does anything grow?
models      clients' own models (mixed by half) with 50 MB of them held in memory
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedparity import Coordinator, InProcess, Intermittent, run, stream
from fedparity.availability import AVAILABILITY
from fedparity.core.spill import SpillFile
from fedparity.core.types import ClientReport, Job
from fedparity.data import open_data
from fedparity.experiment.own import samples_of, torch_task
from fedparity.experiment.spec_parts import PATHS
from fedparity.local import Mixed
from fedparity.models import MODELS
from fedparity.schedulers import Parity, Uniform
from fedparity.surrogates import UtilitySurrogate
from fedparity.tasks.batched import Batched
from fedparity.tasks.samples import Samples
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training
from fedparity.utility import GlobalLossDrop

CLIENTS = 100


def now() -> float:
    """Megabytes resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def own() -> float:
    """Megabytes resident that are not pages of a file, which the system takes back when it needs them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1e3


def peak() -> float:
    """Megabytes resident at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def resnet18() -> dict[str, Any]:
    """Peak of a few rounds: after the first nothing new is allocated."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (CLIENTS * 128, 3, 32, 32), dtype=np.uint8), np.arange(CLIENTS * 128) % 10
    train = list(np.arange(CLIENTS * 128).reshape(CLIENTS, 128))
    test = [np.flatnonzero(y[:2000] // 2 == k % 5) for k in range(CLIENTS)]
    samples = Samples(x, y, x[:2000], y[:2000], train, test, 10, np.arange(2000), peak=255)
    _, threads, channels_last = PATHS["resnet18"]
    task = TorchTask(
        MODELS.build("resnet18").build((3, 32, 32), 10),
        samples,
        Training(epochs=1, batch=32, rate=0.05),
        threads=threads,
        channels_last=channels_last,
    )
    coordinator = Coordinator(
        10, scheduler=Uniform(), utility=GlobalLossDrop(), surrogate=UtilitySurrogate(epsilon=1.0)
    )
    before = now()
    state = run(coordinator, InProcess(task), 2, params=task.init(stream(0, "init")), num_clients=CLIENTS)
    task.evaluate(state.params, np.arange(CLIENTS), "accuracy")
    return {"parameters": len(state.params), "before_mb": before, "peak_mb": peak()}


def rounds() -> dict[str, Any]:
    """Resident after 100, 500 and 1,000 rounds."""
    data = open_data("digits")
    task = torch_task("mlp:hidden=32", samples_of(data, "labels:k=2", CLIENTS, 0), path="sequential")
    trace = AVAILABILITY.build("bernoulli").draw(CLIENTS, 1000, 0)
    engine = Intermittent(InProcess(task), trace)
    coordinator = Coordinator(5, scheduler=Parity(), utility=GlobalLossDrop(), surrogate=UtilitySurrogate())
    state = coordinator.init(CLIENTS, task.init(stream(0, "init")))
    found = {}
    for end in (100, 500, 1000):
        state = run(coordinator, engine, end, state=state)
        found[f"after_{end}_mb"] = now()
    return found


def models() -> dict[str, Any]:
    """Peak with the models of 100 clients, N x D x 4 bytes, most of them in files."""
    size, start = 2_000_000, own()
    coordinator = Coordinator(10, local=Mixed(0.5), scheduler=Uniform(), spill=SpillFile(50_000_000))
    state = coordinator.init(CLIENTS, np.zeros(size, dtype=np.float32))
    for _ in range(60):
        plan, state = coordinator.plan(state, np.arange(CLIENTS))
        reports = [ClientReport(int(k), np.full(size, 1e-3, np.float32)) for k in plan.cohort.clients]
        _, state = coordinator.absorb(state, plan, reports)
        del reports
    total = sum(v.nbytes for v in state.kept.values()) / 1e6
    return {"models_mb": total, "held_mb": 50.0, "own_mb": own() - start, "with_pages_of_files_mb": now()}


def compiling() -> dict[str, Any]:
    """Milliseconds per round on each path, how long compiling takes, and after how many rounds it has paid."""
    rng = np.random.default_rng(0)
    clients, each = 1000, 50
    x, y = rng.integers(0, 256, (clients * each, 784), dtype=np.uint8), np.arange(clients * each) % 10
    train = list(np.arange(clients * each).reshape(clients, each))
    samples = Samples(x, y, x[:10], y[:10], train, [np.arange(10)] * clients, 10, np.arange(10), peak=255)
    module = MODELS.build("logistic").build((784,), 10)
    task = TorchTask(module, samples, Training(epochs=1, batch=32, rate=0.05))
    first = task.init(stream(0, "init"))
    jobs = [Job(0, 0, k, first, report_fields=frozenset()) for k in range(100)]
    batched, compiled = (Batched(module, samples, task.training, compiled=c) for c in (False, True))

    def seconds(train_all: Callable[[], object]) -> float:
        start = time.perf_counter()
        train_all()
        return time.perf_counter() - start

    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: [task.train(job) for job in jobs],
        "batched": lambda: batched.train_many(jobs),
        "compiled": lambda: compiled.train_many(jobs),
    }
    warm = {name: seconds(way) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(9):
        for name, way in ways.items():
            times[name].append(seconds(way))
    middle = {name: median(found) for name, found in times.items()}
    saved = middle["plain"] - middle["compiled"]
    return {
        **{f"{name}_ms": value * 1e3 for name, value in middle.items()},
        "compile_s": warm["compiled"] - middle["compiled"],
        "rounds_until_compiling_beats_plain": warm["compiled"] / saved if saved > 0 else -1,
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "resnet18": resnet18,
    "rounds": rounds,
    "models": models,
    "compile": compiling,
}


def measure(name: str) -> dict[str, Any]:
    """One of them, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {"measured": name, **found}


if __name__ == "__main__":
    print(json.dumps({key: round(value, 1) for key, value in PARTS[sys.argv[1]]().items()}))
