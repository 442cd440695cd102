"""An open population gives the same bits as a closed one, but for components that use the number of clients."""

import numpy as np
import pytest

from fedparity import (
    ESTIMATORS,
    MEMORIES,
    SCHEDULERS,
    SURROGATES,
    UTILITIES,
    WEIGHTINGS,
    ConfigError,
    Coordinator,
    InProcess,
    Ledger,
    Trace,
    stream,
)
from fedparity.core.journal import Journal
from fedparity.core.loop import run
from fedparity.engines import Intermittent
from fedparity.tasks import Quadratic
from fitting import partners

FOUNDERS, EVERYBODY, JOIN, ROUNDS = 6, 12, 8, 16
TASK = Quadratic.random(EVERYBODY, dim=3)
USES_N = {
    "estimator": {"forecast"},
    "scheduler": {
        "parity_deployment", "with_company",
        "population", "rollout", "deficit", "deficit:due=missed", "fairfedcs", "with_floor",
        "with_floor:inner=uniform,floor=.7,window=9", "with_quota:inner=uniform,quota=1,window=6",
    },
    "weighting": {
        "aaggff", "availability_adjusted:form=ht", "agnostic", "all", "cafed", "f3ast", "fedau", "fedlaavg", "fedstale",
        "fedvarp", "ipw:form=ht", "memory_mean",
    },
}  # fmt: skip
"""What speaks of N in its own equation: a share of all clients, a mean over all of them, a quota of all slots.
Or asks who is new, as what must hold against clients that register anew does."""
LEFT_OUT = {"fixed", "fedgs", "with_label_coverage"}  # given its cohorts, or everybody's labels
TABLES = {
    "estimator": ESTIMATORS,
    "scheduler": SCHEDULERS,
    "weighting": WEIGHTINGS,
    "utility": UTILITIES,
    "surrogate": SURROGATES,
    "memory": MEMORIES,
}
CASES = sorted(
    {(kind, name) for kind, table in TABLES.items() for name in table if name not in LEFT_OUT}
    | {(kind, text) for kind, texts in USES_N.items() for text in texts}
    | {("scheduler", "parity:target=utility"), ("scheduler", "deficit:due=opportunity")}
)


def a_trace():
    rng, everybody = stream(0, "open"), np.arange(EVERYBODY)
    there = [rng.random(EVERYBODY) < 0.7 for _ in range(ROUNDS)]
    return Trace.from_rounds(
        EVERYBODY, [everybody[row & ((t >= JOIN) | (everybody < FOUNDERS))] for t, row in enumerate(there)]
    )


class Registering(Intermittent):
    """Says only of those who have registered that they exist."""

    now = 0

    @property
    def num_clients(self):
        return EVERYBODY if Registering.now >= JOIN else FOUNDERS

    def __post_init__(self):
        Registering.now = 0

    def available(self, round):
        Registering.now = round
        return super().available(round)


def carried_out(engine_class, coordinator):
    engine, journal = engine_class(InProcess(TASK), a_trace()), Journal()
    state = run(coordinator, engine, ROUNDS, params=np.zeros(3), observers=[journal])
    return state, journal.lines()


def without_joining(line):
    return line.replace('"joined":[6,7,8,9,10,11],', "")


def both(kind, name):
    def made():
        # The forecast learns from all registered; chances of being asked are journalled: any difference shows.
        more = {"scheduler": "inverse"} if kind == "estimator" else {"estimator": "mean"}
        return Coordinator(3, min_reports=0, **(more | partners(kind, name)))

    return carried_out(Intermittent, made()), carried_out(Registering, made())


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_open_is_closed_unless_the_number_of_clients_is_part_of_the_rule(kind, name):
    (closed, lines), (opened, told) = both(kind, name)
    assert [t for t, line in enumerate(told) if '"joined"' in line] == [JOIN]
    same = lines == [without_joining(line) for line in told]
    uses = any(text in USES_N.get(part, ()) for part, text in partners(kind, name).items())
    assert same == (not uses)
    assert np.isfinite(opened.params).all()
    assert opened.ledger.num_clients == EVERYBODY
    assert (opened.ledger.online.tobytes() == closed.ledger.online.tobytes()) is True


def test_the_ledger_is_rebuilt_from_the_journal_by_the_first_or_the_last_number_of_clients():
    from fedparity.core.journal import from_json

    _, (state, lines) = both("scheduler", "parity")
    assert state.ledger.since.tolist() == [0] * FOUNDERS + [JOIN] * 6
    records = [from_json(line) for line in lines]
    assert Ledger.replay(FOUNDERS, records) == Ledger.replay(EVERYBODY, records) == state.ledger


@pytest.mark.parametrize("name", ["fedgs", "with_label_coverage:inner=uniform"])
def test_labels_of_those_who_register_later_are_not_known(name):
    known = np.eye(FOUNDERS, 4, dtype=np.int64) + 1
    coordinator = Coordinator(3, scheduler=name, min_reports=0, labels=known)
    state, _ = carried_out(Registering, coordinator)
    assert state.ledger.num_clients == EVERYBODY
    assert state.ledger.selected[FOUNDERS:].sum() > 0
    with pytest.raises(ConfigError, match="give one row per client"):
        coordinator.init(EVERYBODY, np.zeros(3))


def test_shares_stay_shares():
    for name, kept in (("agnostic", lambda s: s.lam.sum()), ("f3ast", lambda s: s.r.mean() * EVERYBODY)):
        rule = WEIGHTINGS.build(name)
        assert kept(rule.grow(rule.init(FOUNDERS), EVERYBODY)) == pytest.approx(1)
