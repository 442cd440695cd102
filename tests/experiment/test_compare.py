"""Runs compared: pairing, every number by hand, cost, files that are the same twice."""

import csv
import dataclasses
import io
import json
import math
import re
from typing import get_args

import numpy as np
import pytest

from fedparity.core.errors import ConfigError
from fedparity.core.ledger import Normaliser
from fedparity.experiment import compare as module
from fedparity.experiment.compare import COMPARED, ComparedRun, Comparison, Contender, compare
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from fedparity.experiment.spec import Spec
from fedparity.experiment.spec_file import parse
from fedparity.metrics import MEASURES, Table, gini, numbers, t_interval
from fedparity.metrics.measures import heading
from fedparity.report.latex import latex_escape, to_latex
from fedparity.report.tradeoff import SIZE, _shared, draw_tradeoff, points

SPEC = """\
version = 2
name = "{name}"
rounds = {rounds}
seeds = {seeds}
cohort = 2
[population]
clients = 8
availability = "bernoulli:low=.3,high=.9"
speed = "lognormal"
[data]
set = "{dataset}"
[training]
epochs = 3
{methods}
"""


def spec_of(*methods, name="one", rounds=6, seeds=3, dataset="logistic"):
    listed = "".join(f"[[methods]]\n{m}\n" if "\n" in m else f'[[methods]]\nname = "{m}"\n' for m in methods)
    return parse(SPEC.format(name=name, rounds=rounds, seeds=seeds, dataset=dataset, methods=listed), "test")


def run(folder, *methods, **more):
    spec = spec_of(*methods, **more)
    with open_store(folder, spec) as store:
        return execute(spec, store=store)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    results = run(folder / "a", "uniform", "cup_authors", "parity")
    return results, folder / "a"


@pytest.fixture(scope="module")
def found(pair):
    return compare([ComparedRun.of(pair[1])])


def test_means_deviations_and_differences_by_hand(pair, found):
    results, _ = pair
    for key in COMPARED:
        for name in results.methods:
            stat = found.stats[key][name]
            runs = results.of(name)
            if key == "variance_percent2":
                values = [np.var(100 * run.accuracy) for run in runs]
            elif key == "gini":
                values = [gini(run.ledger.selected) for run in runs]
            else:
                values = [numbers(results.outcome(run))[key] for run in runs]
            assert stat.mean == pytest.approx(np.mean(values)), (key, name)
            assert stat.sd == pytest.approx(np.std(values))
            assert stat.n == 3
    for name in ("cup_authors", "parity"):
        a, b = ([run.column("accuracy")[-1] for run in results.of(n)] for n in (name, "uniform"))
        d = np.array(a) - np.array(b)
        stat = found.stats["accuracy"][name]
        assert stat.difference == pytest.approx(d.mean())
        assert (stat.low, stat.high) == t_interval(d)
        assert (stat.p, stat.p_holm, stat.told_apart) == (None, None, False)  # three pairs tell nothing apart
        assert (stat.wins, stat.ties, stat.losses) == ((d > 0).sum(), (d == 0).sum(), (d < 0).sum())
        assert stat.pairs == 3
    own = found.stats["accuracy"]["uniform"]
    assert found.reference == "uniform"
    assert (own.difference, own.low, own.high, own.pairs, own.wins) == (None,) * 5
    for key in COMPARED:
        assert sum(s.rank for s in found.stats[key].values()) == pytest.approx(6)


def test_a_lower_metric_wins_by_being_lower(pair, found):
    results, _ = pair
    stat = found.stats["gini_avoidable"]["parity"]
    values = [[numbers(results.outcome(run))["gini_avoidable"] for run in results.of(n)] for n in ("parity", "uniform")]
    assert stat.wins == sum(a < b for a, b in zip(*values, strict=True))


