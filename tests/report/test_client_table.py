"""Every client of a run on its page: the numbers of the run, a page that stays small, names that stay text."""

import dataclasses
import json
import re

import numpy as np
import pytest
from test_report import fabricated

from fedparity.report import clients, svg
from injections import STRINGS, check_page

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def run():
    return fabricated(40, 30, ["uniform", "parity"], 2)


def test_the_data_are_the_run_s_own_numbers(run):
    found = clients.all_clients(run)
    data = json.loads(found.data)
    ids = [int(name) for name in data["names"]]
    counts = run.trace.counts()
    there = [k for k in ids if counts[k]]
    assert ids[: len(there)] == sorted(there, key=lambda k: (counts[k], k))
    assert [column["values"] for column in data["columns"]] == [counts[ids].tolist(), run.limit.counts[ids].tolist()]
    asked, accuracy, utility, in_vain = data["kinds"]
    for place, method in enumerate(run.methods):
        runs = run.of(method)
        assert asked["columns"][place]["head"] == method
        selected = np.mean([one.ledger.selected for one in runs], axis=0)
        failed = selected - np.mean([one.ledger.completed for one in runs], axis=0)
        assert asked["columns"][place]["values"] == np.round(selected[ids], 1).tolist()
        assert in_vain["columns"][place]["values"] == np.round(failed[ids], 1).tolist()
        exact = 100 * np.mean([one.accuracy for one in runs], axis=0)[ids]
        assert accuracy["columns"][place]["values"] == pytest.approx(exact, abs=0.0501)
        known = [value for value in utility["columns"][place]["values"] if value is not None]
        assert len(known) == (counts > 0).sum()
    assert len(found.rows) == clients.FIRST
    assert [row[0] for row in found.rows] == data["names"][: clients.FIRST]


def test_of_very_many_clients_some_of_every_rank_are_held_and_that_is_said():
    from fedparity.report import render

    run = fabricated(12_000, 20, ["uniform", "parity"], 1, cohort=60)
    text = render(run)
    assert len(text.encode()) < 1_000_000
    assert "10,000 of 12,000 clients, evenly by rank of availability" in text
    assert "The first 25 of 10,000; where scripts run" in text
    (data,) = re.findall(r'id="clients-data">(.*?)</script>', text, flags=re.DOTALL)
    online = [value for value in json.loads(data)["columns"][0]["values"] if value]
    assert len(json.loads(data)["names"]) == clients.MOST
    assert online == sorted(online)


def test_2000_names_come_out_inert_on_the_report():
    from fedparity.report import render

    run = fabricated(len(STRINGS), 8, ["uniform", "parity"], 1, cohort=50)
    names = tuple(STRINGS)
    named = dataclasses.replace(run, trace=dataclasses.replace(run.trace, names=names))
    assert sorted(check_page(render(named))) == sorted(map(svg.printable, names))


def test_a_run_without_a_round_has_no_table():
    run = fabricated(5, 3, ["uniform"], 1)
    assert clients.all_clients(dataclasses.replace(run, runs=[])) is None
