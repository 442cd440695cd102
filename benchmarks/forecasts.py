"""`make results`: what looking ahead is worth, by population, after a day was watched and blind.

Parameters were chosen on other draws, windows and samples (seeds from 1000 on) than those reported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedparity import AVAILABILITY, Coordinator, Intermittent, NoTraining, Trace, frontier, run, stream
from fedparity.availability.markov import Markov
from fedparity.core.protocols import Estimator
from fedparity.core.types import BoolArray, FloatArray, Ids
from fedparity.estimators import Oracle
from fedparity.metrics import gini
from fedparity.traces import Intervals, open_file

TRACES = Path(__file__).parents[2] / "shared/data/traces"
DAY, ROUNDS, DRAWS, MORE = 48, 200, 10, 30
"""Chains, whose forecasts are worth least, are drawn more often."""
RATES = 100
"""Rates told apart by a posterior."""
SIMULATED = 100
"""Above so many clients `rollout` is left out: it takes O(N) time."""
BLIND = ", blind"
WANTED = 0.4
Draw = Callable[[int], Trace]


@dataclass(frozen=True)
class Population:
    """Where schedulers are compared: one trace of a day and 200 rounds per draw."""

    name: str
    cohort: int
    draw: Draw
    law: Markov | None = None
    """Chains whose law can be given away."""


@dataclass(frozen=True)
class Law(Estimator[int]):
    """Knows every client's rate and how long states last, but not the future: what any forecast could learn at best."""

    rates: FloatArray
    nu: float

    def init(self, num_clients: int) -> int:
        """Nothing needs to be remembered."""
        return 0

    def observe(self, state: int, available: Ids) -> int:
        """Nothing is learned."""
        return state

    def estimate(self, state: int, clients: Ids) -> FloatArray:
        """The true rates."""
        return self.rates[clients]

    def remaining(self, state: int, clients: Ids, rounds_left: int) -> FloatArray:
        """The rounds online to be expected of clients that are online now."""
        return to_come(self.nu, self.rates[clients], rounds_left)


@dataclass(frozen=True)
class Told(Estimator[tuple[FloatArray, BoolArray | None]]):
    """Knows how long states last and what rates are drawn from, and learns rates by Bayes' rule: all that observations say of them."""

    law: Markov
    among: FloatArray
    """Rates that a client may have, each as likely."""

    def init(self, num_clients: int) -> tuple[FloatArray, BoolArray | None]:
        """Every rate is as likely; nobody was seen."""
        return np.zeros((num_clients, len(self.among))), None

    def observe(
        self, state: tuple[FloatArray, BoolArray | None], available: Ids
    ) -> tuple[FloatArray, BoolArray | None]:
        """How likely each rate has made this round, given the one before."""
        likely, last = state
        online = np.zeros(len(likely), dtype=np.bool_)
        online[available] = True
        kept = 0.0 if last is None else self.law.nu
        chance = (1 - kept) * self.among + kept * (0.0 if last is None else last[:, None])
        return likely + np.log(np.where(online[:, None], chance, 1 - chance)), online

    def estimate(self, state: tuple[FloatArray, BoolArray | None], clients: Ids) -> FloatArray:
        """Means of the posterior."""
        likely = state[0][clients]
        weights = np.exp(likely - likely.max(1, keepdims=True))
        return np.asarray(weights @ self.among / weights.sum(1), dtype=np.float64)

    def remaining(self, state: tuple[FloatArray, BoolArray | None], clients: Ids, rounds_left: int) -> FloatArray:
        """The rounds online to be expected of clients that are online now."""
        return to_come(self.law.nu, self.estimate(state, clients), rounds_left)


def to_come(nu: float, rates: FloatArray, rounds_left: int) -> FloatArray:
    """Rounds online that chains of such rates which are online now will have."""
    lasting = nu * (1 - nu**rounds_left) / (1 - nu)
    return rounds_left * rates + lasting * (1 - rates)


def drawn(name: str, clients: int, seed: int) -> Trace:
    """One draw of a population by name."""
    return AVAILABILITY.build(name).draw(clients, DAY + ROUNDS, seed)


def model(name: str, clients: int) -> Draw:
    """Draws of a population by name."""
    return partial(drawn, name, clients)