def test_cost_by_hand(pair, found):
    results, _ = pair
    for name in results.methods:
        cost = found.cost[name]
        asked = np.mean([run.ledger.selected.sum() for run in results.of(name)])
        updates = np.mean([run.ledger.completed.sum() for run in results.of(name)])
        assert (cost.asked, cost.updates, cost.parameters) == (asked, updates, 36)  # (8 features + 1) x 4 classes
        assert cost.megabytes == pytest.approx((asked + updates) * 36 * 4 / 1e6)
        assert cost.local_steps == updates * 3 * 2  # 3 epochs of 32 samples, 16 at a time
        assert cost.seconds == pytest.approx(np.mean([run.column("seconds").sum() for run in results.of(name)]))
    first = next(run for run in results.of("cup_authors") if run.seed == 0)
    assert found.cost["cup_authors"].client_words == 36 * (first.ledger.completed > 0).sum()
    assert found.cost["uniform"].client_words == 0
    assert found.cost["uniform"].server_words < found.cost["parity"].server_words


def test_what_a_run_cannot_tell_is_none(pair):
    short = [dataclasses.replace(one, facts=None) for one in pair[0].runs]
    cost = compare([ComparedRun("killed", dataclasses.replace(pair[0], runs=short))]).cost["parity"]
    told = (cost.parameters, cost.megabytes, cost.server_words, cost.client_words, cost.local_steps)
    assert told == (None,) * 5


def test_a_task_without_accuracy(tmp_path):
    run(tmp_path / "q", "uniform", "parity", dataset="quadratic", seeds=2)
    found = compare([ComparedRun.of(tmp_path / "q")])
    stat = found.stats["accuracy"]["parity"]
    assert (stat.mean, stat.n, stat.difference, stat.rank, stat.pairs) == (None, 0, None, None, 0)
    assert found.cost["parity"].local_steps == found.cost["parity"].updates * 3
    assert found.cost["parity"].parameters == 4
    assert draw_tradeoff(found) == ""
    assert "Accuracy" not in to_latex(found)
    assert "most accurate" not in found.outcome()
    json.dumps(found.to_json(), allow_nan=False)


def test_one_seed_has_no_interval_and_says_so(tmp_path):
    run(tmp_path / "s", "uniform", "parity", seeds=1)
    found = compare([ComparedRun.of(tmp_path / "s")])
    stat = found.stats["gini"]["parity"]
    assert (stat.sd, stat.low, stat.high, stat.n, stat.pairs) == (None, None, None, 1, 1)
    assert found.outcome().endswith("Differences may be chance: to tell 2 methods apart takes 6 seeds or more.")
    assert "\\pm $" not in to_latex(found)
    assert "over 1 seed." in to_latex(found)


# --- pairing


def test_runs_are_joined_and_same_names_told_apart(pair, tmp_path):
    run(tmp_path / "b", "least_served", "uniform", name="two")
    found = compare([ComparedRun.of(pair[1]), ComparedRun.of(tmp_path / "b")])
    assert found.methods == ("one/uniform", "cup_authors", "parity", "least_served", "two/uniform")
    assert found.reference == "one/uniform"
    assert found.stats["gini"]["two/uniform"].difference == 0  # the same method, paired
    run(tmp_path / "c", "uniform", name="one")
    again = compare([ComparedRun.of(pair[1]), ComparedRun.of(tmp_path / "c")])
    assert again.methods == ("a/uniform", "cup_authors", "parity", "c/uniform")
    with pytest.raises(ConfigError, match="is given twice"):
        compare([ComparedRun.of(pair[1]), ComparedRun.of(pair[1])])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"rounds": 7}, "rounds is 6 in the one and 7 in the other; run both with the same"),
        ({"seeds": 2}, "seeds is 3 in the one and 2 in the other"),
        ({"dataset": "quadratic"}, "data.set is 'logistic' in the one and 'quadratic' in the other"),
    ],
)
def test_runs_that_differ_in_more_than_methods_are_refused(pair, tmp_path, more, says):
    run(tmp_path / "b", "least_served", **more)
    with pytest.raises(ConfigError, match=re.escape(says)):
        compare([ComparedRun.of(pair[1]), ComparedRun.of(tmp_path / "b")])


