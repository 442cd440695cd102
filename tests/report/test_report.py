"""The report page: what stands in it, that it is safe, small, well formed, and the same for the same run."""

import dataclasses
import importlib.util
import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fedparity.availability.speeds import SPEEDS
from fedparity.cli.show import show_run, verdict_of
from fedparity.core.errors import ConfigError, OutputError
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import RoundRecord, SurrogateCredit
from fedparity.experiment.methods import METHODS
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.run import MethodRun, Run
from fedparity.experiment.runner import execute
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_file import parse
from fedparity.experiment.spec_parts import Population
from fedparity.experiment.starters import read_starter
from fedparity.metrics import MEASURES, in_reading
from fedparity.report import charts, figures, svg, tables, verdict, words
from fedparity.report.frame import policy, template
from fedparity.report.kinds import by_kind
from fedparity.report.labels import labels
from fedparity.report.strip import Strip
from fedparity.store import Facts
from fedparity.weightings.agnostic import FALLBACK

jinja = pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="jinja2 is not installed")
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]>&amp;'\x00\x1b[31m\u202e", "{{ 7 * 7 }}"]


def spec(methods=("parity", "uniform", "cup_paper"), *, clients=12, rounds=15, dataset="logistic", **rest):
    people = {key: rest.pop(key) for key in ("availability", "dropout") if key in rest}
    people = {"availability": "bernoulli", "dropout": 0.2} | people
    return Spec(
        name="small",
        rounds=rounds,
        cohort=rest.pop("cohort", min(3, clients)),
        seeds=rest.pop("seeds", 2),
        population=Population(clients=clients, **people),
        data={"set": dataset},
        methods=tuple(MethodSpec(name=name) if isinstance(name, str) else name for name in methods),
        **rest,
    )


@pytest.fixture(scope="module")
def results():
    return execute(spec())


@pytest.fixture(scope="module")
def page(results):
    return render(results)


def render(results, *args):
    pytest.importorskip("jinja2")
    from fedparity.report import render as draw

    text = draw(results, *args)
    check(text)
    return text


VOID = {"meta", "input", "br", "img", "link", "hr"}


