"""The paper's tables: a tiny recipe goes through everything that the large ones do."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.core.rng import stream
from fedparity.experiment.runner import execute
from fedparity.experiment.tasks import build_task
from fedparity.paper.tables import cells as cells_module
from fedparity.paper.tables.blocks import CURVES, SCALES, Block, Recipe, Tuning, check_what, recipe_of
from fedparity.paper.tables.cells import Cells, digest_of
from fedparity.paper.tables.compute import Kitchen
from fedparity.paper.tables.figures import table_1
from fedparity.paper.tables.files import produce
from fedparity.paper.tables.results import TOO_SMALL, as_json, result
from fedparity.paper.tables.rows import ALL, LEVEL, ROWS, TABLE_1, TABLE_2, runs_of
from fedparity.paper.tables.runs import KEPT, StoppedError, Told, never_cleared, readings
from fedparity.paper.tables.section import tables_section

PEOPLE = {"clients": 8, "availability": "bernoulli:low=.2"}
SETTING = {"rounds": 6, "cohort": 2, "population": PEOPLE, "data": {"set": "logistic"}}
TINY = Recipe(
    "tiny",
    (
        Block("curves", "every round", SETTING, CURVES, 1, curves=True),
        Block(
            "participation-flash",
            "participation alone",
            {"rounds": 12, "cohort": 2, "population": PEOPLE},
            ("parity", "uniform", "oracle"),
            2,
            trained=False,
        ),
        Block(
            "A-paper_like",
            "trained",
            SETTING | {"execution": {"score_every": 3}},
            ("qffl", "parity", "parity_surrogate", "cup", "fedavg", "oracle"),
            2,
            tuning=Tuning("tiny", (0.05, 0.2), 1, 4),
        ),
    ),
)
FILES = ("paper.json", "paper.html", "table1.csv", "table2.csv", "table2_utility.csv", "table2_seeds.csv")


QUIET = Told()


def cooked(folder, told=QUIET, recipe=TINY):
    kitchen = Kitchen(recipe, folder, told)
    for _ in kitchen.cook("all"):
        pass
    return kitchen


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    kitchen = cooked(tmp_path_factory.mktemp("paper"))
    return kitchen, produce(kitchen, "all", None)


def bytes_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_nothing_is_computed_twice_and_the_same_cells_give_the_same_bytes(done):
    kitchen, _ = done
    before = bytes_of(kitchen.folder)
    seen = []
    again = cooked(kitchen.folder, Told(cell=lambda what, *_: seen.append(what)))
    produce(again, "all", None)
    assert not seen
    assert again.estimate("all") == (0, 0.0)
    assert bytes_of(kitchen.folder) == before
    assert set(FILES) < set(before)


def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(done, tmp_path):
    asked = []

    def stop():
        return len(asked) >= 3

    with pytest.raises(StoppedError):
        cooked(tmp_path, Told(cell=lambda what, *_: asked.append(what), stop=stop))
    half = produce(Kitchen(TINY, tmp_path), "all", None)
    assert half["missing"], "what is not there is said"
    again = cooked(tmp_path)
    produce(again, "all", None)
    assert bytes_of(tmp_path) == bytes_of(done[0].folder)


@pytest.mark.slow
def test_two_processes_give_the_same_bytes(done, tmp_path):
    kitchen = Kitchen(TINY, tmp_path, workers=2)
    for _ in kitchen.cook("all"):
        pass
    produce(kitchen, "all", None)
    assert bytes_of(tmp_path) == bytes_of(done[0].folder)


def test_a_full_disk_keeps_what_was_computed(tmp_path, monkeypatch):
    whole, calls = cells_module.write_text, []

    def full(path, text):
        calls.append(path)
        if len(calls) > 3:
            raise OutputError(f"{path}: cannot be written (No space left on device); choose a folder you may write to")
        whole(path, text)

    monkeypatch.setattr(cells_module, "write_text", full)
    with pytest.raises(OutputError, match="No space left"):
        cooked(tmp_path)
    monkeypatch.undo()
    missing, _ = Kitchen(TINY, tmp_path).estimate("all")
    assert missing == Kitchen(TINY, tmp_path / "new").estimate("all")[0] - 3


def test_a_cell_of_other_components_or_another_set_up_does_not_count(tmp_path):
    block = TINY.blocks[1]
    cells = Cells(tmp_path / "x.jsonl", block.setting)
    cells.put("parity", 0, None, "old", numbers={})
    assert cells.get("parity", 0, None, digest_of(ROWS["parity"].spec())) is None
    assert Cells(tmp_path / "x.jsonl", block.setting).get("parity", 0, None, "old") is not None
    with pytest.raises(InputError, match="another set-up; give another --out"):
        Cells(tmp_path / "x.jsonl", block.setting | {"rounds": 13})
    (tmp_path / "x.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="remove it"):
        Cells(tmp_path / "x.jsonl", block.setting)


def test_rows_that_share_a_run_differ_in_utility_alone(done):
    kitchen, _ = done
    found = result(kitchen, TINY.blocks[2])
    assert "parity_surrogate" not in runs_of(TINY.blocks[2].rows)
    for key in KEPT:
        np.testing.assert_array_equal(found.table.values[key]["parity"], found.table.values[key]["parity_surrogate"])
    aided = found.readings["credited", "imputed"].values["fairness_variance"]
    assert (aided["parity"] != aided["parity_surrogate"]).all()


def test_rates_are_tuned_for_all_rows_alike(done):
    kitchen, _ = done
    block = TINY.blocks[2]
    rates = kitchen.rates(block)
    assert set(rates) == set(runs_of(block.rows))
    for run, by_rate in rates.items():
        assert set(by_rate) == {0.05, 0.2}
        assert kitchen.chosen(block)[run] == max(sorted(by_rate), key=lambda rate: np.mean(by_rate[rate]))


def test_json_has_the_agreed_shape(done):
    _, summary = done
    assert {"what", "scale", "blocks", "missing", "table1", "figure1"} <= set(summary)
    trained = [block for block in summary["blocks"] if block["name"] == "A-paper_like"]
    readings = {(block["utility"], block["normaliser"]) for block in trained}
    assert readings == {
        (utility, normaliser)
        for utility in ("global_loss_drop", "accuracy_change")
        for normaliser in ("availability", "participation", "imputed")
    }
    rows = {row["method"]: row for row in trained[0]["rows"]}
    assert rows["qffl"]["paper"]["gini"] == 0.35
    assert rows["fedavg"]["paper"] is None
    for key in ("selection_gap", "gini", "never_served", "fill"):
        assert {key, f"{key}_sd", f"{key}_limit"} <= set(rows["parity"])
    (alone,) = [block for block in summary["blocks"] if block["name"] == "participation-flash"]
    assert alone["utility"] is None
    assert alone["rows"][2]["gini"] == pytest.approx(alone["rows"][2]["gini_limit"]), "the oracle is the limit"
    json.dumps(summary, allow_nan=False)


def test_accuracy_change_telescopes_to_the_last_accuracy_minus_the_first():
    block = TINY.blocks[0]
    (one,) = execute(block.spec_of(0, ROWS["uniform"].spec())).runs
    first = np.linspace(0, 0.1, len(one.accuracy))
    found = readings(one, first)
    change = (one.accuracy - first)[one.ledger.seen()]
    assert found["utility_cv@accuracy_change/imputed"] == pytest.approx(change.std() / change.mean(), rel=1e-5)
    divided = change * one.ledger.rounds / one.ledger.online[one.ledger.seen()]
    assert found["utility_cv@accuracy_change/availability"] == pytest.approx(divided.std() / divided.mean(), rel=1e-5)


def test_accuracy_change_is_what_the_rule_of_that_name_credits():
    block = replace(TINY.blocks[0], spec=SETTING | {"utility": "accuracy_change"})
    spec = block.spec_of(0, ROWS["uniform"].spec())
    (one,) = execute(spec).runs
    task = build_task(spec, 0)
    first = task.evaluate(task.init(stream(0, "init")), np.arange(8), "accuracy").accuracy
    found = readings(one, first)
    for normaliser in ("availability", "participation", "imputed"):
        ours, credited = (found[f"utility_cv@{rule}/{normaliser}"] for rule in ("accuracy_change", "credited"))
        assert ours == pytest.approx(credited, rel=1e-5)


def test_an_entry_that_is_never_cleared_stays_when_its_client_returns():
    block = replace(TINY.blocks[0], spec=SETTING | {"rounds": 20})
    (one,) = execute(block.spec_of(0, ROWS["cup_paper"].spec())).runs
    kept, decaying = never_cleared(one), one.column("surrogate_contribution")
    assert (kept >= decaying - 1e-12).all()
    credited = [set(record.surrogate.clients.tolist()) for record in one.records]
    back = next(t for t in range(1, len(credited)) if credited[t - 1] - credited[t])
    assert kept[back] > decaying[back]


def test_table_1_is_in_the_authors_normalisation(done):
    kitchen, _ = done
    found = result(kitchen, TINY.blocks[0])
    rows = table_1(found)
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]
    variance = found.curves[LEVEL]["fairness_variance"].mean(axis=0)
    assert rows[3][2] == pytest.approx(variance[3] / 16, rel=1e-5)
    assert rows[3][5:] == TABLE_1[3]


def test_a_block_whose_fedavg_learnt_nothing_says_so(done):
    kitchen, _ = done
    found = result(kitchen, TINY.blocks[2])
    low = {row: np.full(2, 0.29) for row in found.table.methods}
    poor = replace(found, table=replace(found.table, values={**found.table.values, "accuracy": low}))
    rich = replace(
        found, table=replace(found.table, values={**found.table.values, "accuracy": {"fedavg": np.full(2, 0.31)}})
    )
    assert as_json(poor)[0]["note"] == TOO_SMALL
    assert as_json(rich)[0]["note"] == ""


@pytest.fixture
def stored(done, tmp_path):
    """The summary of the tiny recipe with one row of ours set by hand."""

    def section(**values):
        summary = json.loads(json.dumps(done[1]))
        for block in summary["blocks"]:
            for row in block["rows"]:
                if ROWS[row["method"]].ours and block["name"] == "A-paper_like":
                    row.update(avg_client_accuracy=0.7, utility_cv=0.9)
                    row.update(values if row["method"] == "cup" else {})
        (tmp_path / "paper.json").write_text(json.dumps(summary), encoding="utf-8")
        return tables_section(tmp_path)

    return section


GOOD = {"avg_client_accuracy": 0.81, "jain_accuracy": 0.99, "selection_gap": 0.2, "gini": 0.1, "gini_limit": 0.1}


def test_the_verdict_follows_the_numbers(stored):
    goal = "accuracy 80.43 %, Jain .975, gap .31"
    line = next(line for line in stored(**GOOD).splitlines() if goal in line)
    assert "| reproduced, on test data |" in line
    for worse in ({"avg_client_accuracy": 0.80}, {"jain_accuracy": 0.97}, {"selection_gap": 0.32}, {"gini": 0.12}):
        line = next(line for line in stored(**(GOOD | worse)).splitlines() if goal in line)
        assert "**not reproduced**" in line, worse
    assert "**not reproduced** in any reading" in stored(**GOOD, utility_cv=0.2)
    assert "reproduced as global_loss_drop/availability, " in stored(**GOOD, utility_cv=0.19)


def test_every_line_of_the_section_ends_in_its_command(stored, tmp_path):
    table = stored(**GOOD).partition("| the paper |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) >= 12
    assert all(line.rstrip(" |").endswith(("--scale tiny`", "--scale tiny --trace FILE`")) for line in table)
    words = ("reproduced", "not reproduced", "impossible", "needs the trace")
    verdicts = [line.split(" | ")[2].replace("*", "") for line in table]
    assert all(verdict.startswith(words) for verdict in verdicts), verdicts
    for what in ("Table 1", "Table 2", "Figure 1", "Figure 2", "Figure 3"):
        assert any(what in line.split(" | ")[0] for line in table)
    assert tables_section(tmp_path / "nothing") == ""


def line_of(summary, folder, start):
    (folder / "paper.json").write_text(json.dumps(summary), encoding="utf-8")
    return next(line for line in tables_section(folder).splitlines() if line.startswith(f"| {start}"))


def test_the_replay_is_judged_by_all_rows_at_full_fill(done, tmp_path):
    summary = json.loads(json.dumps(done[1]))
    (alone,) = [block for block in summary["blocks"] if block["name"] == "participation-flash"]
    start, full = "Gap .31 and Gini .04", {"fill": 1.0, "fill_limit": 1.0, "seeds": 30}
    for row in alone["rows"]:
        apart = 0.0 if row["method"] == "parity" else 0.1
        row.update(full, selection_gap=0.871 + apart, selection_gap_limit=0.865, gini=0.528 + apart, gini_limit=0.503)
    held = line_of(summary, tmp_path, start)
    assert "least of 2 rows at full fill: `parity`" in held
    assert "1.02 × / 1.06 × the limit |" in held
    learnt = json.loads(json.dumps(alone["rows"][0])) | {"method": "fairfedcs", "gini": 0.51, "selection_gap": 0.866}
    summary["blocks"].append({**alone, "name": "A-flash", "rows": [learnt]})
    assert "**not that near**" in line_of(summary, tmp_path, start), "a row that is not ours is nearer"
    learnt["fill"] = 0.9
    assert line_of(summary, tmp_path, start) == held, "with empty slots it does not count"
    alone["rows"][0]["gini"] = 0.54
    assert "**not that near**" in line_of(summary, tmp_path, start)


def test_figures_2_and_3_are_judged_by_how_the_variance_ends(done, tmp_path):
    summary = json.loads(json.dumps(done[1]))
    two, three = summary["figure2"]["uniform"], summary["figure3"][LEVEL]
    two.update(fairness_variance_round_1=1.0, fairness_variance=20.0)
    three.update(fairness_variance=50.0)
    assert "| reproduced, as V_T" in line_of(summary, tmp_path, "Figure 2")
    assert "2.5 times that of random sampling" in line_of(summary, tmp_path, "Figure 3")
    two.update(fairness_variance=0.5)
    three.update(fairness_variance=0.4)
    assert "**not reproduced**" in line_of(summary, tmp_path, "Figure 2")
    assert "| reproduced |" in line_of(summary, tmp_path, "Figure 3")


def test_surrogates_are_judged_by_the_same_run_without_them(done, tmp_path):
    summary = json.loads(json.dumps(done[1]))
    for aided, said in ((0.5, "reproduced as global_loss_drop/availability, "), (0.9, "**not reproduced**")):
        for block in summary["blocks"]:
            for row in block["rows"]:
                if block["utility"] == "global_loss_drop" and row["method"] in {"parity", "parity_surrogate"}:
                    row["utility_cv"] = 0.7 if row["method"] == "parity" else aided
        assert f"| {said}" in line_of(summary, tmp_path, "Surrogates lower")


def test_every_scale_is_made_of_runs_that_can_be_checked():
    for scale in SCALES:
        recipe = recipe_of(scale)
        for block in recipe.blocks:
            specs = [row.spec() for row in runs_of(block.rows).values()]
            assert block.spec_of(0, *specs).resolved().rounds == block.rounds
            assert "fedavg" in block.rows or not block.trained or block.curves
        assert recipe.needed("all") == recipe.blocks
        assert not recipe.needed("figure1")


def test_the_laptop_scale_has_the_rows_and_seeds_that_were_asked_for():
    blocks = {block.name: block for block in recipe_of("laptop").blocks}
    for name in ("A-paper_like", "A-label_skewed", "A-flash", "A-paper_like-50"):
        assert blocks[name].rows == ALL
        assert blocks[name].seeds >= 10
        assert blocks[name].tuning.rates == blocks["A-paper_like"].tuning.rates  # tuned alike, on each availability
    assert blocks["B"].seeds >= 3
    assert set(blocks["C"].rows) == {"fedavg", "parity"}
    assert all(block.seeds >= 30 for name, block in blocks.items() if name.startswith("participation"))


def test_what_the_paper_prints_is_copied_right():
    assert TABLE_2["q-FFL"] == (0.601, 0.72, 0.64, 0.42, 0.80, 0.35)
    assert len(TABLE_1) == 20
    assert TABLE_1[-1] == (0.7438, 0.1140, 22.99)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"'laptpo'.*laptop"):
        recipe_of("laptpo")
    with pytest.raises(ConfigError, match=r"'table3'.*table"):
        check_what("table3")


def test_a_long_run_goes_on_in_the_middle(tmp_path):
    block = replace(TINY.blocks[2], name="kept", rows=("fedavg",), seeds=1, tuning=None, kept=True)
    recipe = Recipe("kept", (block,))
    rounds = []

    def stop():
        rounds.append(1)
        return len(rounds) >= 3

    with pytest.raises(StoppedError):
        cooked(tmp_path / "a", Told(stop=stop), recipe)
    assert list((tmp_path / "a" / "runs").iterdir()), "what is under way is kept"
    kitchen, whole = cooked(tmp_path / "a", recipe=recipe), cooked(tmp_path / "b", recipe=recipe)
    assert kitchen.cells(block).path.read_bytes() == whole.cells(block).path.read_bytes()
    assert not list((tmp_path / "a" / "runs").iterdir()), "once its numbers are stored its models are not needed"


@pytest.mark.slow
def test_the_papers_own_scale_runs_and_resumes(tmp_path):
    """Two rounds of one method at full size, stopped after the first and taken up again."""
    block = next(block for block in recipe_of("full").blocks if block.name == "full-paper_like")
    assert (block.spec["population"]["clients"], block.spec["cohort"], block.rounds) == (100, 5, 50)
    assert block.kept
    two = replace(block, spec=block.spec | {"rounds": 2}, rows=("fedavg",), seeds=1)
    recipe, rounds = Recipe("full", (two,)), []

    def stop():
        rounds.append(1)
        return True

    with pytest.raises(StoppedError):
        cooked(tmp_path, Told(stop=stop), recipe)
    kitchen = cooked(tmp_path, recipe=recipe)
    found = result(kitchen, two)
    assert found.complete
    assert found.too_small, "nothing is learnt in two rounds, and the table says so"
