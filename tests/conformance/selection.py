"""What the conformance suites of schedulers share: the table with variants, plausible views, states with a past."""

import numpy as np

from fedparity import SCHEDULERS, ClientReport, Ledger, stream
from fedparity.core.protocols import Feedback, Learner
from fedparity.core.types import RoundRecord, RoundView, SurrogateCredit
from fedparity.schedulers import Fixed

VARIANTS = [
    *SCHEDULERS,
    "inverse:replace=true",
    "reactive:draw=sample",
    "reactive:missed=since_selected",
    "reactive:missed=not_selected,draw=sample",
    "parity:target=opportunity",
    "parity:target=utility",
    "parity:target=utility,ratio=1.1",
    "with_quota:inner=parity:target=utility;alpha=4,quota=2",
    "parity:target=.5",
    "with_quota:inner=parity,quota=1.5,window=7",
    "deficit:due=missed",
    "deficit:due=opportunity",
    "refl:window=10",
    "f3ast:beta=.3",
    "fedgs:alpha=0",
    "fedgs:alpha=10",
    "fairfedcs:queue=share",
    "fairfedcs:offline=freeze,exact=2,orders=3",
    "oort:blacklist=1,exploration=.4,window=1",
    "oort_code:exploration=0,blacklist=2",
    "power_of_choice:variant=cpow,d=5",
    "power_of_choice:variant=rpow",
    "power_of_choice:variant=rpow,d=1",
    "with_quota:inner=oort,quota=1",
    "with_quota:inner=uniform,quota=1,window=5",
    "with_floor:inner=inverse,floor=1,window=3",
    "with_floor:inner=parity:target=opportunity;ratio=2,floor=.8",
    "with_label_coverage:inner=parity",
    "with_quota:inner=with_floor:inner=reactive:draw=sample;;missed=offline;floor=.5,quota=2",
]
N = 12
LABELS = stream(0, "labels").integers(0, 3, (N, 5)) * 4


def a_ledger(seed: int, rounds: int = 9) -> Ledger:
    """A plausible history: some clients never seen, some never selected."""
    rng, ledger = stream(seed, "history"), Ledger.empty(N)
    for t in range(rounds):
        online = np.flatnonzero(rng.random(N) < np.linspace(0.05, 0.95, N))
        record(ledger, t, online, np.sort(rng.permutation(online)[:3]), rng)
    return ledger


def record(ledger, t, online, chosen, rng):
    gain, empty = rng.random(len(chosen)), np.empty(0)
    ledger.record(
        RoundRecord(
            t, online, chosen, np.ones(len(chosen)), "unknown", 0, chosen, gain, gain, (), False,
            chosen, chosen * 0, empty, SurrogateCredit(), "",
        )
    )  # fmt: skip


def a_view(seed: int, available: list[int], cohort: int, left: int | None = 20) -> RoundView:
    return view_of(a_ledger(seed), np.array(available, dtype=np.int64), cohort, left, seed)


def view_of(ledger, ids, cohort, left, seed):
    pi = (ledger.online[ids] + 2) / (ledger.rounds + 3)
    loss = stream(seed, "losses", ledger.rounds).random(N)
    return RoundView(
        ledger.rounds,
        left,
        cohort,
        ids,
        pi,
        None if left is None else pi * left,
        ledger,
        losses=lambda clients, samples: loss[clients] + samples,
        expected=lambda rounds: pi * rounds,
        futures=lambda rounds, samples, rng: rng.random((rounds, samples, N)) < np.linspace(0.05, 0.95, N),
        labels=LABELS,
    )


def a_round(rng, t, clients, ledger):
    """What the clients say after a round; some say nothing of their loss, some of how long they took."""
    reports = [
        ClientReport(
            int(client),
            rng.normal(size=4),
            num_samples=int(rng.integers(1, 50)),
            loss_rms=float(rng.choice([np.nan, rng.random()])),
            duration=float(rng.choice([np.nan, rng.random()])),
        )
        for client in clients
    ]
    return Feedback(t, np.zeros(4), reports, ledger, lambda params: float(((params - 0.3) ** 2).sum()))


def warm(scheduler, seed: int, rounds: int):
    """The state after some rounds of a plausible history."""
    state, rng, ledger = scheduler.init(N), stream(seed, "warm"), Ledger.empty(N)
    for t in range(rounds):
        online = np.flatnonzero(rng.random(N) < np.linspace(0.3, 0.95, N))
        cohort, state = scheduler.select(state, view_of(ledger, online, 3, None, seed), stream(seed, "select", t))
        came = cohort.clients[rng.random(len(cohort.clients)) < 0.8]
        record(ledger, t, online, cohort.clients, rng)
        if isinstance(scheduler, Learner):
            state = scheduler.learn(state, a_round(rng, t, came, ledger))
    return state


def build(name: str):
    return Fixed([np.arange(3)] * 40) if name == "fixed" else SCHEDULERS.build(name)
