"""The picture that a report opens with, and the two sentences above it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from fedparity import Run, Spec, execute
from fedparity.experiment.spec_file import parse
from fedparity.experiment.starters import read_starter
from fedparity.metrics import tenths
from fedparity.report.reach import reach
from fedparity.report.verdict import story, sure, verdict


@pytest.fixture(scope="module")
def run() -> Run:
    people = {"clients": 20, "availability": "label_skewed:p_min=.05"}
    return execute(
        Spec(methods=["uniform", "parity"], rounds=30, cohort=3, population=people, data={"set": "logistic"}, seeds=2)
    )


def test_tenths_are_of_equal_size_and_the_rarest_come_first() -> None:
    groups = tenths([5, 0, 3, 9, *range(10, 26)])
    assert [len(ids) for ids in groups] == [2] * 10
    assert groups[0].tolist() == [1, 2]
    assert [ids.tolist() for ids in tenths([3, 1])] == [[1], [0]]


def test_the_picture_shows_what_each_tenth_got(run: Run) -> None:
    found = reach(run)
    assert found is not None
    assert found.accuracies
    counts = run.trace.counts()
    groups = tenths(counts)
    assert [int(text.split("\u202f")[0]) for text in found.online] == [
        round(100 * counts[ids].mean() / 30) for ids in groups
    ]
    for name, _, cells in found.rows:
        ledgers = [one.ledger for one in run.of(name)]
        asked = np.mean([ledger.selected for ledger in ledgers], axis=0)
        assert [float(cell.asked) for cell in cells] == pytest.approx([asked[ids].mean() for ids in groups], abs=0.051)
        late = np.mean([one.late_by_availability for one in run.of(name)], axis=0)
        assert [int(cell.accuracy) for cell in cells] == np.round(100 * late).astype(int).tolist()


def test_without_accuracies_the_picture_shows_requests_and_there_is_no_story() -> None:
    spec = Spec(methods=["uniform", "parity"], rounds=5, cohort=2, population={"clients": 6, "availability": "always"})
    run = execute(spec.model_copy(update={"data": spec.data.model_copy(update={"set": "quadratic"})}))
    found = reach(run)
    assert found is not None
    assert not found.accuracies
    assert story(run) == ""
    assert verdict(run).share


def test_the_story_names_whom_and_its_figures_are_the_table_s(run: Run) -> None:
    told = story(run).replace("\u202f", " ")
    assert told.count(". ") == 1, "two sentences"
    for key in ("late_accuracy", "late_worst_accuracy"):
        for name in run.methods:
            assert f"{100 * run.table.mean(key, name):.0f} %" in told
    assert re.search(r"With uniform the worst-off tenth by availability, online in \d+ % of the rounds, ends at", told)
    assert "avoidable Gini (inequality in who was asked" in sure(run.table), "the word is explained where it is used"


def test_one_method_has_no_story(run: Run) -> None:
    alone = replace(run, spec=run.spec.model_copy(update={"methods": run.spec.methods[:1]}))
    assert story(alone) == ""


def test_no_two_of_nine_methods_share_a_colour() -> None:
    from importlib.resources import files

    css = files("fedparity.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--s(\d): (#[0-9a-f]{6})", part)) for part in css.split("prefers-color-scheme: dark")[:2]
    ]
    for colours in schemes:
        assert len(colours) == 9
        rgb = [np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in colours.values()]
        apart = [np.abs(a - b).sum() for i, a in enumerate(rgb) for b in rgb[:i]]
        assert min(apart) > 60


@pytest.mark.slow
def test_the_demo_shows_what_it_promises() -> None:
    """When availability tells the data: the whole system far above uniform and MIFA, and nobody is left out."""
    pytest.importorskip("torch")
    table = execute(parse(read_starter("demo"), "demo", ["seeds=1"])).table
    mean, worst = (
        {name: table.mean(key, name) for name in table.methods} for key in ("late_accuracy", "late_worst_accuracy")
    )
    for name in ("cup", "cup_light"):
        assert mean[name] >= mean["uniform"] + 0.15
        assert mean[name] >= mean["mifa"] + 0.05
        assert worst[name] >= worst["uniform"] + 0.25
        assert table.mean("never_served", name) == 0
        assert table.mean("gini_avoidable", name) == pytest.approx(0, abs=0.005)