def window(intervals: Intervals, clients: int | None, seed: int) -> Trace:
    """A window of a trace file that begins at random in its first ten days, of all devices or a sample of them."""
    start = int(stream(seed, "window").integers(0, 10 * DAY))
    devices = intervals if clients is None else intervals.sample(clients, seed)
    return devices.replay(DAY + ROUNDS, start=start * 1800.0)


def windows(intervals: Intervals, clients: int | None = None) -> Draw:
    """Windows of a trace file."""
    return partial(window, intervals, clients)


def chains(name: str, clients: int) -> Population:
    """Markov chains by name, whose law can be given away."""
    return Population(f"`{name}`, N={clients}, m=5", 5, model(name, clients), Markov(**_settings(name)))


def _settings(name: str) -> dict[str, float]:
    return {key: float(value) for key, value in (one.split("=") for one in name.partition(":")[2].split(","))}


def flash() -> Intervals:
    """All 1,000 devices under FLASH's own rule: locked, charging, on Wi-Fi."""
    first = open_file(TRACES / "flash_000_099_events.json.gz", "charging & wifi & locked", open_end=False).intervals
    rest = open_file(
        TRACES / "flash_100_999_locked_intervals.csv.gz", devices=TRACES / "flash_100_999_devices.csv"
    ).intervals
    pairs = ((getattr(first, key), getattr(rest, key)) for key in ("first_seen", "last_seen", "start", "end"))
    seen, last, start, end = (np.concatenate(pair) for pair in pairs)
    device = np.concatenate([first.device, rest.device + len(first.names)])
    return Intervals((*first.names, *rest.names), seen, last, device, start, end)


def populations() -> Iterator[Population]:
    """FLASH and FedScale where their files are, phones, and chains with long sessions."""
    if TRACES.exists():
        devices = flash()
        yield Population("FLASH, 100 of 1,000 devices, m=5", 5, windows(devices, 100))
        yield Population("FLASH, 300 of 1,000 devices, m=5", 5, windows(devices, 300))
        yield Population("FLASH, all 1,000 devices, m=20", 20, windows(devices))
    yield Population("`phones`, N=100, m=5", 5, model("phones", 100))
    yield Population("`phones`, N=1000, m=20", 20, model("phones", 1000))
    for name in ("markov:nu=.97", "markov:nu=.99", "markov:nu=.97,low=.02,high=.4"):
        yield chains(name, 100)
    if TRACES.exists():
        fedscale = open_file(TRACES / "fedscale_clients_001_100.pkl").intervals
        yield Population("FedScale, 100 most active clients, m=5", 5, windows(fedscale))


def split(trace: Trace) -> tuple[Trace, Trace]:
    """The rounds after the first day for a server that has watched it, and for one that has not."""
    day, rest = (
        Trace.from_rounds(trace.num_clients, [trace.online(t) for t in part])
        for part in (range(DAY), range(DAY, trace.num_rounds))
    )
    return replace(rest, before=day), rest


def reached(
    trace: Trace, cohort: int, scheduler: str, seed: int, *, known: bool = False, law: Estimator[Any] | None = None
) -> float:
    """Gini of what a scheduler gives out."""
    estimator = Oracle(trace) if known else law
    method = Coordinator(cohort, seed=seed, scheduler=scheduler, estimator=estimator, min_reports=0)
    state = method.init(trace.num_clients, watched=trace.before)
    return gini(run(method, Intermittent(NoTraining(trace.num_clients), trace), ROUNDS, state=state).ledger.selected)


def one_draw(where: Population, seed: int) -> dict[str, float]:
    """Gini of the limit and of each scheduler."""
    watched, blind = split(where.draw(seed))
    row = {
        "limit": gini(frontier(blind, where.cohort).counts),
        "perfect": reached(blind, where.cohort, "parity", seed, known=True),
    }
    if where.law is not None:
        law = Law(where.law.client_rates(blind.num_clients, seed), where.law.nu)
        row["law known"] = reached(blind, where.cohort, "parity", seed, law=law)
        told = Told(where.law, np.linspace(where.law.low, where.law.high, RATES + 2)[1:-1])
        row["told"] = reached(watched, where.cohort, "parity", seed, law=told)
    if blind.num_clients <= SIMULATED:
        row["rollout"] = reached(watched, where.cohort, "rollout", seed)
    for name in ("parity", "least_served"):
        row[name] = reached(watched, where.cohort, name, seed)
        row[f"{name}, blind"] = reached(blind, where.cohort, name, seed)
    return row


