"""Attackers gain what the table says: little under the deployment preset, much where nothing holds them."""

import json

import pytest
from typer.testing import CliRunner

from fedparity.cli.main import app
from fedparity.core.errors import ConfigError
from fedparity.core.gate import Gate
from fedparity.testing import ATTACKS, Arena, attack

SMALL = Arena(rounds=250, seeds=1)
HELD = [name for name in ATTACKS if name not in {"duty_cycling", "sybils"}]


@pytest.mark.parametrize("name", HELD)
def test_the_preset_holds(name):
    found = attack(name, SMALL, "parity_deployment", gate=Gate(max_weight=3))
    assert found.share <= 0.11
    assert found.worst_window_share <= 0.135
    assert found.weight_share <= 0.12
    assert found.largest_weight <= 0.3
    assert found.rounds_with_a_third <= 0.01


def test_an_honest_client_that_is_always_there_gets_its_share():
    assert attack("always_on", SMALL, "parity_deployment").share == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    ("name", "scheduler", "share"),
    [("inflated_utility", "oort_code", 0.3), ("re_registration", "least_served", 0.6), ("sleep", "least_served", 0.08)],
)
def test_the_same_attack_succeeds_where_nothing_holds_it(name, scheduler, share):
    assert attack(name, SMALL, scheduler).share > share


def test_a_round_is_captured_where_nothing_holds_it():
    found = attack("synchronised", SMALL, "with_quota:inner=parity:ratio=1.1,spare=fill")
    assert found.rounds_with_a_third > 0.09
    assert found.share < 0.11


def test_the_same_seed_gives_the_same_figures():
    tiny = Arena(rounds=40, seeds=2, window=20)
    assert attack("re_registration", tiny, "parity") == attack("re_registration", tiny, "parity")


def test_more_attackers_than_clients_are_refused():
    with pytest.raises(ConfigError, match="attackers=5 but there are 5 clients"):
        Arena(clients=5, attackers=5)


def test_the_command_prints_json():
    options = ["--attack", "claims,pulsing", "--rounds", "40", "--seeds", "1", "--json"]
    done = CliRunner().invoke(app, ["attack", "--scheduler", "uniform", *options])
    found = json.loads(done.stdout)
    assert (found["scheduler"], found["clients"], found["cohort"], found["attackers"]) == ("uniform", 100, 10, 10)
    assert [one["attack"] for one in found["attacks"]] == ["claims", "pulsing"]
    assert {"share", "share_sd", "worst_window_share", "fair_share"} <= found["attacks"][0].keys()


def test_an_unknown_attack_is_one_line():
    done = CliRunner().invoke(app, ["attack", "--attack", "slep"])
    assert isinstance(done.exception, ConfigError)
    assert "sleep" in str(done.exception)
