"""Claims: each has the verdict that it should, and another one when its rule is broken."""

import json
import math
from pathlib import Path

import pytest

from fedparity.core.errors import ConfigError
from fedparity.paper.claims import CLAIMS, chosen, examine
from fedparity.paper.claims.claim import Estimate, plain
from fedparity.paper.claims.html import claims_page

FLASH = Path(__file__).parents[3] / "shared/data/traces/flash_000_099_events.json.gz"
needs_flash = pytest.mark.skipif(not FLASH.exists(), reason=f"{FLASH} is not here")
POPULATION = {"draws": 1, "clients": 40, "rounds": 60}
SMALL = {
    "lemma-1": {"draws": 60, "horizons": (100, 10_000)},
    "lemma-2": {"draws": 400},
    "lemma-3": {"draws": 300},
    "theorem-1": {"draws": 4, "rounds": 500},
    "theorem-2": {},
    "theorem-3": {"draws": 300},
    "appendix-a": {"draws": 500},
    "appendix-b": {"draws": 4, "rounds": 300},
    "appendix-c": {"draws": 1_000},
    "appendix-d": {"draws": 100},
    "appendix-e": {"draws": 300},
    "identity-jain-cv": {"draws": 50},
    "gini-gap": {"rounds": 4},
    "physical-limit": {"cases": 120, "larger": 10},
    "two-targets": {"draws": 1, "rounds": 30},
    "exact-targets": {"draws": 3, "rounds": 1_000},
    "adjusted-objective": {"rates": (0.1, 0.4, 0.9)},
    "irreducibility": {"horizons": (2, 8)},
    "participation-balance": POPULATION,
    "drift": {"draws": 5},
    "correlated-dropout": {"draws": 3},
    "bursty-availability": POPULATION,
    "adversarial-availability": POPULATION | {"hiding_draws": 1, "hiding_rounds": 200},
    "table-numbers": {"draws": 3},
    "table-2-utility": {"draws": 10},
    "trace-statistics": {},
    "sizes": {},
}
"""Sizes at which every verdict is still the one of the full experiment."""
FADED = tuple(22.99 * math.exp(-t / 2) for t in range(20))
FITTING = (("a row that can be", (0.19, 0.965, 0.08, 0.05)),)
BROKEN = [
    ("lemma-1", {"low": 1.0, "noise": 0.0}, "holds", True),  # nothing is random
    ("lemma-1", {"power": 1.0}, "fails", False),
    ("lemma-2", {"rates": (1.0, 1.0)}, "holds", True),
    ("lemma-2", {"low": 1e-3}, "fails", False),  # availability not bounded below
    ("lemma-3", {"least_weight": -1.0}, "needs-assumption", None),
    ("theorem-1", {"rates": (0.9, 0.1), "clients": 2, "cohort": 1}, "holds", False),  # the case in which it is true
    ("theorem-2", {"populations": ((0.9, 0.5, 0.1),), "eps": 1e-12}, "holds", True),
    ("theorem-2", {"limit_eps": 0.5}, "needs-assumption", False),
    ("theorem-3", {"curvature": -1.0}, "holds", True),
    ("theorem-3", {"reach": 3.0}, "needs-assumption", False),  # gradients that are not L-Lipschitz
    ("appendix-a", {"low": 1.0}, "holds", True),  # everybody always online: both sums are the same
    ("appendix-a", {"clients": 3}, "needs-assumption", False),
    ("appendix-b", {"low": 1.0, "share": 1.0, "noise": 0.0}, "holds", True),
    ("appendix-b", {"sizes": (10, 20)}, "fails", False),
    ("appendix-c", {"constant": 0.1}, "fails", False),
    ("appendix-d", {"rates": (0.5, 0.3, 0.2)}, "holds", True),
    ("appendix-d", {"least_sometimes": 1}, "needs-assumption", False),
    ("appendix-e", {"curvature": -1.0}, "holds", True),
    ("appendix-e", {"lipschitz": 3.0}, "needs-assumption", False),
    ("appendix-e", {"decay_in_bound": 2.0}, "fails", False),
    ("identity-jain-cv", {"degrees": 1}, "fails", None),  # the sample's standard deviation
    ("identity-jain-cv", {"eps": 0.5}, "fails", None),
    ("gini-gap", {"factor": 1.0}, "fails", True),
    ("gini-gap", {"slack": 0.05}, "holds", False),
    ("physical-limit", {"cases": 1, "larger": 0}, "holds", True),  # nobody is ever online
    ("physical-limit", {"shift": 1}, "fails", False),  # a profile that is not the limit
    ("two-targets", {"low": 1.0}, "holds", False),
    ("two-targets", {"aims": ("parity:target=opportunity", "parity:target=share")}, "fails", False),
    ("exact-targets", {"low": 1.0, "spread": 1.0}, "holds", True),
    ("exact-targets", {"power": 0.0}, "fails", False),
    ("adjusted-objective", {"rates": (0.5, 0.5, 0.5)}, "holds", True),
    ("adjusted-objective", {"form": "hajek"}, "needs-assumption", False),
    ("irreducibility", {"remembers": True}, "fails", True),
    ("participation-balance", {"printed": "least_served"}, "holds", True),
    ("participation-balance", {"closed": "uniform"}, "fails", False),
    ("drift", {"low": 1.0, "high": 1.0, "swings": (0.0,)}, "holds", True),
    ("drift", {"constant": 1e-3}, "needs-assumption", False),
    ("correlated-dropout", {"touches": True}, "holds", True),
    ("correlated-dropout", {"rare_online": 0.5}, "fails", False),  # nobody is rarer than others
    ("correlated-dropout", {"mended_by": "together, surrogate"}, "needs-assumption", False),
    ("bursty-availability", {"open_loop": "parity", "near": 2.0}, "fails", True),
    ("bursty-availability", {"closed": "uniform"}, "holds", False),
    ("adversarial-availability", {"hidden": 0.0}, "fails", True),
    ("adversarial-availability", {"closed": "uniform"}, "holds", False),
    ("table-numbers", {"rows": FITTING, "surrogate": FADED}, "holds", True),
    ("table-2-utility", {"rates": (0.5,) * 100}, "holds", True),
    ("table-2-utility", {"jain": 0.8}, "fails", False),
    ("sizes", {"printed_mb": 600.0}, "holds", True),
    ("sizes", {"bytes_per_number": 8}, "fails", False),
]
FILES = [name for name in CLAIMS if name != "trace-statistics"]