def ginis(where: Population, draws: int = 0) -> dict[str, np.ndarray]:
    """The same for several draws (0: as many as the page has), one number per draw; draws go side by side."""
    draws = draws or (DRAWS if where.law is None else MORE)
    with ProcessPoolExecutor(2) as pool:
        rows = list(pool.map(partial(one_draw, where), range(draws)))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def won(found: dict[str, np.ndarray], name: str, blind: str = "") -> float:
    """Share of the distance from least_served to the perfect forecast, of means over draws."""
    served, perfect = found[f"least_served{blind}"].mean(), found["perfect"].mean()
    return float((served - found[f"{name}{blind}"].mean()) / (served - perfect))


def behind(found: dict[str, np.ndarray], blind: str = "", name: str = "parity") -> str:
    """How far a scheduler is above least_served, paired, and its standard error."""
    differences = found[f"{name}{blind}"] - found[f"least_served{blind}"]
    return f"{differences.mean():+.4f} ± {differences.std(ddof=1) / np.sqrt(len(differences)):.4f}"


def row(where: Population, found: dict[str, np.ndarray]) -> str:
    """One population."""
    columns = ("limit", "perfect", "law known", "told", "rollout", "parity", "least_served")
    cells = [f"{found[name].mean():.4f}" if name in found else "-" for name in columns]
    cells += [
        f"{won(found, name):.0%}" if name in found else "-" for name in ("law known", "told", "rollout", "parity")
    ]
    cells += [behind(found), f"{won(found, 'parity', BLIND):.0%}", behind(found, BLIND)]
    return f"| {where.name} | {' | '.join(cells)} |"


def section() -> Iterator[str]:
    """What docs/results.md says of it, line by line."""
    yield "## Looking ahead, population by population"
    yield ""
    yield (
        f"Gini, means over {DRAWS} draws, windows or samples ({MORE} of chains) of {ROUNDS} rounds of half an hour, after the server has"
        " watched one day. `perfect` is parity with the rounds online that will really come; *won* is the share of the"
        " distance from `least_served` to it; *behind* is `parity` less `least_served` with the standard error of the"
        " paired difference (below 0: parity is ahead). Blind: nothing was watched. `law known` is parity with the true rate"
        " of every client and the true length of sessions. `told` has to learn rates, but knows all else: how long sessions"
        " last and what rates are drawn from; it follows Bayes' rule, so that no forecast could know more from what is observed."
        " Another rule than parity's might make more of it."
    )
    yield ""
    if not TRACES.exists():
        yield "The FLASH and FedScale files are not here: left out."
        yield ""
    yield (
        "| population | limit | perfect | law known | told | `rollout` | `parity` | `least_served` | law known won | told won"
        " | `rollout` won | `parity` won | behind | blind: `parity` won | behind |"
    )
    yield "|---" * 15 + "|"
    shares: dict[str, list[float]] = {}
    losers = []
    for where in populations():
        found = ginis(where)
        yield row(where, found)
        if (found["parity"] - found["least_served"]).mean() > 0:
            told = f"; told: {behind(found, name='told')}" if "told" in found else ""
            losers.append(f"{where.name} ({behind(found)}{told})")
        for name, blind in (("law known", ""), ("told", ""), ("rollout", ""), ("parity", ""), ("parity", BLIND)):
            if name in found:
                shares.setdefault(f"`{name}`{blind}", []).append(won(found, name, blind))
    yield ""
    told = f"**not reached**: {'; '.join(losers)}" if losers else "held"
    yield f"- Acceptance criterion: `parity` never behind `least_served` after a day was watched: {told}"
    reach = float(np.mean(shares["`parity`"]))
    told = "held" if reach >= WANTED else "**not reached**"
    yield (
        f"- Acceptance criterion: {WANTED:.0%} of the way to the perfect forecast won on average: {told}, {reach:.0%}. On the"
        f" chains, where sessions are longer than turns and end by chance, `parity` wins {np.mean(shares['`law known`']):.0%} with"
        f" the law known, and {np.mean(shares['`told`']):.0%} with what Bayes' rule learns of it."
    )
    yield ""
    said = "; ".join(f"{name} {np.mean(values):.0%} ({len(values)} populations)" for name, values in shares.items())
    yield f"Won, mean over populations: {said}."
    yield ""


if __name__ == "__main__":
    for line in section():
        print(line, flush=True)
