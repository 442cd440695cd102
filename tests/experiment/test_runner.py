"""From a spec to results: the same bits however it is run, one trace for all, and files that say what happened."""

import csv
import hashlib
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedparity import Ledger, Trace, frontier, save_trace
from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.core.journal import from_json
from fedparity.experiment.methods import METHODS
from fedparity.experiment.results import FILES, open_store
from fedparity.experiment.run import Run
from fedparity.experiment.runner import Callbacks, build_coordinator, build_task, draw_trace, execute, prepare
from fedparity.experiment.schedule import Setting, schedule
from fedparity.experiment.spec import MethodSpec
from fedparity.experiment.spec_file import load, parse, to_toml
from fedparity.local import Mixed, Plain
from fedparity.schedulers import Parity, Reactive
from fedparity.surrogates import NoSurrogate, UtilitySurrogate
from fedparity.weightings import Mean

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
ALL = ("uniform", "inverse", "cup_paper", "cup_authors", "least_served", "parity", "parity_surrogate")


def spec_of(*overrides, methods=("uniform", "parity")):
    entries = "".join(f'[[methods]]\nname = "{name}"\n' for name in methods)
    base = [
        "rounds=12",
        "cohort=3",
        "population.clients=14",
        "population.availability=bernoulli:low=.1,high=.8",
        "data.set=quadratic",
    ]
    return parse(f"version = 2\n{entries}", "test", [*base, *overrides])


def heads(results):
    return {(run.method, run.seed): run.head for run in results.runs}


def records(run):
    return [from_json(line) for line in run.journal]


def models(run):
    return [record.model_sha256 for record in records(run)]


def same_trace(a, b):
    return a.starts.tolist() == b.starts.tolist() and a.clients.tolist() == b.clients.tolist()


@pytest.fixture(scope="module")
def everything():
    """All named methods, two seeds, with dropout: shared by the tests that only look."""
    return execute(spec_of("seeds=2", "population.dropout=0.2", "data.set=logistic", methods=ALL))


@pytest.fixture(scope="module")
def folder(everything, tmp_path_factory):
    target = tmp_path_factory.mktemp("saved")
    everything.save(target)
    return target


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- the same bits


@pytest.mark.parametrize("dataset", ["quadratic", "logistic"])
def test_the_same_spec_gives_the_same_bits_with_any_number_of_workers(dataset):
    given = (f"data.set={dataset}", "seeds=2", "population.dropout=0.2")
    first, again, four = (execute(spec_of(*given, f"execution.workers={n}", methods=ALL)) for n in (1, 1, 4))
    assert len(set(heads(first).values())) > len(ALL)
    for other in (again, four):
        assert heads(other) == heads(first)
        assert other.summary() == first.summary()
        assert [run.ledger for run in other.runs] == [run.ledger for run in first.runs]


def test_scoring_less_often_leaves_gaps_in_the_log_and_changes_nothing_else():
    every, some = (execute(spec_of("data.set=logistic", "rounds=20", f"execution.score_every={k}")) for k in (1, 6))
    assert heads(every) == heads(some)
    for often, seldom in zip(every.runs, some.runs, strict=True):
        scored = np.flatnonzero(np.isfinite(seldom.column("accuracy"))).tolist()
        assert scored == [5, 11, 17, 18, 19], "every sixth round, and the last tenth"
        np.testing.assert_array_equal(often.column("accuracy")[scored], seldom.column("accuracy")[scored])
        np.testing.assert_array_equal(often.column("gini"), seldom.column("gini"))
        np.testing.assert_array_equal(often.accuracy, seldom.accuracy)


def test_another_seed_is_another_run():
    assert heads(execute(spec_of())).values() != heads(execute(spec_of("seed=1"))).values()


@pytest.mark.parametrize("name", ALL)
def test_a_method_alone_is_the_same_as_among_others(everything, name):
    alone = execute(spec_of("seeds=2", "population.dropout=0.2", "data.set=logistic", methods=(name,)))
    assert heads(alone) == {key: head for key, head in heads(everything).items() if key[0] == name}
    assert [run.ledger for run in alone.runs] == [run.ledger for run in everything.of(name)]


def test_the_order_of_methods_changes_nothing(everything):
    turned = execute(spec_of("seeds=2", "population.dropout=0.2", "data.set=logistic", methods=ALL[::-1]))
    assert heads(turned) == heads(everything)
    assert turned.methods == list(ALL[::-1])


