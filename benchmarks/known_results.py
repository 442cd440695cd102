"""`make known-results`: what papers report, again, as ratios on real data at a reduced scale.

Writes docs/known_results.json (every setting, method and seed) and docs/known_results.md (tables and sentences computed
from it). A block that is in the JSON with the same setting is not done again; `--fresh` redoes it, `--only NAME` does
one, `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.availability import AVAILABILITY
from fedparity.availability.bernoulli import Bernoulli, LabelSkewed
from fedparity.core.coordinator import Coordinator
from fedparity.core.files import write_text
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run_side_by_side
from fedparity.core.protocols import Task, Weighting
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, RoundRecord, Rows, Vector
from fedparity.engines import InProcess, Intermittent
from fedparity.experiment.runner import build_coordinator
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_parts import Population
from fedparity.experiment.tasks import build_task
from fedparity.experiment.tune import grid
from fedparity.metrics import summarise_performance
from fedparity.store.origin import versions
from fedparity.weightings.cafed import keep, score

DOCS = Path(__file__).parent.parent / "docs"
DATA, PAGE = DOCS / "known_results.json", DOCS / "known_results.md"
LATE = 5
"""Models measured, evenly over the last tenth of the rounds: a single round is mostly noise."""
HARD = (3, 5)
"""Cats and dogs: the labels of CIFAR-10 that are told apart worst."""
KNOWN = "known_p"
"""The method that is told the true chances of taking part."""
FASTER = "qffl_x3"
"""q-FFL whose steps the server makes three times as long."""
BY_ACCURACY, BY_VARIANCE = "by accuracy", "by variance"
"""How the rate of a method was chosen."""
SLACK = 0.01
"""Accuracy below FedAvg's best at which a rate may still be chosen by variance."""


@dataclass(frozen=True, slots=True)
class KnownProbability(Weighting[None]):
    """An update counts 1 / (N p_k) with the true p_k: Horvitz-Thompson, which no server could do."""

    p: tuple[float, ...]

    def init(self, num_clients: int) -> None:
        """No memory."""

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 / (N p_k)."""
        return 1 / (ledger.num_clients * np.array(self.p)[rows.clients]), state


# --- settings


@dataclass(frozen=True, slots=True)
class Block:
    """Everything that the numbers of a block depend on."""

    name: str
    methods: tuple[str, ...]
    rounds: int
    rates: tuple[float, ...]
    availabilities: tuple[str, ...] = ("always",)
    seeds: tuple[int, ...] = (2, 3, 4, 5, 6)
    tune_seeds: tuple[int, ...] = (0, 1)
    clients: int = 100
    cohort: int = 100
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    given: dict[str, float] = field(default_factory=dict)
    """Rates, if they are not tuned here."""


FEATURES = {
    "set": "cifar10",
    "partition": "labels:k=2,samples=90",
    "features": "efficientnet_lite0:size=96",
}
LOGISTIC = {"name": "logistic"}
OWN = {
    KNOWN: {"scheduler": "uniform"},
    FASTER: {"scheduler": "uniform", "weighting": "qfair:q=1", "server": "sgd:rate=3"},
}
"""Methods that have no name of their own."""
FAIR = ("fedavg", "qffl", "fedfv")
UNKNOWN = ("fedavg", "fedavg_all", "fedau", KNOWN)
ADVERSARIAL = ("fedavg", "mifa", "mifa_seen", "fedau", "fedvarp")
ONE_STEP, SHORT = {"epochs": 1, "batch": 90}, {"steps": 2, "batch": 32}
RATES = (0.01, 0.03, 0.1, 0.3)
THREE = (2, 3, 4)
BLOCKS = (
    Block("fair", FAIR, 300, (0.01, 0.03, 0.1, 0.3, 1.0), cohort=10, data=FEATURES, model=LOGISTIC, training=ONE_STEP),
    Block(
        "fair_epoch",
        FAIR,
        100,
        (0.003, 0.01, 0.03),
        seeds=THREE,
        cohort=10,
        data=FEATURES,
        model=LOGISTIC,
        training={"epochs": 1, "batch": 10},
    ),
    Block(
        "fair_long",
        ("fedavg", "qffl", FASTER, "fedfv"),
        900,
        (),
        seeds=THREE,
        tune_seeds=(),
        cohort=10,
        data=FEATURES,
        model=LOGISTIC,
        training=ONE_STEP,
        given={"fedavg": 0.03, "qffl": 1.0, FASTER: 1.0, "fedfv": 0.01},
    ),
    Block(
        "unknown",
        UNKNOWN,
        300,
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        ("bernoulli", "markov", "cyclic"),
        seeds=THREE,
        data=FEATURES,
        model=LOGISTIC,
        training={"steps": 5, "batch": 16},
    ),
    Block(
        "adversarial", ADVERSARIAL, 100, RATES, ("skewed",), seeds=THREE, data=FEATURES, model=LOGISTIC, training=SHORT
    ),
    Block(
        "cafed",
        ("fedavg", "fedau", "cafed"),
        100,
        RATES,
        ("hard_markov", "skewed_markov"),
        seeds=THREE,
        data=FEATURES,
        model=LOGISTIC,
        training=SHORT,
    ),
)


def spec_of(block: Block, seed: int) -> Spec:
    """The block as a spec: what is not said here is the spec's default."""
    return Spec(
        name=block.name,
        seed=seed,
        rounds=block.rounds,
        cohort=block.cohort,
        utility="none",
        population=Population(clients=block.clients, availability="always"),
        data=block.data,
        model=block.model,
        training=block.training,
        methods=tuple(MethodSpec.model_validate({"name": m} | OWN.get(m, {})) for m in block.methods),
    )