def small(name, **settings):
    return CLAIMS[name](**(SMALL[name] | settings))


@pytest.fixture(scope="module")
def results():
    """Every claim, small."""
    return {name: small(name).result() for name in CLAIMS}


def test_every_claim_has_a_test_that_breaks_it():
    assert set(SMALL) == set(CLAIMS)
    assert {name for name, *_ in BROKEN} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_the_verdict_is_the_expected_one(results, name):
    found = results[name].found
    assert (found.as_stated, found.corrected_holds is False) == (CLAIMS[name].expected, False), found.reason
    assert results[name].as_expected
    assert (CLAIMS[name].corrected is None) == (found.corrected_holds is None)


@pytest.mark.parametrize(("name", "settings", "as_stated", "corrected"), BROKEN)
def test_a_broken_rule_is_noticed(name, settings, as_stated, corrected):
    result = small(name, **settings).result()
    assert (result.found.as_stated, result.found.corrected_holds) == (as_stated, corrected), result.found.reason
    assert not result.as_expected


@pytest.mark.parametrize("name", [n for n in FILES if n not in {"correlated-dropout", "adversarial-availability"}])
def test_two_runs_give_the_same_bytes(results, name):
    again = small(name).result()
    assert json.dumps(again.to_json(telemetry=False)) == json.dumps(results[name].to_json(telemetry=False))