def test_side_by_side_methods_see_one_trace(everything):
    trace = everything.trace
    for run in everything.runs:
        seen = [record.available.tolist() for record in records(run)]
        assert seen == [trace.online(t).tolist() for t in range(12)]
        for t, record in enumerate(records(run)):
            assert set(record.completed) <= set(trace.staying(t))
            assert set(record.selected) <= set(record.available)


def test_seeds_vary_the_data_but_not_the_trace():
    spec = spec_of("seeds=3", "seed=5", methods=("uniform",))
    results = execute(spec)
    assert [run.seed for run in results.runs] == [5, 6, 7]
    first, *others = ([record.available.tolist() for record in records(run)] for run in results.runs)
    assert all(other == first for other in others)
    assert len({run.head for run in results.runs}) == 3
    centres = [build_task(spec, seed).centres for seed in (5, 6, 7)]
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations(centres, 2))


def test_repetition_i_is_the_run_with_seed_plus_i_on_the_same_trace():
    both = execute(spec_of("seeds=2", "seed=5"))
    second = execute(spec_of("seed=6", "population.trace_seed=5"))
    assert heads(second) == {key: head for key, head in heads(both).items() if key[1] == 6}


def test_the_trace_depends_on_its_seed_alone():
    base = draw_trace(spec_of("seed=5"))
    assert same_trace(base, draw_trace(spec_of("seed=9", "population.trace_seed=5")))
    assert not same_trace(base, draw_trace(spec_of("seed=5", "population.trace_seed=6")))
    dropping, other = (
        draw_trace(spec_of(f"seed={seed}", "population.trace_seed=5", "population.dropout=0.5")) for seed in (5, 9)
    )
    assert same_trace(base, dropping)
    assert 0 < dropping.stays.sum() < len(dropping.stays)
    assert dropping.stays.tolist() == other.stays.tolist()


def test_the_task_s_keys_reach_the_task():
    keys = ("training.rate=0.07", "training.epochs=3", "training.batch=5")
    logistic = build_task(spec_of("data.set=logistic", *keys), 0)
    assert (logistic.rate, logistic.epochs, logistic.batch, logistic.num_clients) == (0.07, 3, 5, 14)
    quadratic = build_task(spec_of(*keys), 0)
    assert (quadratic.rate, quadratic.steps, quadratic.num_clients) == (0.07, 3, 14)


# --- what the methods are


def test_the_paper_s_methods_are_what_the_reading_says():
    spec = spec_of(methods=("cup_paper", "cup_authors", "parity_surrogate"))
    paper, authors, parity = (build_coordinator(spec, m, 0) for m in spec.methods)
    assert paper.scheduler == Reactive(missed="offline", draw="top", lam=0.7)
    assert paper.scheduler.eps == 1e-3
    assert (paper.weighting, paper.surrogate, paper.local) == (Mean(), UtilitySurrogate(), Plain())
    assert authors.scheduler == Reactive(missed="since_selected", lam=0.5, eps=0.0, pi="counts", ties="order")
    assert (authors.weighting, authors.surrogate, authors.local) == (Mean(), NoSurrogate(), Mixed(0.5))
    assert type(paper.estimator_in_use).__name__ == type(authors.estimator_in_use).__name__ == "RunningMean"
    assert type(parity.estimator_in_use).__name__ == "Forecast"
    assert (parity.surrogate.eta0, parity.surrogate.lam, parity.surrogate.g) == (1.0, 0.5, "gain")


def test_keys_of_the_spec_reach_the_coordinator():
    spec = spec_of("over_select=0.5", "min_reports=2", "utility=loss_drop")
    one = build_coordinator(spec, MethodSpec(name="parity", local="mixed:a=.25", weighting="by_size"), 7)
    assert (one.cohort, one.seed, one.over_select, one.min_reports, one.local) == (3, 7, 0.5, 2, Mixed(0.25))
    assert type(one.utility).__name__ == "LossDrop"
    assert type(one.weighting).__name__ == "BySize"


def test_a_surrogate_changes_neither_selections_nor_models(everything):
    for plain, aided in zip(everything.of("parity"), everything.of("parity_surrogate"), strict=True):
        assert models(plain) == models(aided)
        assert [r.selected.tolist() for r in plain.records] == [r.selected.tolist() for r in aided.records]
        assert plain.ledger.utility.tolist() == aided.ledger.utility.tolist()
        assert plain.ledger.surrogate_utility.sum() == 0 < aided.ledger.surrogate_utility.sum()
        assert plain.head != aided.head
    assert len(set(models(everything.of("parity")[0]))) > 1