def test_a_trace_that_changed_is_noticed(pair):
    results, _ = pair
    other = execute(spec_of("least_served"))
    moved = type(other)(other.spec, other.trace.head(5), other.runs)
    with pytest.raises(ConfigError, match="their traces differ"):
        compare([ComparedRun("a", results), ComparedRun("b", moved)])
    erased = type(other)(other.spec, other.trace, other.runs, erased=frozenset({1}))
    with pytest.raises(ConfigError, match="erased other clients"):
        compare([ComparedRun("a", results), ComparedRun("b", erased)])


def test_an_unfinished_run_says_how_to_finish_it(tmp_path):
    spec = spec_of("uniform")
    with open_store(tmp_path / "half", spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=lambda: True))
    with pytest.raises(ConfigError, match=r"half is not finished; go on with: fedparity run .*spec.toml --out .*half"):
        ComparedRun.of(tmp_path / "half")


def test_an_unknown_reference_and_nothing_at_all(pair):
    with pytest.raises(ConfigError, match="unknown reference method 'parit'; did you mean 'parity'"):
        compare([ComparedRun.of(pair[1])], "parit")
    assert compare([ComparedRun.of(pair[1])], "parity").reference == "parity"
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare([])


# --- the outcome


def test_the_outcome_names_the_best_and_who_cannot_be_told_from_it(found):
    wobble = np.array([0, 1, -1, 2, -2, 1, -1, 0]) / 100
    made = made_up(found, {"a": 0.1 - 0 * wobble, "b": 0.101 + wobble, "c": 0.5 + wobble})
    assert made.table.leaders("gini_avoidable").all == ("a", "b")
    assert made.outcome() == "Fairest by avoidable Gini: a (not told apart from b); most accurate: c."
    apart = made.stats["accuracy"]
    assert (apart["b"].told_apart, apart["c"].told_apart, apart["a"].told_apart) == (False, True, None)
    assert apart["c"].p == 2**-7
    assert apart["c"].p_holm == 2**-6


def test_the_table_its_note_and_the_outcome_go_by_the_same_test(found):
    wobble = np.array([0, 1, -1, 2, -2, 1, -1, 0]) / 1000
    made = made_up(found, {"a": 0.1 + wobble, "b": 0.2 - wobble, "c": 0.1 - wobble})
    text = to_latex(made)
    stars = [line for line in text.splitlines() if "^{*}" in line]
    assert stars
    assert all(line.strip().startswith("b &") for line in stars)
    assert made.note() in text.replace("\\%", "%")
    assert made.note() == (
        "Differences to a over 8 paired seeds: paired t intervals, 95 %. A star: told apart by the sign-flip test,"
        " p at most .05 after Holm's correction over 2 methods."
    )


def test_five_seeds_have_no_star_and_say_what_it_takes(found):
    clear = np.arange(5) / 1000
    made = made_up(found, {"a": clear, "b": clear + 0.5, "c": clear + 0.8, "d": clear + 0.9})
    assert "^{*}" not in to_latex(made)
    assert made.note().endswith("over 3 methods; fewer than 7 seeds have none.")
    assert made.outcome() == (
        "Fairest by avoidable Gini: a; most accurate: d."
        " Differences may be chance: to tell 4 methods apart takes 8 seeds or more."
    )


def test_oracles_are_limits_not_winners(tmp_path):
    run(tmp_path / "o", "uniform", "oracle", "inverse_oracle", "inverse")
    found = compare([ComparedRun.of(tmp_path / "o")])
    assert found.table.hindsight == {"oracle", "inverse_oracle"}
    assert found.stats["gini_avoidable"]["oracle"].mean == pytest.approx(0)
    assert not {"oracle", "inverse_oracle"} & set(found.table.leaders("gini_avoidable").all)
    assert "(oracles aside)." in found.outcome()


