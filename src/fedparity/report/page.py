"""What the template is given: every part of the page, computed from a run alone.

No clock, no random number and no telemetry goes in, so the same run gives the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedparity.availability import shown_name
from fedparity.experiment.methods import METHODS
from fedparity.experiment.run import Run
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_file import to_toml
from fedparity.experiment.spec_parts import component_text
from fedparity.metrics import MEASURES, SUFFIXES, gini
from fedparity.metrics.of_utility import READINGS
from fedparity.report import charts, figures, tables, verdict, words
from fedparity.report.clients import all_clients
from fedparity.report.labels import labels
from fedparity.report.reach import reach
from fedparity.report.tradeoff import draw_inline

ALSO_DEFINED = ("never_available", "mean_recall")
"""Metrics on the page that head no column of the large tables."""


@dataclass(frozen=True, slots=True)
class MethodNote:
    """A method in the definitions: what it does and what it is made of."""

    name: str
    summary: str
    parts: str
    swatch: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A reference, and the methods that rest on it."""

    key: str
    text: str
    used: str


def context(run: Run, spec_text: str | None = None) -> dict[str, Any]:
    """Everything the template shows."""
    share, opportunity = tables.share_table(run), tables.opportunity_table(run)
    pairs = zip(run.spec.methods, run.resolved.methods, strict=True)
    return {
        "run": run,
        "spec": run.spec,
        "verdict": verdict.verdict(run),
        "notice": notice(run),
        "what": what(run),
        "reach": reach(run),
        "seeds": run.seeds,
        "facts": facts(run),
        "share": share,
        "opportunity": opportunity,
        "legend": [(name, charts.swatch(index), charts.style(index)) for index, name in enumerate(run.methods)],
        "accuracy": figures.accuracy(run),
        "variance": figures.variance(run),
        "lorenz": figures.lorenz_curves(run),
        "ginis": ginis(run),
        "limit_gini": limit_gini(run),
        "strip": figures.client_strip(run),
        "dots": figures.utility_dots(run),
        "surrogates": tables.has_surrogates(run),
        "worst": tables.worst_off(run),
        "clients": all_clients(run),
        "tradeoff": draw_inline(run.table),
        "labels": labels(run),
        "reading": READINGS[run.spec.reading],
        "first_seed": run.spec.seed,
        "metrics": {name: measure.says for name, measure in MEASURES.items()},
        "suffixes": list(SUFFIXES.items()),
        "definitions": definitions(share, opportunity),
        "methods": [method_note(index, *pair) for index, pair in enumerate(pairs)],
        "utility": component_text(run.spec.utility),
        "given": shown_spec(run.spec, spec_text),
        "resolved": shown_spec(run.resolved),
        "citations": citations(run),
    }


def choices(tabs: int, methods: int) -> str:
    """Rules of style that say, without a script, which tab is shown and which lines fade beside a name."""
    rules = []
    for k in range(tabs):
        chosen, label = f"#strip-{k}:checked ~", f"label[for=strip-{k}]"
        rules += [
            f"{chosen} .view .o{k} {{ display: inline; }}",
            f"{chosen} .says.t{k} {{ display: block; }}",
            f"{chosen} .tabs {label} {{ background: var(--ink); border-color: var(--ink); color: var(--paper); }}",
            f"#strip-{k}:focus-visible ~ .tabs {label} {{ outline: 2px solid var(--accent); outline-offset: 2px; }}",
        ]
    for k in range(min(charts.STYLES, methods)):
        faded = f":is(.line, .band, .mark, .lead):not(.s{k})"
        rules.append(f".group:has(.legend .k{k}:hover) {faded} {{ opacity: .08; }}")
    return "".join(f"{rule}\n" for rule in rules)


def what(run: Run) -> str:
    """What was run, in one line."""
    spec, trace = run.spec, run.trace
    return (
        f"{words.plural(len(run.methods), 'method')} on {shown_name(spec.data.set)}, {words.plural(run.seeds, 'seed')}:"
        f" {words.plural(trace.num_clients, 'client')} ({shown_name(spec.population.shown)}),"
        f" {words.plural(run.rounds, 'round')}, {spec.cohort:,} asked per round."
    )