def test_an_own_combination_equals_the_named_method_it_spells_out():
    named = execute(spec_of(methods=("cup_authors",))).runs[0]
    entry = f'methods=[{{name="mine", scheduler="{METHODS["cup_authors"].scheduler}", local="mixed:a=.5"}}]'
    assert execute(spec_of(entry)).runs[0].head == named.head


# --- what happened


def test_the_ledger_is_a_function_of_the_journal(everything):
    for run in everything.runs:
        assert Ledger.replay(14, records(run)) == run.ledger
        assert run.ledger.rounds == len(run.journal) == len(run.log) == 12


def test_dropout_shows_as_failures(everything):
    assert all(run.ledger.failed.sum() > 0 for run in everything.runs)
    for run in everything.runs:
        led = run.ledger
        assert (led.completed + led.failed).tolist() == led.selected.tolist()
    without = execute(spec_of())
    assert all(run.ledger.failed.sum() == 0 for run in without.runs)
    nobody = execute(spec_of("population.dropout=1"))
    assert all(run.ledger.completed.sum() == 0 < run.ledger.failed.sum() for run in nobody.runs)
    assert json.dumps(nobody.summary(), allow_nan=False)


def test_the_limit_is_the_frontier_of_the_trace(everything):
    expected = frontier(everything.trace, 3)
    assert sorted(everything.limit.counts.tolist()) == sorted(expected.counts.tolist())
    for name in ALL:
        row = everything.table.row(name)
        assert row["gini"] == pytest.approx(row["gini_limit"] + row["gini_avoidable"])
        assert row["gini_avoidable"] >= -1e-12
    least = min(ALL, key=lambda name: everything.table.mean("gini_avoidable", name))
    assert everything.table.leaders("gini_avoidable").first == least


def test_rows_are_means_over_seeds(everything):
    a, b = (run.column("accuracy")[-1] for run in everything.of("uniform"))
    row = everything.table.row("uniform")
    assert row["accuracy"] == pytest.approx((a + b) / 2)
    assert row["accuracy_sd"] == pytest.approx(abs(a - b) / 2)
    assert 0.25 < row["accuracy"] <= 1


# --- progress and stopping


def test_progress_is_told_after_each_round_of_each_method():
    told = []
    execute(spec_of("seeds=2", "rounds=3"), callbacks=Callbacks(lambda *news: told.append(news)))
    assert [(number, method) for number, method, _ in told] == [(t, m) for t in range(6) for m in ("uniform", "parity")]
    assert [row["round"] for *_, row in told[::2]] == [0, 1, 2, 0, 1, 2]
    assert all(row["selected"] <= 3 for *_, row in told)


def stop_after(rounds):
    """A stop that is asked for once `rounds` rounds were done by all methods."""
    calls = itertools.count(1)
    return lambda: next(calls) >= rounds


@pytest.mark.parametrize("k", [1, 5, 11])
def test_a_stop_leaves_the_same_whole_rounds_of_every_method(k, tmp_path):
    whole = execute(spec_of(methods=ALL))
    part = execute(spec_of(methods=ALL), callbacks=Callbacks(stop=stop_after(k)))
    assert part.complete is False
    assert part.summary()["complete"] is False
    assert part.rounds == part.summary()["rounds"] == k
    assert {run.ledger.rounds for run in part.runs} == {k}
    for mine, full in zip(part.runs, whole.runs, strict=True):
        assert mine.journal == full.journal[:k]
    assert part.limit.total == frontier(whole.trace.head(k), 3).total
    part.save(tmp_path)
    assert len(rows_of(tmp_path / "metrics_log.csv")) == k * len(ALL)


def test_a_stop_in_the_second_seed_keeps_the_first_alone():
    whole = execute(spec_of("seeds=3"))
    part = execute(spec_of("seeds=3"), callbacks=Callbacks(stop=stop_after(12 + 1 + 4)))
    assert part.complete is False
    assert (part.rounds, part.summary()["seeds"]) == (12, 1)
    assert heads(part) == {key: head for key, head in heads(whole).items() if key[1] == 0}


def test_a_stop_between_two_seeds_is_not_a_whole_run():
    part = execute(spec_of("seeds=2"), callbacks=Callbacks(stop=stop_after(13)))
    assert part.complete is False
    assert {run.seed for run in part.runs} == {0}


def test_a_stop_that_comes_too_late_is_a_whole_run():
    late = execute(spec_of(), callbacks=Callbacks(stop=stop_after(12)))
    assert late.complete is True
    assert heads(late) == heads(execute(spec_of()))
    assert execute(spec_of(), callbacks=Callbacks(stop=lambda: False)).complete is True