class Stack(HTMLParser):
    """Every tag is closed in order, ids are unique, links within the page lead somewhere, nothing is loaded."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.data, self.tags = [], [], [], [], set()
        self.scripts = []

    def handle_starttag(self, tag, attrs):
        self._note(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self._note(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def _note(self, tag, attrs):
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in {
                "src",
                "srcset",
                "data",
                "action",
                "formaction",
                "background",
                "poster",
                "xlink:href",
            }, (tag, name)
            if name == "id":
                self.ids.append(value)
            if name == "href":
                assert value.startswith("#"), value
                self.links.append(value[1:])
            if tag == "data" and name == "value":
                self.data.append(value)


def check(text):
    """What holds for every page."""
    stack = Stack()
    stack.feed(text)
    stack.close()
    assert stack.open == []
    assert len(stack.ids) == len(set(stack.ids))
    assert set(stack.links) <= set(stack.ids)
    assert not stack.tags & {"link", "img", "iframe", "object", "embed", "base"}
    assert [given for given in stack.scripts if given.get("type") != "application/json"] == [{}]  # ours, once
    assert policy() in text
    assert f"<script>{template('page.js')}</script>" in text
    text = text.replace(template("page.js"), "")
    assert {"html", "head", "header", "nav", "main", "footer", "title", "h1"} <= stack.tags
    outside = re.sub(r'xmlns="http://www\.w3\.org/2000/svg"', "", text)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "url(" not in outside
    assert "@import" not in outside
    for part in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        ET.fromstring(part)
    return stack


def drawings(text):
    return [p for p in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL) if 'role="img"' in p]


# ---- what stands in it


def test_every_part_is_there(page):
    wanted = (
        "shares", "opportunity", "tradeoff", "rounds", "lorenz", "presence", "utility", "worst", "clients",
        "definitions", "source",
    )  # fmt: skip
    places = [page.index(f'<section id="{name}"') for name in wanted]
    assert places == sorted(places)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_charts_have_alternative_texts_with_numbers(page):
    found = drawings(page)
    assert len(found) == 6  # trade-off, accuracy, V_T, Lorenz, strip, utility
    for drawing in found:
        title, desc = re.search(r"<title>(.*?)</title><desc>(.*?)</desc>", drawing, re.DOTALL).groups()
        assert title
        assert re.search(r"\d", desc)
        assert "parity" in desc


PER_OPPORTUNITY = (
    "cv_per_opportunity", *tables.UTILITY, *tables.AIDED, "utility_cv_participation", "utility_cv_imputed",
)  # fmt: skip


def test_the_reading_asked_for_heads_the_table(results):
    by = dataclasses.replace(results, spec=results.spec.model_copy(update={"normaliser": "imputed"}))
    shown = [column.metric for column in tables.opportunity_table(by).columns]
    readings = ["utility_cv_imputed", "fairness_variance_imputed", "utility_cv", "utility_cv_participation"]
    assert shown[1:] == readings
    assert "by benefit (u+û)" in verdict.verdict(by).opportunity


def test_the_tables_hold_the_numbers_of_the_results(results, page):
    stack = check(page)
    wanted = [
        results.table.mean(key, name)
        for keys in (results.table.known(tables.SHARE), PER_OPPORTUNITY)
        for name in results.methods
        for key in keys
    ]
    assert [float(value) for value in stack.data] == wanted
    row = results.table.row("uniform")
    for key in ("selection_gap", "gini"):
        limit, avoidable = words.fixed(row[f"{key}_limit"]), words.fixed(row[f"{key}_avoidable"])
        assert f"{limit} + {avoidable}" in page


def test_the_two_targets_are_never_in_one_table(results):
    share = {column.metric for column in tables.share_table(results).columns}
    opportunity = {column.metric for column in tables.opportunity_table(results).columns}
    assert not share & opportunity
    assert not share & {"cv_per_opportunity", "utility_cv", "jain_utility", "fairness_variance"}
    assert not opportunity & {"gini", "selection_gap", "never_served"}


def test_every_heading_is_defined(page):
    shown = re.findall(r'href="#def-(\w+)"', page)
    assert {"span_gap", "mean_recall", "late_worst_recall"} <= {*shown}
    for key in (*shown, *PER_OPPORTUNITY):
        assert key in MEASURES
        assert f'id="def-{key}"' in page
    for name in ("parity", "uniform", "cup_paper"):
        assert f'id="method-{name}"' in page


def test_without_surrogates_there_are_no_columns_for_them():
    text = render(execute(spec(["parity", "uniform"])))
    assert "surrogates counted" not in text


def test_the_sources_are_there(results, page):
    for run in results.runs:
        assert run.head in page
    assert METHODS["cup_paper"].reference in page
    assert METHODS["uniform"].reference in page
    assert "numpy" in page
    assert "trace_seed" in page  # only in the resolved spec


def test_the_spec_is_shown_as_it_was_written(results):
    assert "# my own &lt;remark&gt;" in render(results, "# my own <remark>\nversion = 2\n")


# ---- the verdict


def test_the_verdict_is_computed(results):
    said = verdict.verdict(results)
    lowest = min(results.methods, key=lambda name: results.table.mean("gini_avoidable", name))
    assert lowest in said.leaders
    row = results.table.row(said.leaders[0])
    assert words.fixed(row["gini"]) in said.share
    assert words.fixed(row["selection_gap"]) in said.share
    assert "uniform" in said.share
    assert "Gini" not in said.opportunity
    even = min(results.methods, key=lambda name: results.table.mean("cv_per_opportunity", name))
    assert even in said.opportunity


def test_accuracy_is_compared_seed_by_seed(results):
    change = verdict._change(results.table, "late_accuracy", "parity")
    late = {(run.method, run.seed): run.late[0] for run in results.runs}
    assert change.tolist() == [late["parity", s] - late["uniform", s] for s in (0, 1)]


def test_equals_share_the_verdict():
    twins = [MethodSpec(name="parity"), MethodSpec(name="again", scheduler="parity"), MethodSpec(name="uniform")]
    found = execute(spec(twins))
    assert verdict.verdict(found).leaders == ["parity", "again"]
    assert "<strong>parity and again</strong> both" in render(found)


def test_several_leaders_have_no_single_accuracy():
    """One leader's accuracy of the last round stood for all of them."""
    methods = ["uniform", "parity", MethodSpec(name="slow", scheduler="parity", rate=0.001)]
    found = execute(spec(methods, rounds=20))
    said = verdict.verdict(found).share.replace(words.NARROW, " ")
    low, high = (100 * found.table.mean("late_accuracy", name) for name in ("slow", "parity"))
    assert f"and accuracy from {low:.1f} % (slow) to {high:.1f} % (parity)." in said
    alone = verdict.verdict(dataclasses.replace(found, spec=spec(["parity"]))).share.replace(words.NARROW, " ")
    assert f"and accuracy {high:.1f} %." in alone


