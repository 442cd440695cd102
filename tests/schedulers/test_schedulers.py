"""What each policy is for, on cases worked out by hand."""

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    SCHEDULERS,
    ClientReport,
    ConfigError,
    Coordinator,
    Intermittent,
    Ledger,
    NoTraining,
    Trace,
    run,
    stream,
)
from fedparity.core.types import RoundView
from fedparity.schedulers import Parity
from fedparity.schedulers.draws import inclusion_probabilities, lowest, proportional, with_replacement
from fedparity.schedulers.parity import NEARBY, _nearby


def view_of(pi, cohort, *, ledger=None, left=None, round=0):
    pi = np.array(pi, dtype=float)
    ids = np.arange(len(pi))
    ledger = ledger or Ledger.empty(len(pi))
    return RoundView(round, left, cohort, ids, pi, None if left is None else pi * left, ledger)


def selections(name, matrix, cohort, seed=0):
    trace = Trace.from_matrix(matrix)
    coordinator = Coordinator(cohort, seed=seed, scheduler=SCHEDULERS.build(name))
    n = trace.num_clients
    return run(coordinator, Intermittent(NoTraining(n), trace), trace.num_rounds, num_clients=n).ledger.selected


def test_water_filling_caps_at_one_and_sums_to_the_cohort():
    assert inclusion_probabilities(np.array([1.0, 1.0, 2.0]), 2).tolist() == [0.5, 0.5, 1.0]
    assert inclusion_probabilities(np.array([100.0, 1.0, 1.0, 1.0]), 2) == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])


def test_lowest_breaks_ties_by_lot_with_known_chances():
    ids = np.arange(4)
    sure = lowest(ids, np.array([3.0, 1.0, 2.0, 4.0]), 2, stream(0, "x"))
    assert sure.clients.tolist() == [1, 2]
    assert sure.design == "deterministic"
    tied = lowest(ids, np.array([0.0, 1.0, 1.0, 1.0]), 2, stream(0, "x"))
    assert tied.clients[0] == 0
    assert tied.probs.tolist() == [1.0, 1 / 3]
    assert tied.design == "exact"


def test_with_replacement_inclusion_probability():
    cohort = with_replacement(np.arange(2), np.array([3.0, 1.0]), 2, stream(0, "x"))
    assert set(np.round(cohort.probs, 6)) <= {1 - 0.25**2, 1 - 0.75**2}


def test_systematic_draws_stay_fixed_in_size_with_awkward_weights():
    rng = stream(1, "w")
    for i in range(300):
        weights = 10.0 ** rng.uniform(-12, 12, 30)
        assert len(proportional(np.arange(30), weights, 7, stream(i, "x")).clients) == 7


def test_lemma_2_selection_frequencies_at_two_clients():
    """N=2, m=1, pi=(.9,.1): (.819,.091), not (.5,.5)."""
    pi = np.array([0.9, 0.1])
    online = stream(0, "a").random((60_000, 2)) < pi
    inverse, hits = SCHEDULERS.build("inverse"), np.zeros(2)
    for t, row in enumerate(online):
        ids = np.flatnonzero(row)
        view = RoundView(t, None, 1, ids, pi[ids], None, Ledger.empty(2))
        hits[inverse.select(None, view, stream(t, "s"))[0].clients] += 1
    assert hits / len(online) == pytest.approx([0.819, 0.091], abs=0.005)


def test_reactive_weights_by_hand():
    """Theorem 2: alpha / (pi + eps) * (1 + lam * missed), in all three readings of missed."""
    ledger = Ledger.empty(3)
    ledger.rounds = 10
    ledger.online[:] = [9, 5, 1]
    ledger.selected[:] = [4, 0, 1]
    ledger.last_selected[:] = [9, -1, 2]
    view = view_of([0.9, 0.5, 0.1], 1, ledger=ledger, round=10)
    rules = {m: SCHEDULERS.build(f"reactive:missed={m}") for m in ("offline", "since_selected", "not_selected")}
    assert rules["offline"].missed_rounds(view).tolist() == [1, 5, 9]
    assert rules["since_selected"].missed_rounds(view).tolist() == [1, 10, 8]
    assert rules["not_selected"].missed_rounds(view).tolist() == [6, 10, 9]
    assert rules["offline"].select(None, view, stream(0, "x"))[0].clients.tolist() == [2]
    weight = 1 / (np.array([0.9, 0.5, 0.1]) + 1e-3) * (1 + 0.7 * np.array([1, 5, 9]))
    sample = SCHEDULERS.build("reactive:draw=sample").select(None, view, stream(0, "x"))[0]
    assert sample.probs[0] == pytest.approx((weight / weight.sum())[sample.clients[0]])