# --- a trace file


def test_a_trace_file_says_who_is_there(tmp_path):
    matrix = np.random.default_rng(0).random((12, 14)) < 0.5
    save_trace(Trace.from_matrix(matrix), tmp_path / "seen.csv")
    results = execute(spec_of(f"population.availability={tmp_path / 'seen.csv'}"))
    for run in results.runs:
        assert run.ledger.online.tolist() == matrix.sum(0).tolist()
    shorter = execute(spec_of(f"population.availability={tmp_path / 'seen.csv'}", "rounds=4"))
    assert shorter.runs[0].ledger.online.tolist() == matrix[:4].sum(0).tolist()


def test_clients_keep_the_names_of_the_trace(tmp_path):
    names = tuple(f"phone, {i}" for i in range(14))
    rounds = [np.arange(14)] * 12
    save_trace(Trace.from_rounds(14, rounds, names=names), tmp_path / "seen.csv")
    execute(spec_of(f"population.availability={tmp_path / 'seen.csv'}")).save(tmp_path)
    assert [row["client"] for row in rows_of(tmp_path / "clients.csv")] == list(names) * 2


def test_a_trace_that_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "two.csv"
    save_trace(Trace.from_matrix([[1, 1]] * 12), path)
    with pytest.raises(ConfigError, match=r"clients=14 but .*two\.csv has 2; set it to that") as caught:
        execute(spec_of(f"population.availability={path}"))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        execute(spec_of(f"population.availability={tmp_path}/gone.csv"))


# --- files


def columns_in_docs(name):
    line = next(x for x in FORMATS.read_text(encoding="utf-8").splitlines() if x.startswith(f"| `{name}`"))
    return line.rsplit(": `", 1)[1].partition("`")[0]


@pytest.mark.parametrize("name", ["metrics_log.csv", "clients.csv"])
def test_the_columns_are_the_documented_ones(folder, name):
    assert (folder / name).read_text(encoding="utf-8").partition("\n")[0] == columns_in_docs(name)


def test_the_folder_holds_the_documented_files(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    docs = FORMATS.read_text(encoding="utf-8").partition("## A run's folder")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in docs for name in (*FILES, "report.html"))


def test_metrics_log_has_a_row_a_round_method_and_seed(everything, folder):
    rows = rows_of(folder / "metrics_log.csv")
    keys = [(row["method"], int(row["seed"]), int(row["round"])) for row in rows]
    assert sorted(keys) == sorted((m, s, t) for m in ALL for s in (0, 1) for t in range(12))
    for row in rows:
        online = everything.trace.online(int(row["round"]))
        assert int(row["available"]) == len(online)
        assert int(row["completed"]) <= int(row["selected"]) <= min(3, len(online))
        assert 0 <= float(row["accuracy"]) <= 1
        assert float(row["seconds"]) >= 0
    assert {float(row["surrogate_contribution"]) > 0 for row in rows if row["method"] == "parity"} == {False}
    assert any(float(row["surrogate_contribution"]) > 0 for row in rows if row["method"] == "parity_surrogate")


def test_an_undefined_number_is_an_empty_cell(tmp_path):
    execute(spec_of()).save(tmp_path)
    rows = rows_of(tmp_path / "metrics_log.csv")
    assert {row["accuracy"] for row in rows} == {""}
    text = "".join((tmp_path / name).read_text(encoding="utf-8") for name in FILES)
    assert "nan" not in text.lower()
    assert "infinity" not in text.lower()


def test_clients_csv_has_a_row_a_client_method_and_seed(everything, folder):
    rows = rows_of(folder / "clients.csv")
    keys = [(row["method"], int(row["seed"]), row["client"]) for row in rows]
    assert sorted(keys) == sorted((m, s, str(k)) for m in ALL for s in (0, 1) for k in range(14))
    for run in everything.runs:
        mine = [row for row in rows if (row["method"], row["seed"]) == (run.method, str(run.seed))]
        for name in ("online", "selected", "completed", "failed", "last_online", "last_selected", "last_completed"):
            assert [int(row[name]) for row in mine] == getattr(run.ledger, name).tolist(), name
        assert [float(row["utility"]) for row in mine] == run.ledger.utility.tolist()
        assert [int(row["selected_limit"]) for row in mine] == everything.limit.counts.tolist()
        normalised = [float(row["normalised_utility"]) for row in mine if int(row["online"])]
        assert normalised == run.ledger.normalised_utility().tolist()
        assert all(row["normalised_utility"] == "" for row in mine if not int(row["online"]))