def test_the_story_has_a_clause_for_each_kind_of_method():
    methods = ["uniform", "qffl", "cup_paper", "least_served", "parity_opportunity", "mifa", "cup_light", "oracle"]
    found = execute(spec(methods))
    assert by_kind(found.resolved.methods[:-1]) == {
        "chance": ["uniform"],
        "the paper's rule": ["cup_paper"],
        "fair turns alone": ["least_served", "parity_opportunity"],
        "memory alone": ["mifa"],
        "fair turns and memory": ["cup_light"],
        "other rules": ["qffl"],
    }
    told = verdict.story(found).replace(words.NARROW, " ")
    first, worst = told.split("that of the worst-off tenth, in this order, ")
    for name in ("uniform", "qffl", "cup_paper", "mifa", "cup_light"):
        assert re.search(rf"\b{100 * found.table.mean('late_accuracy', name):.0f} % by [^%]*\({name}\)", first)
        assert f"{100 * found.table.mean('late_worst_accuracy', name):.0f} %" in worst
    assert "by fair turns alone (least_served and parity_opportunity)," in first
    assert "oracle" not in told
    assert told.count(". ") == 1, "two sentences"


@pytest.mark.parametrize(
    ("limit", "avoidable", "said"),
    [
        (0.2, 0.1, ": 0.200 of it nobody could have avoided"),
        (0.2, 0.0, ", none of it avoidable"),
        (0.0, 0.1, ", all of it avoidable"),
        (0.0, 0.0, ""),
    ],
)
def test_parts_of_nothing_are_put_in_words(limit, avoidable, said):
    assert verdict._parts(limit, avoidable).startswith(said)
    assert bool(verdict._parts(limit, avoidable)) == bool(said)


# ---- same run, same bytes; small; safe


def test_the_same_run_gives_the_same_bytes(page):
    again = render(execute(spec()))
    assert again == page


def test_telemetry_is_left_out(results, page):
    slow = [dataclasses.replace(run, log=[(*row[:-1], row[-1] + 12345.678) for row in run.log]) for run in results.runs]
    assert render(dataclasses.replace(results, runs=slow)) == page


def test_hostile_names_are_only_text(results):
    names = tuple(f"{text}{k}" for k, text in enumerate((HOSTILE * 3)[: results.trace.num_clients]))
    people = results.spec.population.model_copy(update={"availability": f"{HOSTILE[0]}{HOSTILE[1]}/{'x' * 4000}.csv"})
    changed = results.spec.model_copy(update={"population": people, "name": HOSTILE[0], "utility": HOSTILE[1]})
    text = render(
        dataclasses.replace(
            results,
            trace=dataclasses.replace(results.trace, names=names),
            spec=changed,
            versions={HOSTILE[0]: HOSTILE[1]},
        )
    )
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7 * 7 }}" in text


def test_hostile_method_names_are_only_text_in_charts_too(results):
    renamed = [m.model_copy(update={"name": m.name + HOSTILE[1]}) for m in results.spec.methods]
    changed = results.spec.model_construct(**(dict(results.spec) | {"methods": tuple(renamed)}))
    runs = [dataclasses.replace(run, method=run.method + HOSTILE[1]) for run in results.runs]
    found = dataclasses.replace(results, runs=runs, spec=changed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MethodSpec, "resolved", lambda self: self)
        patch.setattr(Spec, "resolved", lambda self: self)
        text = render(found)
    assert "<img" not in text
    assert text.count("&lt;img") + text.count("&#34;&gt;&lt;img") > 10