def shown_spec(spec: Spec, text: str | None = None) -> str:
    """A spec as its author wrote it, if that is at hand; files at absolute paths are called by their name alone."""
    shown = to_toml(spec) if text is None else text
    for path in sorted(set(_absolute(spec.model_dump())), key=len, reverse=True):  # one may begin another
        written = json.dumps(path, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
        if text is not None and path not in shown and written not in shown:  # escaped in some other way
            return shown_spec(spec)
        shown = shown.replace(path, Path(path).name).replace(written, Path(path).name)
    return shown


def _absolute(value: Any) -> Iterator[str]:
    """Every absolute path in a spec."""
    if isinstance(value, str) and Path(value).is_absolute():
        yield value
    elif isinstance(value, (dict, list, tuple)):
        inner = value.values() if isinstance(value, dict) else value
        yield from (path for part in inner for path in _absolute(part))


def notice(run: Run) -> str:
    """How far an interrupted run came, who was erased from it, which rounds counted for less; empty: nothing."""
    gone = len(run.erased)
    erased = (
        f"{words.plural(gone, 'client')} {'was' if gone == 1 else 'were'} erased from this run: they count as never"
        " online, so fill and limits are those of the others; the model keeps what it learnt."
    )
    return " ".join(filter(None, (_interrupted(run), erased if gone else "", held_back(run))))


def held_back(run: Run) -> str:
    """Rounds of which the journal has something to say, as that a bound cut their weights; empty: none."""
    told = []
    for name in run.methods:
        records = [record for one in run.of(name) for record in one.records]
        noted = Counter(_note(note) for record in records for note in record.notes)
        said = [f"{times:,} {note}" for note, times in noted.items()]
        if said:
            told.append(f"{name}: of {words.plural(len(records), 'round')} {', '.join(said)}.")
    return " ".join(told)


def _note(note: str) -> str:
    """What a note of the journal says of its round, without the numbers, in words that follow how many there were."""
    if note.startswith("abandoned: "):
        return "changed nothing, since the step led to no finite model"
    return "counted for less than a full step, since weights are capped" if " capped at " in note else note


def _interrupted(run: Run) -> str:
    if run.complete:
        return ""
    done, wanted = run.seeds, run.spec.seeds
    if run.rounds < run.spec.rounds:
        return f"Interrupted after {run.rounds:,} of {run.spec.rounds:,} rounds; what follows covers those."
    return f"Interrupted after {done:,} of {wanted:,} seeds; what follows covers those."


def facts(run: Run) -> list[tuple[str, str]]:
    """The set-up at a glance."""
    trace, spec = figures.seen_trace(run), run.spec
    return [
        ("Clients, N", f"{trace.num_clients:,}"),
        ("Rounds, T", _of(run.rounds, spec.rounds)),
        ("Cohort, m", f"{spec.cohort:,}"),
        ("Availability", shown_name(spec.population.shown)),
        ("Online, mean", words.brief(float(trace.sizes().mean()))),
        ("Never there", f"{int((trace.counts() == 0).sum()):,}"),
        ("Seeds", _of(run.seeds, spec.seeds)),
        ("Task", shown_name(spec.data.set)),
    ]


def _of(done: int, wanted: int) -> str:
    return f"{done:,}" if done == wanted else f"{done:,} of {wanted:,}"


def ginis(run: Run) -> list[tuple[str, str, str]]:
    """Methods with swatch and Gini, the most even first: the legend of the Lorenz curve."""
    found = []
    for index, name in enumerate(run.methods):
        value = run.table.mean("gini", name)
        if value is not None:
            found.append((value, index, name))
    return [(name, charts.swatch(index), words.fixed(value)) for value, index, name in sorted(found)]


def limit_gini(run: Run) -> str:
    """The Gini of the limit that is drawn."""
    return words.fixed(gini(run.limit.counts))


def definitions(*shown: tables.Grid) -> list[tuple[str, str]]:
    """The metrics that appear, with their one-line definitions."""
    names = [column.metric for table in shown for column in table.columns]
    return [(name, MEASURES[name].says) for name in dict.fromkeys([*names, *ALSO_DEFINED])]


def method_note(index: int, given: MethodSpec, filled: MethodSpec) -> MethodNote:
    """One contender in words."""
    changed = given.model_dump(exclude_none=True).keys() - {"name"}
    known = METHODS.get(given.name)
    summary = "A custom combination." if known is None else known.summary
    if known is not None and changed:
        summary += f" Changed here: {', '.join(sorted(changed))}."
    given_parts = filled.model_dump(exclude={"name"}, exclude_none=True)
    parts = [f"{key} {component_text(value)}" for key, value in given_parts.items()]
    return MethodNote(given.name, summary, " · ".join(parts), charts.swatch(index))


def citations(run: Run) -> list[Citation]:
    """The references of the methods that ran, each once."""
    used: dict[str, list[str]] = {}
    for name in run.methods:
        reference = METHODS[name].reference if name in METHODS else None
        if reference is not None:
            used.setdefault(reference, []).append(name)
    return [Citation(names[0], text, ", ".join(names)) for text, names in used.items()]