def test_the_journal_can_be_checked_without_this_library(everything, folder):
    """As docs/formats.md says: sorted keys, no spaces, sha256(hex digest so far + sha256 hex digest of the record)."""

    def sha256(text):
        return hashlib.sha256(text.encode()).hexdigest()

    chains = {}
    for line in (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        assert list(entry) == ["method", "seed", "record"]
        record = sha256(json.dumps(entry["record"], sort_keys=True, separators=(",", ":")))
        key = (entry["method"], entry["seed"])
        chains[key] = sha256(chains.get(key, sha256("fedparity-journal 1")) + record)
    assert chains == heads(everything)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    for entry in summary["methods"]:
        assert entry["journal_sha256"] == [chains[entry["method"], seed] for seed in (0, 1)]


def test_journal_records_hold_the_documented_fields(folder):
    section = FORMATS.read_text(encoding="utf-8").partition("## Journal")[2].partition("\n## ")[0]
    listed = " ".join(section.split()).partition("`")[2].partition("`")[0]
    for line in (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)["record"]
        names = [*record, *record["rows"], *record["surrogate"]]
        words = listed.replace("{", " ").replace("}", " ").replace(",", " ").split()
        assert sorted(names) == sorted(words)


def test_the_resolved_spec_gives_the_same_run_again(everything, folder):
    spec = load(folder / "spec.resolved.toml")
    assert spec == everything.spec.resolved()
    assert heads(execute(spec)) == heads(everything)
    assert load(folder / "spec.toml") == everything.spec


def test_the_spec_as_written_is_kept(tmp_path):
    spec = spec_of("rounds=2")
    text = "# mine\n" + to_toml(spec)
    execute(spec).save(tmp_path, text)
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8") == text


def test_summary_json_is_the_summary(everything, folder):
    def refuse(name):
        pytest.fail(f"{name} is not JSON")

    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert found == everything.summary()
    assert [entry["method"] for entry in found["methods"]] == list(ALL)
    assert (found["clients"], found["rounds"], found["cohort"], found["seeds"]) == (14, 12, 3, 2)
    numbers = [value for entry in found["methods"] for value in entry.values() if isinstance(value, float)]
    assert len(numbers) > 100
    assert all(map(math.isfinite, numbers))


def test_the_summary_has_the_documented_keys(everything):
    section = FORMATS.read_text(encoding="utf-8").partition("## JSON of the command line")[2]
    text = " ".join(section.split()).partition("`fedparity run --json`")[2]
    top = text.partition("print `")[2].partition("`")[0].split(", ")
    summary = everything.summary()
    assert [*summary, "folder", "report"] == top
    for name in text.partition("metrics plus `")[2].partition("`")[0].split(", "):
        assert {name, f"{name}_sd"} <= set(summary["methods"][0]), name


def test_two_saves_are_the_same_bytes_but_for_seconds(everything, folder, tmp_path):
    again = execute(everything.spec)
    again.save(tmp_path)
    for name in set(FILES) - {"metrics_log.csv"}:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
    mine, theirs = (rows_of(f / "metrics_log.csv") for f in (tmp_path, folder))
    assert [row | {"seconds": ""} for row in mine] == [row | {"seconds": ""} for row in theirs]


# --- the folder


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_made_with_its_parents(tmp_path):
    with open_store(tmp_path / "a" / "b", spec_of()) as store:
        execute(spec_of(), store=store, callbacks=Callbacks(stop=stop_after(1)))
        assert store.spec() == to_toml(spec_of().resolved())
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_with_a_run_is_refused(tmp_path):
    open_store(tmp_path / "run", spec_of()).close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ConfigError) as caught:
        open_store(tmp_path / "run", spec_of())
    assert str(caught.value).startswith(f"{tmp_path / 'run'} already holds a run; ")
    assert all(option in str(caught.value) for option in ("--resume", "--overwrite", "--out"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize("how", [{}, {"overwrite": True}, {"resume": True}])
def test_somebody_s_folder_is_never_written_into(tmp_path, how):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="is there but is not a run; give another --out"):
        open_store(tmp_path, spec_of(), **how)
    assert names_in(tmp_path) == ["thesis.tex"]


def test_overwriting_mixes_nothing(tmp_path):
    with open_store(tmp_path / "run", spec_of()) as store:
        execute(spec_of(), store=store).save(tmp_path / "run")
    (tmp_path / "run" / "report.html").write_text("old")
    other = spec_of("rounds=2", methods=("inverse",))
    with open_store(tmp_path / "run", other, overwrite=True) as store:
        assert store.contenders() == []
        assert not {*FILES, "report.html"} & set(names_in(tmp_path / "run"))
        results = execute(other, store=store)
        results.save(tmp_path / "run")
    assert heads(results) == heads(execute(other))
    assert {row["method"] for row in rows_of(tmp_path / "run" / "clients.csv")} == {"inverse"}


def test_a_stored_run_is_the_run_and_going_on_is_never_having_stopped(tmp_path):
    spec = spec_of("seeds=2", "population.dropout=0.2", methods=ALL)
    whole = execute(spec)
    with open_store(tmp_path / "run", spec) as store:
        part = execute(spec, store=store, callbacks=Callbacks(stop=stop_after(12 + 1 + 4)))
        assert part.complete is False
    with open_store(tmp_path / "run", spec, resume=True) as store:
        told = []
        rest = execute(spec, store=store, callbacks=Callbacks(lambda number, *_: told.append(number)))
    assert rest.complete is True
    assert sorted(set(told)) == list(range(12 + 4, 24))
    assert heads(rest) == heads(whole)
    assert rest.summary() == whole.summary()
    assert [run.ledger for run in rest.runs] == [run.ledger for run in whole.runs]


def test_going_on_with_another_spec_is_refused(tmp_path):
    with open_store(tmp_path / "run", spec_of()) as store:
        execute(spec_of(), store=store, callbacks=Callbacks(stop=stop_after(1)))
    with pytest.raises(ConfigError, match=r"another spec \('rounds = 12', now 'rounds = 13'\); give"):
        open_store(tmp_path / "run", spec_of("rounds=13"), resume=True)


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_is_not_a_folder(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    target = tmp_path / "file" / below
    with pytest.raises((ConfigError, OutputError), match=r"(another folder|another --out)$") as caught:
        open_store(target, spec_of(), overwrite=True)
    assert str(caught.value).startswith(str(target))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_that_is_open_is_not_opened_twice(tmp_path):
    with open_store(tmp_path / "run", spec_of()), pytest.raises(ConfigError, match="another process"):
        open_store(tmp_path / "run", spec_of(), resume=True)


def test_what_only_shows_at_the_start_is_refused_before_a_folder_is_touched():
    assert prepare(spec_of()).num_clients == 14
    with pytest.raises(ConfigError, match="alpha has 2 numbers but there are 14 clients"):
        prepare(spec_of('methods=[{name="own", scheduler="reactive:alpha=1/2"}]'))
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        prepare(spec_of("population.availability=gone.csv"))


def test_a_trace_drawn_before_is_the_one_that_is_used():
    spec = spec_of()
    assert heads(execute(spec, trace=prepare(spec))) == heads(execute(spec))


def test_results_without_runs_say_so():
    spec = spec_of("rounds=2")
    whole = execute(spec)
    empty = Run(spec, whole.trace, [])
    assert (empty.rounds, empty.of("uniform"), empty.table.row("uniform")) == (0, [], {})


def test_the_limit_has_the_slots_that_were_used():
    over = ("over_select=0.5", "rounds=40", "population.clients=12")
    results = execute(spec_of(*over, methods=("uniform", "parity", "oracle")))
    assert results.spec.asked == 5
    assert max(len(r.selected) for r in results.of("parity")[0].records) == 5
    by_hand = frontier(results.trace, 5)
    np.testing.assert_array_equal(results.limit.counts, by_hand.counts)
    for name in results.methods:
        (run,) = results.of(name)
        assert run.ledger.selected.sum() == by_hand.total  # nothing to cut: the limit is that of the slots used
        assert results.table.mean("selection_gap_avoidable", name) >= -1e-12
    (oracle,) = results.of("oracle")
    np.testing.assert_array_equal(oracle.ledger.selected, by_hand.counts)
    assert results.table.mean("selection_gap_avoidable", "parity") < 0.05


def test_a_run_and_a_schedule_tell_the_same_limit():
    spec = spec_of("over_select=0.5", "rounds=60", methods=("parity",))
    results = execute(spec)
    setting = Setting(draw_trace(spec), clients=14, rounds=60, cohort=3, over_select=0.5)
    found = schedule(Parity(), setting).means()["selection_gap_limit"]
    assert results.table.mean("selection_gap_limit", "parity") == pytest.approx(found)