def test_control_characters_do_not_reach_a_drawing():
    drawing = svg.picture((10, 10), [svg.text(1, 1, HOSTILE[2])], title=HOSTILE[2], desc=HOSTILE[0])
    ET.fromstring(drawing)
    assert "\x00" not in drawing
    assert "\u202e" not in drawing


def fabricated(clients, rounds, methods, seeds, *, cohort=5, wanted=None):
    """Results of the wanted size without training anything; of more `wanted` rounds, they are what is done so far."""
    rng = np.random.default_rng(0)
    trace = Trace.from_matrix(rng.random((rounds, clients)) < rng.beta(0.5, 1.5, clients))
    runs = [fabricated_run(name, seed, trace, cohort) for name in methods for seed in range(seeds)]
    given = spec(methods, clients=clients, rounds=wanted or rounds, seeds=seeds, cohort=cohort)
    return Run(given, trace, runs, complete=wanted is None, versions={"python": "3"})


def fabricated_run(name, seed, trace, cohort):
    rng = np.random.default_rng([seed, *name.encode()])
    asked = [np.sort(rng.choice(ids, min(cohort, len(ids)), replace=False)) for ids in trace]
    done = [ids[rng.random(len(ids)) < 0.9] for ids in asked]
    ledger = Ledger.empty(trace.num_clients)
    ledger.rounds = trace.num_rounds
    ledger.online[:] = trace.counts()
    ledger.selected[:] = np.bincount(np.concatenate(asked), minlength=trace.num_clients)
    ledger.completed[:] = np.bincount(np.concatenate(done), minlength=trace.num_clients)
    ledger.utility[:] = ledger.completed * rng.exponential(size=trace.num_clients)
    ledger.surrogate_utility[:] = rng.exponential(size=trace.num_clients)
    noise = rng.random((trace.num_rounds, len(COLUMNS) - 2))
    noise[:, COLUMNS.index("fairness_variance") - 2] **= 6
    log = [(t, name, *row) for t, row in enumerate(noise.tolist())]
    accuracy = rng.random(trace.num_clients)
    records = [a_record(t, ids, used) for t, (ids, used) in enumerate(zip(asked, done, strict=True))]
    facts = Facts(accuracy, accuracy, None, 1, 0, 0)
    return MethodRun(name, seed, log, ledger, records, [], f"{seed:064x}", facts)


def a_record(t, asked, done):
    none = np.empty(0)
    return RoundRecord(
        t, asked, asked, np.ones(len(asked)), "exact", 0, done, none, none, (), False, done, done * 0,
        np.ones(len(done)), SurrogateCredit(), "",
    )  # fmt: skip


def test_a_page_of_the_demo_s_size_is_small():
    text = render(fabricated(100, 200, [m.name for m in parse(read_starter("demo"), "demo").methods], 3))
    assert len(text.encode()) < 600_000


def test_a_thousand_clients_are_sampled_and_said_so():
    text = render(fabricated(1000, 900, ["parity", "uniform"], 1, cohort=20))
    assert "150 of 1,000 clients, evenly by rank of availability" in text
    assert "A column stands for 3 rounds" in text
    assert len(text.encode()) < 600_000


# ---- edges


@pytest.mark.parametrize(
    "changes",
    [
        {"methods": ["uniform"], "seeds": 1},
        {"rounds": 1},
        {"rounds": 1, "seeds": 1, "methods": ["parity"]},
        {"clients": 1},
        {"clients": 2, "cohort": 2, "dropout": 1.0},
        {"dataset": "quadratic"},
        {"availability": "always"},
        {"methods": [MethodSpec(name=f"own{i}", scheduler="uniform") for i in range(11)]},
        {"methods": [MethodSpec(name="n" * 64, scheduler="parity"), MethodSpec(name="uniform")]},
    ],
)
def test_edges_render(changes):
    text = render(execute(spec(**changes)))
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<[^>]*>", " ", text))
    assert not re.search(r'="[^"]*\bnan\b', text)


def test_nobody_ever_online(monkeypatch):
    from fedparity.experiment import runner

    empty = Trace.from_rounds(12, [np.empty(0, np.int64)] * 15)
    monkeypatch.setattr(runner, "draw_trace", lambda _: empty)
    text = render(execute(spec()))
    assert "Nobody was ever online" in text
    assert "12 of 12 clients were never there" in text


