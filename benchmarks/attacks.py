"""What lying clients gain: the tables of docs/security.md (`make attack`), kept in benchmarks/attacks.json on the way.

Seeds begin at 200: none of them was looked at when bounds were chosen. `--fresh` forgets what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fedparity.availability import AVAILABILITY
from fedparity.core.gate import Gate
from fedparity.experiment.methods import METHODS
from fedparity.experiment.runner import execute
from fedparity.experiment.spec import Spec
from fedparity.experiment.starters import read_starter
from fedparity.testing import ATTACKS, Arena
from fedparity.testing.attacks.arena import Figures, result_of, ways_of
from fedparity.testing.attacks.poison import POISONS, poisoned

HERE = Path(__file__).parent
FOUND = HERE / "attacks.json"
PAGE = HERE.parent / "docs" / "security.md"
SEEDS = range(200, 208)
POISON_SEEDS = range(200, 205)
POPULATIONS = ("bernoulli", "phones")
POLICIES = {
    "`reactive` (the paper's rule)": "reactive",
    "`cup_authors` (the authors' code)": "cup_authors",
    "`oort`": "oort",
    "`oort_code` (as released)": "oort_code",
    "`power_of_choice`": "power_of_choice",
    "`least_served`": "least_served",
    "`parity`": "parity",
    "`with_quota:inner=parity`": "with_quota:inner=parity",
}
GROUPS = {
    "what it reports": ("inflated_utility", "claims"),
    "when it is there": ("always_on", "duty_cycling", "sleep", "synchronised"),
    "a new name": ("re_registration",),
}
POISONED = {
    "like anybody": ("bernoulli", None),
    "together": ("bernoulli", "synchronised"),
    "always, on phones": ("phones", "always_on"),
}
COHORTS = (10, 20)
PRICE = ("late_accuracy", "late_worst_accuracy")
ROBUST = {"deployment": METHODS["deployment"].weighting, "deployment with krum": "krum:bad=.3"}
"""The method as it is, and with a weighting that leaves out who is far from the others."""
POISON_ROUNDS = 120


def one(population: str, policy: str, seed: str, name: str) -> list[Figures]:
    """What one attack gains with one seed, under the method `deployment` or under a scheduler without bounds."""
    arena, method = Arena(population, first_seed=int(seed), seeds=1), METHODS.get(policy)
    if policy != "deployment" or method is None:
        return ways_of(name, arena, policy, gate=Gate())
    return ways_of(name, arena, method.scheduler, weighting=method.weighting, gate=method.gate)


def poison(policy: str, cohort: str, seed: str, name: str) -> dict[str, Any]:
    """What poisoned updates do with one seed, by when attackers come."""
    method = METHODS["deployment" if policy in ROBUST else policy]
    weighting = ROBUST.get(policy, method.weighting)
    choices = {"scheduler": method.scheduler, "weighting": weighting, "gate": method.gate}
    arenas = {way: Arena(where, rounds=POISON_ROUNDS, cohort=int(cohort)) for way, (where, _) in POISONED.items()}
    return {
        way: asdict(poisoned(name, arenas[way], int(seed), attendance=when, **choices))
        for way, (_, when) in POISONED.items()
    }


def price(policy: str, seed: str, _: str) -> dict[str, float]:
    """What a weighting costs where rare clients hold what nobody else does: the demo's digits, and nobody attacks."""
    method = {"name": "deployment", "weighting": ROBUST[policy]}
    demo = tomllib.loads(read_starter("demo")) | {"seed": int(seed), "seeds": 1, "methods": [method]}
    table = execute(Spec.model_validate(demo)).table
    return {key: float(table.mean(key, "deployment") or 0.0) for key in PRICE}


def job_of(kind: str, *how: str) -> Any:
    """The outcome of one job, by its name."""
    jobs: dict[str, Callable[..., Any]] = {"poison": poison, "price": price}
    return jobs.get(kind, partial(one, kind))(*how)