def test_reactive_alpha_per_client():
    view = view_of([0.5, 0.5, 0.5], 1)
    assert SCHEDULERS.build("reactive:alpha=1/1/9").select(None, view, stream(0, "x"))[0].clients.tolist() == [2]
    with pytest.raises(ConfigError, match="alpha has 3 numbers but there are 4 clients"):
        SCHEDULERS.build("reactive:alpha=1/1/9").init(4)


def test_literal_rule_never_lets_go_of_a_client():
    """With missed=offline and top-K a score never falls when its client is chosen: always-on clients starve."""
    matrix = np.ones((40, 6), bool)
    matrix[::2, :3] = False
    counts = selections("reactive", matrix, 2)
    assert counts[3:].sum() == 20 * 2
    assert len(set(counts[:3].tolist())) > 1
    assert np.ptp(selections("parity", matrix, 2)) <= 1


def test_round_robin_goes_round():
    assert selections("round_robin", np.ones((6, 4), bool), 2).tolist() == [3, 3, 3, 3]
    everyone, scheduler = np.arange(5), SCHEDULERS.build("round_robin")
    first, state = scheduler.select(
        0, RoundView(0, None, 3, everyone, everyone * 0.1, None, Ledger.empty(5)), stream(0, "x")
    )
    then, state = scheduler.select(
        state, RoundView(1, None, 3, everyone, everyone * 0.1, None, Ledger.empty(5)), stream(0, "x")
    )
    assert (first.clients.tolist(), then.clients.tolist(), state) == ([0, 1, 2], [0, 3, 4], 1)


def test_least_served_prefers_the_rarer_of_equals():
    view = view_of([0.9, 0.2, 0.5], 1)
    assert SCHEDULERS.build("least_served").select(None, view, stream(0, "x"))[0].clients.tolist() == [1]


def test_population_wastes_slots_on_the_absent():
    matrix = np.zeros((200, 10), bool)
    matrix[:, :5] = True
    counts = selections("population", matrix, 4)
    assert counts[5:].sum() == 0
    assert counts.sum() == pytest.approx(200 * 4 / 2, rel=0.1)


def test_parity_asks_first_who_will_seldom_be_back():
    """Equal so far: the rare client now, since the other will be there again; late in the run it no longer matters."""
    early = view_of([0.9, 0.1], 1, left=50)
    parity = SCHEDULERS.build("parity")
    assert parity.select(parity.init(2), early, stream(0, "x"))[0].clients.tolist() == [1]
    ledger = Ledger.empty(2)
    ledger.selected[:] = [0, 2]
    last = view_of([0.9, 0.1], 1, ledger=ledger, left=0)
    assert parity.select(parity.init(2), last, stream(0, "x"))[0].clients.tolist() == [0]


def test_parity_opportunity_and_exponent_agree_where_they_should():
    matrix = stream(0, "m").random((60, 20)) < 0.5
    assert np.array_equal(selections("parity:target=opportunity", matrix, 4), selections("parity:target=1", matrix, 4))
    assert np.array_equal(selections("parity:target=share", matrix, 4), selections("parity:target=0", matrix, 4))


def test_parity_ratio_bounds_what_a_report_can_do():
    """A client that reports next to no gain cannot win slots by it; with a ratio it cannot lose many, either."""
    gains = np.ones(20)
    gains[0] = 1e-9
    trace = AVAILABILITY.build("always").draw(20, 400, 0)
    counts = {}
    for name in ("parity:target=utility,ratio=1.21", "parity:target=utility"):
        coordinator = Coordinator(4, scheduler=SCHEDULERS.build(name))
        counts[name] = run(coordinator, Intermittent(NoTraining(20, gains), trace), 400, num_clients=20).ledger.selected
    fair = 400 * 4 / 20
    assert counts["parity:target=utility,ratio=1.21"][0] <= 1.1 * fair + 2
    assert counts["parity:target=utility,ratio=1.21"][0] >= fair / 1.1 - 2
    assert counts["parity:target=utility"][0] <= fair