def test_one_who_was_never_there_is_one(monkeypatch):
    from fedparity.experiment import runner

    monkeypatch.setattr(runner, "draw_trace", lambda _: Trace.from_rounds(12, [np.arange(11)] * 15))
    found = execute(spec())
    assert "1 of 12 clients was never there" in render(found)
    assert verdict_of(found.table, "share").endswith(" 1 client was never there.")


def test_a_task_without_accuracy_says_so():
    text = render(execute(spec(dataset="quadratic")))
    assert "This task measures no accuracy" in text
    assert "test accuracy" not in verdict.verdict(execute(spec(dataset="quadratic"))).share


def test_an_interrupted_run_says_how_far_it_came():
    text = render(fabricated(12, 7, ["parity", "uniform"], 1, wanted=15))
    assert "Interrupted after 7 of 15 rounds; what follows covers those." in text
    assert "7 of 15" in re.search(r'<dl class="facts">.*?</dl>', text, re.DOTALL).group()


def test_a_run_interrupted_between_seeds_says_so(results):
    text = render(dataclasses.replace(results, runs=[r for r in results.runs if r.seed == 0], complete=False))
    assert "Interrupted after 1 of 2 seeds; what follows covers those." in text
    assert "over 2 seeds" not in text


def test_methods_one_round_apart_are_drawn():
    ahead = fabricated(12, 8, ["parity", "uniform"], 1, wanted=15)
    short = ahead.trace.head(7)
    runs = [ahead.runs[0], fabricated_run("uniform", 0, short, 5)]
    text = render(dataclasses.replace(ahead, runs=runs))
    assert "Interrupted after 7 of 15 rounds" in text


def test_started_and_not_one_round_done(results):
    runs = [MethodRun(name, 0, [], Ledger.empty(12), [], []) for name in results.methods]
    text = render(dataclasses.replace(results, runs=runs, complete=False))
    assert "Interrupted after 0 of 15 rounds" in text
    assert "nothing to compare yet" in text


def test_a_complete_run_has_no_notice(page):
    assert "Interrupted" not in page


def test_rounds_that_counted_for_less_are_spoken_of(results, page):
    assert "counted for less" not in page
    first, *others = results.runs
    notes = [("3 of 3 weights capped at 1/10",), ("abandoned: the step led to a model that is not finite",)]
    records = [dataclasses.replace(record, notes=said) for record, said in zip(first.records, notes, strict=False)]
    records[1] = dataclasses.replace(records[1], abandoned=True)
    records += first.records[2:]
    text = render(dataclasses.replace(results, runs=[dataclasses.replace(first, records=records), *others]))
    assert "1 counted for less than a full step, since weights are capped, 1 changed nothing" in text
    records = [dataclasses.replace(record, notes=(FALLBACK,)) for record in first.records[:3]] + first.records[3:]
    text = render(dataclasses.replace(results, runs=[dataclasses.replace(first, records=records), *others]))
    assert f"3 {FALLBACK}." in text


def test_erased_clients_are_spoken_of(results, page):
    assert "erased" not in page
    text = render(dataclasses.replace(results, erased=frozenset({1, 4})))
    assert "2 clients were erased from this run" in text
    assert "the model keeps what it learnt" in text
    assert results.summary()["erased"] == 0


def test_a_run_in_which_no_update_was_used_has_no_winner():
    found = execute(spec(dropout=1))
    said = verdict.verdict(found)
    assert (said.leaders, said.share) == (
        [],
        "No update of any client was ever used: nothing was learnt, and nothing shared.",
    )


def test_no_run_at_all(results):
    text = render(dataclasses.replace(results, runs=[], complete=False))
    assert "Interrupted after 0 of 15 rounds" in text
    assert "nothing to compare yet" in text


def test_the_worst_off_are_those_with_the_lowest_utility(results):
    found = tables.worst_off(results)
    assert [w.method for w in found] == [results.table.leaders("gini_avoidable").first, "uniform"]
    for w in found:
        run = results.of(w.method)[0]
        values = tables.normalised(run.ledger, "availability")
        order = sorted(np.flatnonzero(run.ledger.seen()).tolist(), key=lambda k: (values[k], -run.ledger.online[k], k))
        assert [c.name for c in w.lowest] == [str(k) for k in order[:10]]
        unserved = np.flatnonzero(run.ledger.seen() & (run.ledger.selected == 0))
        assert len(w.unserved) + w.more == len(unserved)