def measured(jobs: list[tuple[str, ...]], workers: int) -> dict[str, Any]:
    """The outcome of each job, by its name; those that are in the file are not run again."""
    found: dict[str, Any] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    with ProcessPoolExecutor(workers) as pool:
        waiting = {pool.submit(job_of, *job): "/".join(job) for job in jobs if "/".join(job) not in found}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            FOUND.write_text(
                json.dumps(dict(sorted(found.items())), separators=(",", ":")).replace(',"', ',\n"') + "\n"
            )
            print(f"{len(found)} of {len(jobs)}: {waiting[done]}", flush=True)
    return found


def whole(found: dict[str, Any], seeds: range, *rows: tuple[str, str]) -> list[int]:
    """The seeds of which every row is there: what comes before the seed, and what comes after it."""
    return [seed for seed in seeds if all(f"{before}/{seed}/{after}" in found for before, after in rows)]


def said(seeds: list[int]) -> list[str]:
    """Which seeds a table has."""
    return [f"Seeds: {', '.join(map(str, seeds))}.", ""] if seeds else ["Not measured yet.", ""]


def result(found: dict[str, Any], population: str, policy: str, name: str, seeds: list[int]) -> dict[str, Any]:
    """What an attack gained, over seeds."""
    runs = [found[f"{population}/{policy}/{seed}/{name}"] for seed in seeds]
    ways = [{key: [one[at][key][0] for one in runs] for key in way} for at, way in enumerate(runs[0])]
    return asdict(result_of(name, Arena(population), ways))


def cell(figures: dict[str, Any], *names: str) -> str:
    """Figures in percent."""
    return " / ".join(f"{100 * figures[name]:.1f}" for name in names)


def at_best(seeds: list[int]) -> str:
    """The least that attackers can have of what is filled on phones, if nobody can tell them from who is honest."""
    arena, shares = Arena("phones"), []
    for seed in seeds:
        trace = AVAILABILITY.build(arena.availability).draw(arena.clients, arena.rounds, seed)
        came = set(trace.clients.tolist()) | set(range(arena.attackers))
        shares.append(100 * arena.attackers / len(came))
    return f"On phones {arena.attackers} of all that ever come are {min(shares):.1f} to {max(shares):.1f} % of them."


def preset_table(found: dict[str, dict[str, Any]]) -> list[str]:
    """One row per attack: bernoulli, and phones of what was offered and of what was filled."""
    filled = ("share", "worst_window_share", "weight_share", "rounds_with_a_third")
    full = ("offered_share", "offered_window_share", "step_share", "captured")
    seeds = whole(found, SEEDS, *((f"{population}/deployment", name) for population in POPULATIONS for name in ATTACKS))
    lines = [
        *said(seeds)[: 1 if seeds else None],
        *([at_best(seeds), ""] if seeds else []),
        "| attack | bernoulli | phones, of full rounds | thin | phones, of what was filled |",
        "|---|---|---|---|---|",
    ]
    for name in ATTACKS if seeds else ():
        even, phones = (result(found, population, "deployment", name, seeds) for population in POPULATIONS)
        lines.append(
            f"| `{name}` | {cell(even, *filled)} | {cell(phones, *full)} | {cell(phones, 'thin')} "
            f"| {cell(phones, *filled)} |"
        )
    return lines