def utility_of(text, engine, rounds, clients, cohort=2):
    coordinator = Coordinator(cohort, scheduler=SCHEDULERS.build(text), min_reports=0)
    return run(coordinator, engine, rounds, num_clients=clients).ledger.selected


def test_parity_by_utility_is_by_opportunity_where_nothing_is_credited():
    """Unknown is not zero: clients that report no loss share the slots as if all gains were alike."""
    matrix = stream(3, "m").random((60, 20)) < np.linspace(0.2, 1, 20)
    assert np.array_equal(
        selections("parity:target=utility", matrix, 4), selections("parity:target=opportunity", matrix, 4)
    )
    assert utility_of("parity:target=utility", NoTraining(6), 30, 6).tolist() == [10] * 6


class Failing(NoTraining):
    """The first clients answer that they could not do it."""

    def train(self, plan):
        for report in super().train(plan):
            yield ClientReport(report.client, failure="no") if report.client < 3 else report


def test_who_only_fails_gets_no_more_than_a_fair_share():
    counts = utility_of("parity:target=utility", Failing(12, np.ones(12), 0.3), 120, 12)
    assert counts[:3].sum() <= 0.3 * counts.sum()


@pytest.mark.parametrize(("ratio", "kinds"), [(100, {0, 1}), (1, {0})])
def test_a_cohort_by_utility_has_clients_of_several_kinds_of_loss(ratio, kinds):
    """The four furthest behind lose alike; two of them make room for others, unless reports count for nothing."""
    parity = SCHEDULERS.build(f"parity:target=utility,ratio={ratio}")
    state, ledger = parity.init(12), Ledger.empty(12)
    ledger.rounds, ledger.online[:] = 8, 8
    ledger.selected[:] = np.repeat([1, 2, 8], 4)
    ledger.utility[:] = state.gains.taken[:] = ledger.selected
    state.gains.times[:] = state.gains.relative[:] = ledger.selected
    state.gains.loss[:] = np.repeat([1.0, 2.0, 1.0], 4)
    state.gains.recent.add(np.ones(1), 1.0)
    view = view_of([1.0] * 12, 4, ledger=ledger, left=1000, round=8)
    chosen = parity.select(state, view, stream(0, "x"))[0].clients
    assert len(chosen) == 4
    assert set((chosen // 4).tolist()) == kinds


@pytest.mark.parametrize(("rare_lose", "spread"), [(1.0, False), (1.2, True)])
def test_utility_spreads_turns_where_availability_tells_the_data(rare_lose, spread):
    """Clients that were there as often and asked as often are equals, unless who is rare is seen to fare worse."""
    parity = SCHEDULERS.build("parity:target=utility")
    state = parity.init(6)
    state.gains.lately.add(np.ones(1), 1.0)
    state.gains.evenly.add(np.full(1, rare_lose), 1.0)
    behind = parity._ends_up_with(state, view_of([0.5] * 6, 2, left=100))
    assert (len(set(behind.tolist())) == 6) is spread
    assert np.ptp(behind) < 0.5


def test_what_those_that_are_there_give_up_must_even_out_something():
    """Few who are nearly always away make up the spread of 1 / pi, whatever the others do."""
    ledger = Ledger.empty(100)
    ledger.rounds, ledger.online[:] = 200, np.linspace(40, 200, 100)
    assert _nearby(ledger) > NEARBY[1]
    ledger.online[:20] = 2
    assert _nearby(ledger) < NEARBY[0]


def test_marginal_welfare_by_hand():
    """Equal pi, no outlook: g x^-alpha, x = (u + c g) / pi, in a band that is wide enough here."""
    parity = SCHEDULERS.build("parity:target=utility,ratio=1000000")
    state, ledger = parity.init(4), Ledger.empty(4)
    ledger.rounds, ledger.loss[:] = 8, 1.0
    ledger.online[:], ledger.selected[:] = 8, 2
    ledger.utility[:] = [1.0, 2.0, 4.0, 8.0]
    state.gains.taken[:] = ledger.utility
    state.gains.times[:], state.gains.relative[:] = 2, [1, 1, 1, 5]
    state.gains.recent.add(np.array([0.5, 0.5]), 1.0)
    state.gains.number = 8
    view = view_of([1.0] * 4, 1, ledger=ledger, left=0, round=8)
    # Nothing is explained by the client: all gains are expected alike, and the least u comes first.
    assert parity.select(state, view, stream(0, "x"))[0].clients.tolist() == [0]
    # Sums of squares that only clients explain: e is 1, capped at 2/3, rho = (1/3 + 2/3 sum) / (1/3 + 2/3 2).
    gains = state.gains
    gains.number, gains.sum, gains.imbalance = 40, 40.0, 400.0
    gains.squares = gains.between = 100.0
    assert gains.explained() == pytest.approx(1.0)
    assert gains.expected(np.arange(4))[1] == pytest.approx([0.6, 0.6, 0.6, 2.2])
    assert gains.own() == 1.0


def test_the_rate_is_a_mean_over_rounds():
    """A thin round does not turn the order of two clients around."""
    parity = SCHEDULERS.build("parity")
    state = parity.init(40)
    for t in range(10):
        _, state = parity.select(state, view_of([0.5] * 40, 2, left=9 - t, round=t), stream(t, "x"))
    assert state.rate == pytest.approx(0.05)


def test_parity_quota_holds_in_every_window():
    rng = stream(0, "m")
    matrix = rng.random((120, 10)) < np.array([0.02] * 8 + [1, 1])
    trace = Trace.from_matrix(matrix)
    chosen = np.zeros((120, 10), int)

    class Watch:
        def on_round(self, method, record, ledger, params):
            chosen[record.round, record.selected] = 1

    coordinator = Coordinator(2, scheduler=SCHEDULERS.build("with_quota:inner=parity,quota=1.5,window=20"))
    run(coordinator, Intermittent(NoTraining(10), trace), 120, num_clients=10, observers=[Watch()])
    windows = np.array([chosen[i : i + 20].sum(0).max() for i in range(101)])
    assert windows.max() == 6  # 1.5 x the fair share of 2 * 20 / 10
    assert chosen.sum() < np.minimum(matrix.sum(1), 2).sum()


def test_spare_slots_go_to_those_over_quota_only_when_nobody_else_is_there():
    matrix = np.zeros((40, 6), bool)
    matrix[:, :2] = True
    matrix[::2, 2:] = True
    counts = {
        spare: selections(f"with_quota:inner=parity,quota=1,window=6,spare={spare}", matrix, 2)
        for spare in ("empty", "fill")
    }
    assert counts["fill"].sum() == 80
    assert counts["empty"].sum() < 80
    assert np.ptp(counts["fill"][2:]) <= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parity:target=fast", "parity:target='fast' must be share or opportunity or utility or a number"),
        ("parity:target=-1", "target=-1.0 must be between 0 and 4"),
        ("with_quota:quota=.5", "quota=0.5 must be between 1"),
        ("with_quota:window=0", "window=0 must be a whole number of at least 1"),
        ("parity:ratio=nan", "must be a finite number"),
        ("reactive:lam=-1", "lam=-1.0 must be a finite number of at least 0"),
        ("reactive:eps=-1", "eps=-1.0 must be a finite number of at least 0"),
        ("reactive:missed=x", "offline or since_selected or not_selected"),
        ("inverse:replce=true", "did you mean 'replace'"),
        ("unifrm", "did you mean 'uniform'"),
        ("fixed:schedule=1", "unknown key 'schedule'"),
    ],
)
def test_bad_parameters_are_named(text, message):
    with pytest.raises(ConfigError, match=".*".join(message.split("(")[0].split("|"))):
        SCHEDULERS.build(text)


def test_a_target_is_known_by_its_name_in_python_too():
    with pytest.raises(ConfigError, match="target='fast' must be one of share, opportunity, utility"):
        Parity(target="fast")
