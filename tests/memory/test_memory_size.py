"""How much memory a memory takes: 100 clients of a ResNet-18 (11,173,962 numbers) are 4.5 GB, mostly on disk."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BOOKKEEPING = """
import json, os, resource, sys, threading, time
import numpy as np
from fedparity import MEMORIES, WEIGHTINGS, ClientReport, Ledger, Rows
from fedparity.core.rows import combine

N, D, m = 100, 11_173_962, 5
memory, weighting = MEMORIES.build("last_updates:own=replace"), WEIGHTINGS.build("memory_mean")
state, ledger = memory.init(N), Ledger.empty(N)
base = np.random.default_rng(0).normal(size=D).astype(np.float32)
params = np.zeros(D, np.float32)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

peak, over = 0, threading.Event()
def watch():
    global peak
    while not over.wait(0.01):
        peak = max(peak, resident())

start = resident()
threading.Thread(target=watch, daemon=True).start()
for t in range(N // m + 1):
    ids = np.arange(t * m, t * m + m) % N
    deltas = [base * np.float32(k + 1 + t) for k in ids.tolist()]
    fresh = Rows(ids, deltas, ids * 0, np.ones(m), np.ones(m), np.ones(m))
    rows, state = memory.complete(state, t, fresh, params, ledger)
    weights, _ = weighting.weigh(None, rows, ledger)
    step = None
    if t >= N // m - 1:  # the sum over everybody, twice
        step = combine(weights, rows.deltas, D)
    state = memory.remember(state, [ClientReport(int(k), d) for k, d in zip(ids, deltas)])
    ledger.last_completed[ids] = t
    ledger.rounds += 1
    count = len(rows.clients)
    del fresh, rows, deltas
over.set()
made = {k: k + 1 + (k // m if k >= m else N // m) for k in range(N)}
assert count == N
assert np.allclose(step[:1000], sum(made.values()) / N * base[:1000].astype(float), rtol=1e-5)
print(json.dumps({"peak": peak - start, "rows": sum(v.nbytes for v in state.kept.values())}))
"""


def test_mifa_for_a_hundred_clients_of_a_resnet_18_fits_in_a_gigabyte_and_a_half():
    done = subprocess.run([sys.executable, "-c", BOOKKEEPING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 100 * 11_173_962 * 4
    assert found["peak"] < 1.5e9, found