def made_up(found, values):
    """A comparison in which both numbers of the outcome are given."""
    given = {name: np.array(v, dtype=float) for name, v in values.items()}
    table = Table(tuple(values), tuple(range(len(next(iter(given.values()))))), dict.fromkeys(COMPARED, given))
    stats = {key: module._stats(table, key, next(iter(values))) for key in COMPARED}
    return Comparison(found.spec, next(iter(values)), table, stats, {})


# --- files


def test_csv_holds_every_number_exactly(found):
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert list(rows[0])[:5] == ["metric", "method", "mean", "sd", "n"]
    for row in rows:
        if row["metric"] in found.stats:
            stat = found.stats[row["metric"]][row["method"]]
            assert float(row["mean"]) == stat.mean
            assert (float(row["difference"]) if row["difference"] else None) == stat.difference
        else:
            value = getattr(found.cost[row["method"]], row["metric"])
            assert (float(row["mean"]) if row["mean"] else None) == value
            assert row["sd"] == row["n"] == ""
    assert rows[-1]["metric"] == "seconds"


def test_no_cell_of_the_csv_starts_a_formula(found):
    made = made_up(found, {"=cmd|'/c calc'!A0": (0.1, 0.2, 0.3), "@x": (0.1, 0.2, 0.4), "+y": (1.0, 2.0, 3.0)})
    for row in csv.reader(io.StringIO(made.to_csv())):
        assert not row[1].startswith(("=", "+", "-", "@"))


def test_the_same_runs_give_the_same_bytes_but_for_seconds(found, tmp_path):
    run(tmp_path / "a", "uniform", "cup_authors", "parity")
    again = compare([ComparedRun.of(tmp_path / "a")])
    assert to_latex(again) == to_latex(found)
    assert draw_tradeoff(again) == draw_tradeoff(found)
    kept = [[line for line in c.to_csv().splitlines() if not line.startswith("seconds,")] for c in (again, found)]
    assert kept[0] == kept[1]
    told = [c.to_json() for c in (again, found)]
    for one in told:
        for cost in one["cost"].values():
            cost.pop("seconds")
    assert told[0] == told[1]


def test_latex_is_escaped_and_balanced(found):
    hostile = r"a_b%c&d#e$f{g}~h^i\input{/etc/passwd}"
    made = made_up(found, {"plain": (0.1, 0.2, 0.3), hostile: (0.4, 0.5, 0.6)})
    text = to_latex(made)
    assert "\\input" not in text.replace("\\textbackslash{}input", "")
    assert r"a\_b\%c\&d\#e\$f\{g\}\textasciitilde{}h\textasciicircum{}i\textbackslash{}input\{/etc/passwd\}" in text
    bare = re.sub(r"\\[{}%&#$_\\]", "", text)
    assert bare.count("{") == bare.count("}")
    assert all(line.count("&") in (0, 3, 4, 5) for line in re.sub(r"\\&", "", text).splitlines())
    assert latex_escape("a\nb\x1b") == "a?b?"


def test_latex_is_plain_ascii_in_every_measure_and_reading(found):
    """pdflatex stops at a Greek letter in text."""
    for key in MEASURES:
        assert latex_escape(heading(key) + heading(key, narrow=True)).isascii(), key
    for by in get_args(Normaliser):
        assert to_latex(dataclasses.replace(found, normaliser=by)).isascii()
    assert (
        latex_escape('π ≤ "β"') == r"$\pi$ $\leq$ \char34{}$\beta$\char34{}"
    )  # \textquotedbl is not in every encoding


def test_the_caption_says_the_rule_by_which_rows_are_bold(found):
    wobble = np.array([0, 1, -1, 2, -2, 1, -1, 0]) / 1000
    columns = {"a": 0.1 + wobble, "b": 0.2 - wobble, "c": 0.1024 - wobble}
    few, enough = (to_latex(made_up(found, {name: v[:n] for name, v in columns.items()})) for n in (2, 8))
    bold = [
        [line.split()[0] for line in text.split("midrule")[-1].splitlines() if "mathbf" in line]
        for text in (few, enough)
    ]
    assert bold == [["a"], ["a", "c"]]
    assert "In bold: the best mean (2 of the 7 seeds that it takes to tell methods apart)." in few
    assert "In bold: who leads, and who is not told apart from it." in enough