def test_without_jinja_the_error_names_the_install(results, monkeypatch):
    from fedparity.report import render as draw

    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedparity\[report\]'"):
        draw(results)


@jinja
def test_write_puts_the_page_into_a_file(results, page, tmp_path):
    from fedparity.report import write_report

    write_report(results, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    with pytest.raises(OutputError):
        write_report(results, tmp_path / "missing" / "report.html")


# ---- the drawing tools


def test_runs_join_what_is_consecutive():
    marked = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]], dtype=bool)
    assert svg.runs(marked) == "M0 0h2M3 0h1M1 2h3"


def test_paths_break_where_values_are_missing():
    drawn = svg.path(np.array([0.0, 1, 2, 3]), np.array([0.0, np.nan, 5, 5]))
    assert drawn == "M0 0l0 0M2 5l0 0h1"


def test_coordinates_are_short():
    assert [svg.num(v) for v in (1.0, -0.04, 2.25, 100.06)] == ["1", "0", "2.2", "100.1"]


@pytest.mark.parametrize("kind", ["linear", "root"])
def test_scales_meet_their_ends(kind):
    scale = svg.Scale(0, 40, 10, 110, kind)
    assert scale.at(0) == pytest.approx(10)
    assert scale.at(40) == pytest.approx(110)
    assert all(0 <= v <= 40 for v in scale.ticks())


def test_log_scales_have_decades_and_nothing_below_zero():
    scale = svg.Scale(0.01, 1000, 0, 100, "log")
    assert scale.ticks(10) == pytest.approx([0.01, 0.1, 1, 10, 100, 1000])
    assert np.isnan(scale.at(-1.0))


def test_labels_keep_their_distance_and_order():
    wanted = [50.0, 50.0, 51.0, 0.0, 99.0, 100.0]
    placed = svg.spread(wanted, 10, 0, 100)
    assert min(np.diff(sorted(placed))) >= 10 - 1e-9
    assert min(placed) >= 0
    assert max(placed) <= 100
    assert np.argsort(placed, kind="stable").tolist() == np.argsort(wanted, kind="stable").tolist()
    assert svg.spread([5.0, 80.0], 10, 0, 100) == [5.0, 80.0]


def test_variance_is_drawn_by_logarithm_only_where_it_spans_decades():
    x = np.arange(1.0, 4)
    wide = charts.lines([charts.Series("a", 0, x, np.array([1e-3, 1.0, 50.0]))], title="t", desc="d")
    flat = charts.lines([charts.Series("a", 0, x, np.array([1.0, 2.0, 50.0]))], title="t", desc="d")
    assert (wide.scale, flat.scale) == ("log", "linear")


def test_a_band_on_a_log_scale_does_not_fall_to_the_axis():
    # y - sd is below 0 in the middle: nothing on a log scale, where the band was a grey block down to the axis.
    y, sd = np.array([1e-3, 1.0, 50.0, 40.0]), np.array([1e-4, 3.0, 5.0, 5.0])
    drawn = charts.lines([charts.Series("a", 0, np.array([1.0, 2, 3, 4]), y, sd)], title="t", desc="d")
    assert drawn.scale == "log"
    across, up = charts._line_scales([charts.Series("a", 0, np.array([1.0, 2, 3, 4]), y, sd)], unit=False)
    band = re.search(r'class="band s0" d="([^"]*)"', drawn.markup).group(1)
    assert band == svg.area(across(np.array([1.0, 2, 3, 4])), up(y**2 / (y + sd)), up(np.minimum(y + sd, up.high)))
    assert up.at(1 / 4) < charts.LINES.bottom


def test_every_dot_is_a_client():
    values = np.array([0.0, 0, 0, 1, 2, 2, 3])
    drawn = charts.dots([charts.Row("a", 0, values)], title="t", desc="d", axis="u/π").markup
    assert re.search(r'class="dot s0" d="([^"]*)"', drawn).group(1).count("M") == len(values)