def policy_table(found: dict[str, Any]) -> list[str]:
    """One row per policy: the most that any attack of a group gains."""
    lines = [f"| policy | {' | '.join(GROUPS)} | worst window | a third |", "|---" * (len(GROUPS) + 3) + "|"]
    names = [name for group in GROUPS.values() for name in group]
    for label, policy in {**POLICIES, "**method `deployment`**": "deployment"}.items():
        seeds = whole(found, SEEDS, *((f"bernoulli/{policy}", name) for name in names))
        if not seeds:
            continue
        results = {name: result(found, "bernoulli", policy, name, seeds) for name in names}
        cells = []
        for group in GROUPS.values():
            most = max(group, key=lambda name: results[name]["share"])
            cells.append(f"{cell(results[most], 'share')} (`{most}`)")
        for figure in ("worst_window_share", "rounds_with_a_third"):
            most = max(results, key=lambda name: results[name][figure])
            cells.append(f"{cell(results[most], figure)} (`{most}`)")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def poison_table(found: dict[str, dict[str, Any]]) -> list[str]:
    """One row per poison: points of accuracy lost (mean, worst seed), and how far a backdoor opens."""
    columns = [("deployment", m, way) for way in POISONED for m in COHORTS]
    columns += [(policy, 10, "like anybody") for policy in ("deployment with krum", "uniform")]
    heads = [f"{policy}, m = {m}, {way}" for policy, m, way in columns]
    kinds = {f"poison/{policy}/{m}" for policy, m, _ in columns}
    seeds = whole(found, POISON_SEEDS, *((kind, name) for kind in sorted(kinds) for name in POISONS))
    lines = [*said(seeds), f"| poison | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in POISONS if seeds else ():
        cells = []
        for policy, m, way in columns:
            runs, honest = (
                [found[f"poison/{policy}/{m}/{seed}/{kind}"][way] for seed in seeds] for kind in (name, "none")
            )
            lost = [100 * (good["accuracy"] - bad["accuracy"]) for good, bad in zip(honest, runs, strict=True)]
            mean = sum(lost) / len(lost)
            opened = 100 * sum(one["backdoor"] for one in runs) / len(runs)
            accuracy = 100 * sum(one["accuracy"] for one in runs) / len(runs)
            text = f"{accuracy:.1f} %" if name == "none" else f"{mean:+.2f}, {max(lost):+.2f}"
            cells.append(f"{text}; {opened:.0f} %" if "backdoor" in name or name == "none" else text)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def price_table(found: dict[str, Any]) -> list[str]:
    """One row per weighting: accuracy of everybody and of the worst-off tenth."""
    seeds = whole(found, POISON_SEEDS, *((f"price/{policy}", "digits") for policy in ROBUST))
    lines = [*said(seeds), "| method | accuracy | worst tenth |", "|---|---|---|"]
    for policy in ROBUST if seeds else ():
        each = [found[f"price/{policy}/{seed}/digits"] for seed in seeds]
        means = [f"{100 * sum(one[key] for one in each) / len(each):.1f} %" for key in PRICE]
        lines.append(f"| {policy} | {' | '.join(means)} |")
    return lines


def written(page: str, mark: str, lines: list[str]) -> str:
    """The page with what stands between two marks replaced."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.split(begin)
    return before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def jobs_of() -> list[tuple[str, ...]]:
    """All there is to do, the quickest first."""
    jobs: list[tuple[str, ...]] = []
    for seed in map(str, POISON_SEEDS):
        jobs += [("poison", "deployment", str(m), seed, name) for m in COHORTS for name in POISONS]
        jobs += [
            ("poison", policy, "10", seed, name) for policy in ("deployment with krum", "uniform") for name in POISONS
        ]
        jobs += [("price", policy, seed, "digits") for policy in ROBUST]
    held = [
        (population, "deployment", str(seed), name) for seed in SEEDS for population in POPULATIONS for name in ATTACKS
    ]
    names = [name for group in GROUPS.values() for name in group]
    others = [("bernoulli", policy, str(SEEDS[0]), name) for policy in POLICIES.values() for name in names]
    first = len(POPULATIONS) * len(ATTACKS)
    return [*held[:first], *others, *jobs, *held[first:]]


def main() -> None:
    """Measure what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="only write the tables of what is there")
    options = parser.parse_args()
    if options.fresh:
        FOUND.unlink(missing_ok=True)
    found = json.loads(FOUND.read_text()) if options.write else measured(jobs_of(), options.workers)
    page = written(PAGE.read_text(), "attacks", preset_table(found))
    page = written(page, "policies", policy_table(found))
    page = written(page, "poison", poison_table(found))
    PAGE.write_text(written(page, "price", price_table(found)))


if __name__ == "__main__":
    main()