def test_the_caption_states_the_setting(found):
    text = to_latex(found)
    caption = re.search(r"\\caption\{(.*)\}\n", text)[1]
    for part in ("8 clients", "bernoulli:low=.3,high=.9", "6 rounds", "2 asked per round", "3 seeds", "one trace"):
        assert part in caption
    assert text.count("\\toprule") == text.count("\\bottomrule") == text.count("\\begin{tabular}") == 3
    means = [found.stats["gini_avoidable"][name].mean for name in found.methods]
    assert f"\\mathbf{{{min(means):.3f}}}" in text


# --- the picture


def test_betas_are_joined_by_a_line_and_called_by_their_number(tmp_path):
    betas = [f'name = "b{b}"\nscheduler = "parity:target={b}"' for b in (1, 0, 0.5)]
    run(tmp_path / "b", "uniform", *betas, seeds=2)
    found = compare([ComparedRun.of(tmp_path / "b")])
    assert found.curves == (((0.0, "b0"), (0.5, "b0.5"), (1.0, "b1")),)
    assert [p.label for p in points(found)] == ["uniform", "β=1", "β=0", "β=0.5"]
    assert 'class="curve"' in draw_tradeoff(found)


def test_the_picture_has_a_point_and_a_label_a_method_and_loads_nothing(found):
    drawn = draw_tradeoff(found)
    assert drawn.count('class="mark ') == drawn.count('class="name"') == 3
    assert "prefers-color-scheme: dark" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    hostile = made_up(found, {"<script>alert(1)</script>": (0.1, 0.2, 0.3), "b": (0.2, 0.3, 0.4)})
    assert "<script" not in draw_tradeoff(hostile)


def test_labels_keep_apart_and_inside(found):
    names = {f"method_{k:02d}": tuple(0.5 + 0.02 * math.sin(k * s) for s in (1, 2, 3)) for k in range(20)}
    drawn = draw_tradeoff(made_up(found, names))
    boxes = []
    for x, y, label in re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="name">([^<]+)<', drawn):
        width = 0.56 * 13 * len(label)
        boxes.append((float(x), float(y) - 11, float(x) + width, float(y) + 2))
        assert 0 <= boxes[-1][0] <= boxes[-1][2] <= SIZE[0]
    assert len(boxes) == 20
    overlaps = sum(_shared(a, b) > 0 for k, a in enumerate(boxes) for b in boxes[:k])
    assert overlaps == 0


def test_a_contender_finds_its_runs(pair):
    results, _ = pair
    part = ComparedRun("a", results)
    method = results.spec.resolved().methods[0]
    assert [r.seed for r in Contender("x", part, method).runs] == [0, 1, 2]


def test_utilities_are_shown_in_the_reading_asked_for():
    people = {"clients": 6, "availability": "bernoulli"}
    spec = Spec(methods=["uniform", "cup_paper"], rounds=6, cohort=2, population=people, data={"set": "logistic"})
    part = ComparedRun("here", execute(spec))
    assert compare([part]).blocks()[1][:2] == ["utility_cv", "jain_utility"]
    found = compare([part], normaliser="participation")
    assert found.blocks()[1][:2] == ["utility_cv_participation", "jain_utility_participation"]
    assert "utility_cv_imputed" in found.to_json()["metrics"], "files hold all readings"
    asked = ComparedRun("there", execute(spec.model_copy(update={"normaliser": "imputed"})))
    assert compare([asked]).normaliser == "imputed"
    assert compare([part, asked]).methods, "runs that differ in the reading alone are paired"


def test_an_unknown_normaliser_is_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"normaliser.*'availability', 'participation' or 'imputed'") as caught:
        Spec(methods=["uniform"], normaliser="luck")
    assert "\n" not in str(caught.value)