def test_the_strip_marks_who_was_there():
    trace = Trace.from_matrix([[1, 0, 1], [1, 0, 0], [1, 1, 0]])
    grid = Strip.of(trace)
    assert grid.clients.tolist() == [0, 1, 2]
    assert grid.marks(trace, 3).tolist() == trace.matrix().T.tolist()


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        (words.fixed(-0.0001), "0.000"), (words.fixed(None), "–"), (words.fixed(float("inf")), "∞"),
        (words.percent(0.8891), "88.9\u202f%"), (words.brief(534.99), "535"), (words.brief(0.01234), "0.0123"),
        (words.brief(0), "0"), (words.brief(0.0163, like=0.882), "0.016"),
        (words.tick(0.001), "0.001"), (words.tick(1000), "1,000"),
        (words.tick(1e-6), "1e−6"), (words.listed(["a"]), "a"), (words.listed(["a", "b", "c"]), "a, b and c"),
        (words.listed(list("abcdef")), "a, b, c, d and 2 more"),
    ],
)  # fmt: skip
def test_numbers_in_words(shown, value):
    assert shown == value


def test_nobody_is_said_to_spread_a_benefit_that_was_not_credited():
    run = execute(spec(rounds=4, seeds=1, utility="none"))
    assert "selections per round online" in verdict.verdict(run).opportunity
    assert "benefit" not in verdict.verdict(run).opportunity


@pytest.mark.parametrize(
    ("by", "said"), [("imputed", "in all, surrogates counted, u+û"), ("participation", "per selection, u/S")]
)
def test_every_picture_of_utility_is_in_the_reading_asked_for(results, by, said):
    text = render(dataclasses.replace(results, spec=results.spec.model_copy(update={"normaliser": by})))
    symbol = said.rpartition(" ")[2]
    assert f"Utility {said}: " in text
    assert f"utility {said}</text>" in text, "the axis"
    assert f"Of {symbol} across clients" in text
    assert f": lowest {symbol}" in text
    assert json.dumps(f"Utility {said}") in text, "the table of all clients"
    others = r"<code>.*?</code>|<dl.*?</dl>|<section id=.opportunity.*?</section>"
    assert "u/π" not in re.sub(others, "", text, flags=re.DOTALL)


def test_the_variance_over_rounds_ends_at_the_table_s(results):
    for by in ("availability", "imputed", "participation"):
        run = dataclasses.replace(results, spec=results.spec.model_copy(update={"normaliser": by}))
        ends = re.search(r"after round 15: (.*?)\.</desc>", figures.variance(run).markup).group(1)
        key = in_reading("fairness_variance", by)
        assert ends == ", ".join(f"{name} {words.brief(run.table.mean(key, name))}" for name in run.methods)


def test_labels_are_shown_one_by_one(results, page):
    found = labels(results)
    assert found.heads == ["0", "1", "2", "3"]
    for name, _, cells in found.rows:
        recall = np.mean([one.facts.recall for one in results.of(name)], axis=0)
        mean = results.table.mean("mean_recall", name)
        assert cells == [words.fixed(100 * value, 0) for value in (*recall, mean)]
    assert "Label by label" in page
    assert "Label by label" not in render(execute(spec(dataset="quadratic")))
    wide = [np.append(np.linspace(1, 0.5, 24), np.nan)] * len(results.runs)
    runs = [
        dataclasses.replace(one, facts=dataclasses.replace(one.facts, recall=recall))
        for one, recall in zip(results.runs, wide, strict=True)
    ]
    many = labels(dataclasses.replace(results, runs=runs))
    assert (many.heads, many.left_out) == ([str(k) for k in range(4, 24)], 4)


def test_where_devices_are_timed_the_wait_is_shown(page, capsys):
    assert "Seconds per round" not in page
    people = {"clients": 12, "availability": "bernoulli", "speed": next(iter(SPEEDS))}
    timed = execute(
        Spec(methods=["uniform", "parity"], rounds=6, cohort=3, population=people, data={"set": "logistic"})
    )
    assert "Seconds per round" in render(timed)
    show_run(timed)
    shown = capsys.readouterr().out
    assert "wait, s" in shown.splitlines()[1]
    assert "seconds that a round waits for its slowest participant" in " ".join(shown.split())