# --- who takes part


def labels_of(task: Task) -> NDArray[np.int64]:
    """Clients x labels: samples, of a task that has labels."""
    counts = task.label_counts()
    assert counts is not None
    return counts


def smallest(task: Task) -> tuple[int, ...]:
    """The smallest label of each client."""
    counts = labels_of(task)
    return tuple(int(k) for k in (counts > 0).argmax(axis=1))


def label_rates(task: Task, seed: int, mean: float = 0.1, floor: float = 0.02) -> FloatArray:
    """FedAU's: the mix of labels times a draw of Dirichlet(.1), scaled to a mean, not below a floor."""
    counts = labels_of(task)
    mix = counts / counts.sum(axis=1, keepdims=True)
    chances = mix @ stream(seed, "label rates").dirichlet(np.full(counts.shape[1], 0.1))
    return np.asarray(np.clip(chances * mean / chances.mean(), floor, 1.0), dtype=np.float64)


def markov(p: FloatArray, rounds: int, seed: int, appear: float | None = None, nu: float = 0.8) -> Trace:
    """Stationary on-off chains: FedAU's with its chance to appear (less if to leave were beyond 1), else correlation nu."""
    leave = (1 - nu) * (1 - p) if appear is None else np.minimum(1.0, appear * (1 / p - 1))
    come = (1 - nu) * p if appear is None else np.where(p < 1, leave * p / np.maximum(1 - p, 1e-12), 1.0)
    online = stream(seed, "chains", 0).random(len(p)) < p
    found = [np.flatnonzero(online)]
    for t in range(1, rounds):
        online = stream(seed, "chains", t).random(len(p)) < np.where(online, 1 - leave, come)
        found.append(np.flatnonzero(online))
    return Trace.from_rounds(len(p), found)


def cyclic(p: FloatArray, rounds: int, seed: int, period: int = 100) -> tuple[FloatArray, Trace]:
    """FedAU's: ceil(p period) consecutive rounds of every period, from a random phase; and the rates that this makes."""
    active = np.ceil(p * period - 1e-9)
    phase = stream(seed, "phases").integers(period, size=len(p))
    there = (np.flatnonzero((t + phase) % period < active) for t in range(rounds))
    return active / period, Trace.from_rounds(len(p), there)