KEYS = {
    *("id", "where", "statement", "assumptions", "method", "as_stated", "expected"),
    *("corrected", "corrected_holds", "reason", "command", "evidence", "seconds"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_the_json_has_its_form(results, name):
    row = json.loads(json.dumps(results[name].to_json(), allow_nan=False))
    assert row.keys() == KEYS
    assert row["id"] == name
    assert row["as_stated"] in {"holds", "fails", "needs-assumption", None}
    assert row["corrected_holds"] in {True, False, None}
    assert row["evidence"]
    assert "seconds" not in results[name].to_json(telemetry=False)


def test_the_page_shows_every_claim_with_a_picture(results):
    text = claims_page(list(results.values()))
    assert text.count("<section") == len(CLAIMS)
    assert text.count("<figure") == len(CLAIMS) - 1  # the trace is not there
    assert text.count("<script") == 1  # ours, which sorts tables; allowed by its digest
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


# --- figures that are known from elsewhere


def evidence(results, name):
    return results[name].found.evidence


def test_figures_that_were_worked_out_by_hand(results):
    assert evidence(results, "lemma-2")["selected"] == pytest.approx([0.819, 0.091], abs=1e-12)
    assert evidence(results, "lemma-2")["two_clients_online_only_together_half_of_the_time"] == pytest.approx(
        [0.25] * 2
    )
    assert (evidence(results, "theorem-3")["left"], evidence(results, "theorem-3")["right"]) == (15.0, 1.5)
    assert list(evidence(results, "appendix-d")["limits"]) == [1.0, 0.0, 0.0]
    implied = evidence(results, "identity-jain-cv")["table_2_implied_jain"].values()
    assert [round(value, 3) for value in implied] == [0.709, 0.850, 0.927, 0.965]
    empty = list(evidence(results, "gini-gap")["table_2_least_empty_share"].values())
    assert [round(value, 3) for value in empty[:3]] == [0.357, 0.207, 0.256]
    assert evidence(results, "gini-gap")["gini_forced_by_250_slots_over_100_clients"] == pytest.approx(0.1)
    assert evidence(results, "table-numbers")["accuracies_that_are_multiples_of_one_over"]["640"] == 20
    assert evidence(results, "table-numbers")["rounds_with_a_constant_surrogate"] == 11
    assert evidence(results, "sizes")["megabytes"] == pytest.approx(614.4)
    assert evidence(results, "sizes")["parameters"]["resnet18, 1000 classes"] == 11_689_512
    assert evidence(results, "sizes")["parameters"]["resnet34, 1000 classes"] == 21_797_672
    assert not evidence(results, "correlated-dropout")["utility_surrogate_changes_the_model"]
    together = evidence(results, "correlated-dropout")["lost_by_coming_together"]
    assert together["equal"]["ci95"][0] <= 0 < together["rare"]["mean"]
    assert "as often as everybody else" in results["correlated-dropout"].found.reason


def test_lemma_1_grows_as_its_expectation_says(results):
    found = evidence(results, "lemma-1")
    assert found["variance_over_rounds"][-1] == pytest.approx(found["variance_over_rounds_exact"], rel=0.1)


def test_theorem_1_at_its_full_size():
    found = CLAIMS["theorem-1"](draws=8).examine().evidence
    per_opportunity, share = found["cv_utility_per_opportunity"], found["cv_utility"]
    assert per_opportunity["uniform"]["mean"] == pytest.approx(0.078, abs=0.005)
    assert per_opportunity["inverse"]["mean"] == pytest.approx(0.412, abs=0.023)
    assert share["uniform"]["mean"] == pytest.approx(0.39, abs=0.02)
    assert share["inverse"]["mean"] == pytest.approx(0.09, abs=0.01)


@needs_flash
def test_the_trace_is_what_was_counted():
    result = CLAIMS["trace-statistics"](trace=str(FLASH)).result()
    left, never = result.found.evidence["wifi_left"], result.found.evidence["wifi_never_left"]
    assert (left["below_5pct"], left["below_half"], round(left["mean"], 3)) == (52, 99, 0.098)
    assert (never["below_5pct"], never["below_half"]) == (23, 97)
    limit = result.found.evidence["limit_of_the_replay"]
    assert [round(value, 3) for value in limit.values()] == [0.865, 0.503, 0.436, 0.34]
    assert never["p_value"] == pytest.approx(0.70, abs=0.02)
    assert (result.found.as_stated, result.found.corrected_holds) == ("fails", True)
    assert CLAIMS["trace-statistics"](trace=str(FLASH), printed=0.5).examine().as_stated == "holds"


def test_a_trace_of_which_the_papers_figures_are_true_flips_the_verdict(tmp_path):
    """Of 100 phones 21 charge for ten minutes in a day and 79 for half of it, all on Wi-Fi."""
    day = "2020-01-{:02d} {} \t{}"
    phones = {}
    for k in range(100):
        lines = [day.format(1, "00:00:00", "wifi")]
        for d in (1, 2, 3):
            lines += [
                day.format(d, "06:00:00", "battery_charged_on"),
                day.format(d, "06:10:00" if k < 21 else "18:00:00", "battery_charged_off"),
            ]
        lines.append(day.format(4, "00:00:00", "screen_off"))
        phones[str(k)] = {"guid": str(k), "model": "m", "messages": "\n".join(lines)}
    file = tmp_path / "events.json"
    file.write_text(json.dumps(phones), encoding="utf-8")
    result = CLAIMS["trace-statistics"](trace=str(file), rounds=20).result()
    assert result.found.evidence["wifi_left"]["below_5pct"] == 21
    assert (result.found.as_stated, result.found.corrected_holds) == ("holds", False)
    assert not result.as_expected


def test_a_trace_that_is_not_there_is_said_and_refutes_nothing(results):
    result = results["trace-statistics"]
    assert result.found.as_stated is None
    assert "flash_000_099_events.json.gz" in result.found.reason
    assert result.as_expected


# --- choosing


def test_claims_come_once_and_in_order():
    assert [claim.id for claim in chosen(["sizes", "lemma-1", "sizes"])] == ["lemma-1", "sizes"]
    assert [claim.id for claim in chosen([])] == list(CLAIMS)
    with pytest.raises(ConfigError, match="did you mean 'lemma-2'"):
        chosen(["lema-2"])


def test_one_hears_of_a_claim_before_it_is_examined():
    told = []
    next(examine(chosen(["sizes"]), lambda done, claim: told.append((done, claim.id))))
    assert told == [(0, "sizes")]


def test_an_estimate_of_one_draw_knows_nothing():
    assert Estimate.of([1.0]).low == -math.inf
    assert plain(Estimate.of([1.0]).to_json()) == {"mean": 1.0, "ci95": [None, None]}