def participation(kind: str, task: Task, rounds: int, seed: int) -> tuple[FloatArray, Trace]:
    """The true rates, and one draw."""
    n = task.num_clients
    if kind == "always":
        return np.ones(n), AVAILABILITY.build("always").draw(n, rounds, seed)
    if kind.startswith("skewed"):
        model = LabelSkewed(0.1, labels=smallest(task))
        p = model.client_rates(n, seed)
        return p, model.draw(n, rounds, seed) if kind == "skewed" else markov(p, rounds, seed)
    if kind == "hard_markov":
        held = labels_of(task)[:, list(HARD)].sum(axis=1) > 0
        p = np.where(held, 0.1, 0.9)
        return p, markov(p, rounds, seed)
    p = label_rates(task, seed)
    if kind == "cyclic":
        return cyclic(p, rounds, seed)
    drawn = markov(p, rounds, seed, 0.05) if kind == "markov" else Bernoulli(rates=tuple(p)).draw(n, rounds, seed)
    return p, drawn


# --- one comparison


class Late:
    """An observer that measures the models of the last tenth of the rounds, and counts updates that counted nothing."""

    def __init__(self, task: Task, rounds: int, rare: BoolArray) -> None:
        """`rare`: which clients are the rare group."""
        self._task, self._rare = task, rare
        self._at = set(np.unique(np.linspace(rounds - max(1, rounds // 10), rounds - 1, LATE).astype(int)).tolist())
        self.rows: dict[str, list[dict[str, float]]] = {}
        self._came: dict[str, list[NDArray[np.float64]]] = {}

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """Measure a late round."""
        fresh = record.row_ages == 0
        rare, nothing = self._rare[record.row_clients[fresh]], record.row_weights[fresh] == 0
        tally = [(rare & nothing).sum(), rare.sum(), (~rare & nothing).sum(), (~rare).sum()]
        self._came.setdefault(method, []).append(np.array(tally, dtype=np.float64))
        if record.round in self._at:
            self.rows.setdefault(method, []).append(self._measure(params))

    def _measure(self, params: Vector) -> dict[str, float]:
        evals = self._task.evaluate(params, np.arange(self._task.num_clients), "both")
        s = summarise_performance(evals.accuracy)
        rare = self._rare
        return {
            "accuracy": self._task.accuracy(params) or 0.0,
            "loss": float(evals.loss.mean()),
            "mean": s.mean,
            "variance": s.variance_percent2,
            "worst5": s.worst5,
            "worst10": s.worst10,
            "best5": s.best5,
            "rare": float(evals.accuracy[rare].mean()) if rare.any() else float("nan"),
            "others": float(evals.accuracy[~rare].mean()),
        }

    def numbers(self, method: str) -> dict[str, float]:
        """Means over the late rounds; a diverged model is told by a loss that is not finite."""
        rows = self.rows[method]
        found = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        rare_nothing, rare, nothing, others = np.sum(self._came[method], axis=0)
        found["rare_left_out"] = float(rare_nothing / max(1, rare))
        found["others_left_out"] = float(nothing / max(1, others))
        return {key: round(value, 6) for key, value in found.items() if np.isfinite(value)}


def compare(block: Block, spec: Spec, kind: str, seed: int) -> dict[str, dict[str, float]]:
    """Every method of the spec on the same data, trace and first model."""
    task = build_task(spec, seed, 1)
    p, trace = participation(kind, task, block.rounds, seed)
    methods: dict[str, Coordinator] = {}
    for m in spec.methods:
        made = build_coordinator(spec, m, seed, task, trace)
        name = m.name.partition("+")[0]
        if name == KNOWN:
            made = replace(made, weighting=KnownProbability(tuple(p.tolist())))
        if name == "fedavg_all":  # the step is shrunk by the mean rate, which FedAU's authors give back
            made = replace(made, server=type(made.server)(rate=float(1 / p.mean())))  # type: ignore[call-arg]
        methods[m.name] = made
    late = Late(task, block.rounds, (p == p.min()) & (p < p.max()))
    engine = Intermittent(InProcess(task, 1), trace)
    run_side_by_side(
        methods,
        engine,
        block.rounds,
        params=task.init(stream(seed, "init")),
        num_clients=task.num_clients,
        observers=[late],
    )
    return {name: late.numbers(name) for name in methods}


def tune(block: Block) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Every method at every rate on paired seeds, under the first availability: method, rate, then seed."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for seed in block.tune_seeds:
        wide = grid(spec_of(block, seed), block.rates)
        for name, numbers in compare(block, wide, block.availabilities[0], seed).items():
            method, _, rate = name.partition("+")
            found.setdefault(method, {}).setdefault(rate, []).append({"seed": seed} | numbers)
        print(f"  {block.name}: tuned on seed {seed}", flush=True)
    return found


def by_accuracy(tuning: dict[str, Any]) -> dict[str, float]:
    """The rate of every method with the highest test accuracy; a tie goes to the smaller."""
    means = {m: {float(r): _mean(rows, "accuracy") for r, rows in rates.items()} for m, rates in tuning.items()}
    return {m: max(sorted(rates), key=rates.__getitem__) for m, rates in means.items()}


def by_variance(tuning: dict[str, Any], slack: float = SLACK) -> dict[str, float]:
    """The rate of every method with the least variance among those whose accuracy is near FedAvg's best."""
    best = by_accuracy(tuning)
    enough = max(_mean(rows, "accuracy") for rows in tuning["fedavg"].values()) - slack
    found = {}
    for m, rates in tuning.items():
        fit = {float(r): _mean(rows, "variance") for r, rows in rates.items() if _mean(rows, "accuracy") >= enough}
        found[m] = min(sorted(fit), key=fit.__getitem__) if fit else best[m]
    return found


def _mean(rows: list[dict[str, float]], key: str) -> float:
    return float(np.mean([row.get(key, 0.0) for row in rows]))


def carry_out(block: Block) -> dict[str, Any]:
    """Tune, then run every availability and seed."""
    begin = time.perf_counter()
    tuning = tune(block)
    fair = block.name.startswith("fair") and not block.given
    chosen = {kind: block.given or by_accuracy(tuning) for kind in block.availabilities}
    if fair:
        chosen = {BY_ACCURACY: by_accuracy(tuning), BY_VARIANCE: by_variance(tuning)}
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for kind, rates in chosen.items():
        for seed in block.seeds:
            spec = spec_of(block, seed)
            methods = tuple(m.model_copy(update={"rate": rates[m.name]}) for m in spec.methods)
            where = block.availabilities[0] if fair else kind
            for name, numbers in compare(block, spec.model_copy(update={"methods": methods}), where, seed).items():
                runs.setdefault(kind, {}).setdefault(name, []).append({"seed": seed} | numbers)
            print(f"  {block.name}: {kind}, seed {seed}, {time.perf_counter() - begin:.0f} s", flush=True)
    return {
        "setting": setting_of(block),
        "tuning": tuning,
        "rates": chosen,
        "runs": runs,
        "seconds": round(time.perf_counter() - begin),
    }


def setting_of(block: Block) -> dict[str, Any]:
    """The block as JSON has it."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(block)))
    return {key: value for key, value in found.items() if key != "given" or value}


def two_cases() -> list[dict[str, Any]]:
    """CA-Fed's rule on three clients with availabilities .9, .5, .1: exact."""
    alpha, pi, nu = np.full(3, 1 / 3), np.array([0.9, 0.5, 0.1]), np.zeros(3)
    found = []
    for gaps in ((1.0, 1.0, 1.3), (1.0, 1.0, 4.0)):
        kept = keep(alpha, pi, nu, np.array(gaps))
        with_all, without = (score(np.array(k, dtype=np.bool_), alpha, np.array(gaps)) for k in ((1, 1, 1), (1, 1, 0)))
        found.append({"gaps": gaps, "all": round(with_all, 6), "without": round(without, 6), "kept": kept.tolist()})
    return found


# --- the page, computed from the numbers


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence whose numbers and verdict are computed."""

    text: str
    held: bool
    clear: bool = True
    """Whether it is beyond what seeds do by themselves."""

    def line(self) -> str:
        """As the page shows it."""
        verdict = "**Did not come out**" if not self.held else "Came out" if self.clear else "**Not clear**"
        return f"- {verdict}: {self.text}"


def clear(differences: FloatArray) -> bool:
    """Whether the mean of paired differences is beyond twice its standard error."""
    return bool(abs(differences.mean()) > 2 * differences.std(ddof=1) / np.sqrt(len(differences)))


def column(block: dict[str, Any], kind: str, method: str, key: str) -> FloatArray:
    """One number of a method, seed by seed."""
    return np.array([row[key] for row in block["runs"][kind][method]], dtype=np.float64)


def cell(values: FloatArray, key: str) -> str:
    """Mean and spread over seeds; shares in percent."""
    factor, digits = {"variance": (1.0, 1), "loss": (1.0, 2)}.get(key, (100.0, 1))
    return f"{factor * values.mean():.{digits}f} ± {factor * values.std():.{digits}f}"


def _seeds(held: Sequence[bool] | np.ndarray) -> str:
    return f"in {int(np.sum(held))} of {len(held)} seeds"


def lower(
    block: dict[str, Any], kind: str, pair: tuple[str, str], what: str, *, key: str, scale: float = 100.0
) -> Claim:
    """The first of the pair has less of `key` than the second, on average over paired seeds."""
    a, b = pair
    x, y = scale * column(block, kind, a, key), scale * column(block, kind, b, key)
    text = f"{what}: `{a}` below `{b}`, {x.mean():.1f} to {y.mean():.1f} (ratio {x.mean() / max(y.mean(), 1e-9):.2f}), {_seeds(x < y)}."
    return Claim(text, bool(x.mean() < y.mean()), clear(x - y))


def higher(block: dict[str, Any], kind: str, pair: tuple[str, str], what: str, *, key: str = "accuracy") -> Claim:
    """The first of the pair has more of `key` than the second, on average over paired seeds."""
    a, b = pair
    x, y = 100 * column(block, kind, a, key), 100 * column(block, kind, b, key)
    text = (
        f"{what}: `{a}` above `{b}`, {x.mean():.1f} to {y.mean():.1f} %"
        f" ({(x - y).mean():+.1f} ± {(x - y).std():.1f} points), {_seeds(x > y)}."
    )
    return Claim(text, bool(x.mean() > y.mean()), clear(x - y))


def not_lower(block: dict[str, Any], kind: str, a: str, b: str) -> Claim:
    """Mean accuracy at most b's seed spread below b's."""
    x, y = 100 * column(block, kind, a, "mean"), 100 * column(block, kind, b, "mean")
    text = (
        f"mean accuracy of `{a}` not below that of `{b}` by more than the latter's spread over seeds:"
        f" {x.mean():.1f} to {y.mean():.1f} ± {y.std():.1f} %."
    )
    return Claim(text, bool(x.mean() >= y.mean() - y.std()))


CLOSE = 1.0
"""Points of accuracy within which two methods are called alike."""


def alike(block: dict[str, Any], kind: str, a: str, b: str) -> Claim:
    """Accuracies no further apart than `CLOSE`."""
    x, y = 100 * column(block, kind, a, "accuracy"), 100 * column(block, kind, b, "accuracy")
    text = (
        f"{kind}: `{a}` within {CLOSE:g} point of `{b}`, {x.mean():.1f} to {y.mean():.1f} %"
        f" ({(x - y).mean():+.1f} ± {(x - y).std():.1f})."
    )
    return Claim(text, bool(abs((x - y).mean()) <= CLOSE))


def claims_of(name: str, found: dict[str, Any]) -> list[Claim]:
    """What a block says about what was expected."""
    if name == "two_cases":
        first, second = found["cases"]
        return [
            Claim(f"gaps {_gaps(first)}: the rare client stays ({_scores(first)}).", all(first["kept"])),
            Claim(
                f"gaps {_gaps(second)}: the rare client is left out ({_scores(second)}).",
                second["kept"] == [True, True, False],
            ),
        ]
    said: list[Claim] = []
    for kind in found["runs"]:
        said += SAID[name.partition("_")[0]](found, kind)
    return said


def _fair(found: dict[str, Any], kind: str) -> list[Claim]:
    what = f"{'' if kind == 'always' else f'rates {kind}, '}variance of accuracy over clients, %²"
    pairs = (("qffl", "fedavg"), ("fedfv", "fedavg"), ("fedfv", "qffl"))
    less = [lower(found, kind, pair, what, key="variance", scale=1.0) for pair in pairs]
    return [*less, not_lower(found, kind, "qffl", "fedavg"), not_lower(found, kind, "fedfv", "fedavg")]


def _unknown(found: dict[str, Any], kind: str) -> list[Claim]:
    return [alike(found, kind, "fedau", KNOWN), higher(found, kind, ("fedau", "fedavg"), f"{kind}, test accuracy")]


def _adversarial(found: dict[str, Any], kind: str) -> list[Claim]:
    return [
        higher(found, kind, ("mifa", "fedavg"), "test accuracy"),
        higher(found, kind, ("mifa_seen", "fedavg"), "test accuracy"),
        higher(found, kind, ("mifa", "fedavg"), "accuracy of the rare group", key="rare"),
    ]


def _cafed(found: dict[str, Any], kind: str) -> list[Claim]:
    rare, others = (100 * column(found, kind, "cafed", f"{who}_left_out").mean() for who in ("rare", "others"))
    text = f"{kind}: `cafed` leaves out updates of the rare group, {rare:.0f} % of those that came ({others:.0f} % of the others')."
    return [
        Claim(text, bool(rare > others)),
        lower(found, kind, ("cafed", "fedau"), f"{kind}, accuracy of the rare group, %", key="rare"),
    ]


SAID = {"fair": _fair, "unknown": _unknown, "adversarial": _adversarial, "cafed": _cafed}


def _gaps(case: dict[str, Any]) -> str:
    return "(" + ", ".join(f"{g:g}" for g in case["gaps"]) + ")"


def _scores(case: dict[str, Any]) -> str:
    return f"score with all {case['all']:.3f}, without it {case['without']:.3f}"


COLUMNS = {
    "fair": (
        ("mean", "mean %"),
        ("variance", "variance %²"),
        ("worst5", "worst 5 %"),
        ("worst10", "worst 10 %"),
        ("best5", "best 5 %"),
    ),
    "unknown": (("accuracy", "test accuracy %"), ("loss", "loss"), ("rare", "rare group %")),
    "adversarial": (
        ("accuracy", "test accuracy %"),
        ("loss", "loss"),
        ("rare", "rare group %"),
        ("others", "others %"),
    ),
    "cafed": (
        ("accuracy", "test accuracy %"),
        ("rare", "rare group %"),
        ("others", "others %"),
        ("rare_left_out", "rare updates left out %"),
        ("others_left_out", "others' %"),
    ),
}
PUBLISHED = {"fedavg": 160.3, "qffl": 138.4, "fedfv": 116.0}
"""Variances in FedFV's stored logs (CNN, 2,000 rounds, 5 seeds), of which ratios are compared."""


def table(found: dict[str, Any]) -> Iterator[str]:
    """One table of a block."""
    group = found["setting"]["name"].partition("_")[0]
    shown, fair = COLUMNS[group], group == "fair"
    several = len(found["runs"]) > 1
    head = [
        *(["rates" if fair else "participation"] if several else []),
        "method",
        "rate",
        *(title for _, title in shown),
    ]
    head += ["ratio of variance", "published"] if fair else []
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for kind, methods in found["runs"].items():
        for method in methods:
            cells = [kind] if several else []
            cells += [f"`{method}`", f"{found['rates'][kind][method]:g}"]
            cells += [cell(column(found, kind, method, k), k) for k, _ in shown]
            if fair:
                ratio = (
                    column(found, kind, method, "variance").mean() / column(found, kind, "fedavg", "variance").mean()
                )
                told = PUBLISHED.get(method)
                cells += [f"{ratio:.2f}", "-" if told is None else f"{told / PUBLISHED['fedavg']:.2f}"]
            yield "| " + " | ".join(cells) + " |"


def scale(found: dict[str, Any]) -> str:
    """The setting in a sentence."""
    s = found["setting"]
    data, t = s["data"], s["training"]
    model = f"`{s['model']['name']}`" + (f" on frozen features `{data['features']}`" if data.get("features") else "")
    local = f"{t['steps']} steps" if t.get("steps") else f"{t['epochs']} epoch{'s' if t['epochs'] > 1 else ''}"
    at_the_end = [f"`{m}` ({r:g})" for m, r in by_accuracy(found["tuning"]).items() if r in _ends(s["rates"])]
    edge = f" Best at the end of the grid: {', '.join(at_the_end)}." if at_the_end else ""
    who = "everybody online takes part" if s["cohort"] == s["clients"] else f"{s['cohort']} take part per round"
    tuned = ""
    if s["tune_seeds"]:
        seeds = f"seed{'s' if len(s['tune_seeds']) > 1 else ''} {', '.join(map(str, s['tune_seeds']))}"
        tuned = f" rates from {', '.join(f'{r:g}' for r in s['rates'])} by test accuracy on {seeds};"
    return (
        f"`{data['set']}`, {s['clients']} clients (`{data['partition']}`), {who}, {s['rounds']} rounds, {model},"
        f" {local} of batch {t['batch']};{tuned} mean ± sd over {len(s['seeds'])} {'other ' if tuned else ''}seeds.{edge}"
    )


def _ends(rates: list[float]) -> tuple[float, ...]:
    return (min(rates), max(rates)) if rates else ()


TITLES = {
    "fair": "FedFV and q-FFL make accuracy even over clients",
    "fair_long": "The same for three times as long",
    "fair_epoch": "The same with an epoch of small batches per round",
    "unknown": "FedAU does as well as inverse probabilities that are known",
    "adversarial": "MIFA beats FedAvg when availability follows the labels",
    "two_cases": "CA-Fed leaves the rare client out: its two cases, exactly",
    "cafed": "CA-Fed leaves the rare group out: on data",
}
NOTES = {
    "fair": "Everybody is online. One full-batch step per round, as FedFV's authors train. Rates by accuracy: the best test"
    f" accuracy; by variance: the least variance among rates at most {100 * SLACK:g} point below FedAvg's best accuracy (if"
    " there is none, by accuracy). Published: ratios of FedFV's stored logs (CNN from scratch, 2,000 rounds). Clients with the same pair of labels"
    " share test images, so there are ten different accuracies and the worst 5 % are the worst 10 %.",
    "fair_long": "Added after the table above was seen, with its rates by variance and on three of its seeds: are 300 rounds too"
    " few? `qffl_x3` is q-FFL with a server rate of 3, since its steps are short.",
    "fair_epoch": "Nine steps per round instead of one: q-FFL's step shrinks with the square of how far clients move.",
    "unknown": "Rates p are FedAU's: the client's mix of labels times a draw of Dirichlet(.1), mean .1, at least .02; `known_p`"
    " weighs by 1 / (N p) with the true p; `fedavg_all` has a server rate of 1 / mean p. Markov: chance to appear .05;"
    " cyclic: period 100. Rates are tuned under bernoulli; the grid was widened once, as all"
    " four methods were best at its ends. What counts as alike was made stricter (2 points before) after the numbers were seen. The rare group are clients at the lowest p.",
    "adversarial": "Availability `label_skewed`: p = .1 + .9 min(label) / 9. The rare group are clients at p = .1.",
    "two_cases": "Three clients, availabilities .9, .5, .1, equal weights; computed with the library's own rule.",
    "cafed": "On-off chains with correlation .8 from round to round. hard_markov: clients that hold cats or dogs are there with"
    " p = .1, others with .9 (added after a trial of skewed_markov: 60 rounds, seed 0, in which the rare group did about as well with `cafed` as with `fedau`); skewed_markov: p as above.",
}


def page(everything: dict[str, Any]) -> str:
    """docs/known_results.md."""
    blocks = everything["blocks"]
    seconds = sum(b.get("seconds", 0) for b in blocks.values())
    lines = [
        "# Known results",
        "",
        "What papers report, again, at a reduced scale on real data: orderings and ratios, not their absolute numbers. Every"
        " number and verdict is computed from [known_results.json](known_results.json), which has every seed, by",
        "",
        "```sh",
        "make known-results",
        "```",
        "",
        f"It took {seconds / 60:.0f} minutes on a shared machine of two cores (features are computed once, before). Methods of"
        " a table share data, first models and traces; rates are tuned on other seeds but the same test images, for all alike; an order is not clear if the mean of paired differences is within twice its standard error; numbers are means over"
        f" {LATE} models from the last tenth of the rounds.",
        "",
    ]
    for name, found in blocks.items():
        lines += [f"## {TITLES.get(name, name)}", ""]
        if "setting" in found:
            lines += [scale(found), "", *([NOTES[name], ""] if name in NOTES else []), *table(found), ""]
        else:
            lines += [NOTES[name], ""]
        lines += [*(claim.line() for claim in claims_of(name, found)), ""]
        lines += [*TRIED[name](found), ""] if name in TRIED else []
    return "\n".join(lines).rstrip() + "\n"


def at_all_rates(found: dict[str, Any]) -> list[str]:
    """What rates do to accuracy and variance, on the seeds that tuned them."""
    lines = [
        "The order depends on the rates, since FedAvg's and FedFV's variance grows with theirs: accuracy % / variance %² on the tuning seeds. q-FFL"
        " divides by squared gradients, so that its step stops growing with the rate.",
        "",
        "| method | " + " | ".join(f"{r:g}" for r in found["setting"]["rates"]) + " |",
        "|---|" + "---|" * len(found["setting"]["rates"]),
    ]
    for method, rates in found["tuning"].items():
        cells = [f"{100 * _mean(rows, 'accuracy'):.1f} / {_mean(rows, 'variance'):.0f}" for rows in rates.values()]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return lines


TRIED: dict[str, Callable[[dict[str, Any]], list[str]]] = {"fair": at_all_rates}
"""What was looked into where something did not come out."""


def produce(blocks: Sequence[Block], kept: dict[str, Any], save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Every block that is not kept with the same setting, one after the other."""
    found: dict[str, Any] = {"versions": versions(), "blocks": {}}
    for block in blocks:
        if block.name == "cafed":
            found["blocks"]["two_cases"] = {"cases": json.loads(json.dumps(two_cases()))}
        old = kept.get(block.name)
        same = old is not None and old["setting"] == setting_of(block)
        print(f"{block.name}: {'kept' if same else 'running'}", flush=True)
        found["blocks"][block.name] = old if same else carry_out(block)
        save(found)
    return found


def text_of(found: dict[str, Any]) -> str:
    """The JSON as it is written: one line per run."""
    text = json.dumps(found, indent=1, allow_nan=False)
    flat = json.JSONEncoder(allow_nan=False).encode

    def rows(value: Any, depth: int) -> str:
        if isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()):
            inner = ",\n".join(f"{' ' * (depth + 1)}{flat(k)}: {rows(v, depth + 1)}" for k, v in value.items())
            return "{\n" + inner + "\n" + " " * depth + "}"
        if isinstance(value, list) and any(isinstance(v, dict) for v in value):
            return "[\n" + ",\n".join(" " * (depth + 1) + flat(v) for v in value) + "\n" + " " * depth + "]"
        return flat(value)

    shown = rows(found, 0) + "\n"
    assert json.loads(shown) == json.loads(text)
    return shown


def main() -> None:
    """Run what is missing, and write both files after every block."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="do every block again")
    parser.add_argument("--only", help="do this block alone; the others stay as they are")
    parser.add_argument("--page", action="store_true", help="write the page from the JSON")
    asked = parser.parse_args()
    old = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {"blocks": {}}

    def save(found: dict[str, Any]) -> None:
        order = [n for n in TITLES if n in found["blocks"] or n in old["blocks"]]
        whole = found | {"blocks": {n: found["blocks"].get(n) or old["blocks"][n] for n in order}}
        write_text(DATA, text_of(whole))
        write_text(PAGE, page(whole))

    if asked.page:
        save(old)
        return
    chosen = [b for b in BLOCKS if asked.only in (None, b.name)]
    kept = {} if asked.fresh else {n: b for n, b in old["blocks"].items() if "setting" in b}
    produce(chosen, kept, save)
    print(PAGE)


if __name__ == "__main__":
    main()
