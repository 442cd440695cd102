"""`make results`: what looking ahead is worth, by population, after a day was watched and blind.

Parameters were chosen on other draws, windows and samples (seeds from 1000 on) than those reported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedparity import AVAILABILITY, Coordinator, Intermittent, NoTraining, Trace, frontier, run, stream
from fedparity.estimators import Oracle
from fedparity.metrics import gini
from fedparity.traces import Intervals, open_file

TRACES = Path(__file__).parents[2] / "shared/data/traces"
DAY, ROUNDS, DRAWS = 48, 200, 10
SIMULATED = 100
"""Above so many clients `rollout` is left out: it takes O(N) time."""
BLIND = ", blind"
Draw = Callable[[int], Trace]


@dataclass(frozen=True)
class Population:
    """Where schedulers are compared: one trace of a day and 200 rounds per draw."""

    name: str
    cohort: int
    draw: Draw


def model(name: str, clients: int) -> Draw:
    """Draws of a population by name."""
    return lambda seed: AVAILABILITY.build(name).draw(clients, DAY + ROUNDS, seed)


def windows(intervals: Intervals, clients: int | None = None) -> Draw:
    """Windows of a trace file that begin at random in its first ten days, of all devices or a sample of them."""

    def draw(seed: int) -> Trace:
        start = int(stream(seed, "window").integers(0, 10 * DAY))
        devices = intervals if clients is None else intervals.sample(clients, seed)
        return devices.replay(DAY + ROUNDS, start=start * 1800.0)

    return draw


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
    yield Population("`markov:nu=.97`, N=100, m=5", 5, model("markov:nu=.97", 100))
    yield Population("`markov:nu=.99`, N=100, m=5", 5, model("markov:nu=.99", 100))
    yield Population("`markov:nu=.97,low=.02,high=.4`, N=100, m=5", 5, model("markov:nu=.97,low=.02,high=.4", 100))
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


def reached(trace: Trace, cohort: int, scheduler: str, seed: int, *, known: bool = False) -> float:
    """Gini of what a scheduler gives out."""
    method = Coordinator(
        cohort, seed=seed, scheduler=scheduler, estimator=Oracle(trace) if known else None, min_reports=0
    )
    state = method.init(trace.num_clients, watched=trace.before)
    return gini(run(method, Intermittent(NoTraining(trace.num_clients), trace), ROUNDS, state=state).ledger.selected)


def ginis(where: Population, draws: int = DRAWS) -> dict[str, np.ndarray]:
    """Gini of the limit and of each scheduler, one number per draw."""
    rows = []
    for seed in range(draws):
        watched, blind = split(where.draw(seed))
        row = {
            "limit": gini(frontier(blind, where.cohort).counts),
            "perfect": reached(blind, where.cohort, "parity", seed, known=True),
        }
        if blind.num_clients <= SIMULATED:
            row["rollout"] = reached(watched, where.cohort, "rollout", seed)
        for name in ("parity", "least_served"):
            row[name] = reached(watched, where.cohort, name, seed)
            row[f"{name}, blind"] = reached(blind, where.cohort, name, seed)
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def won(found: dict[str, np.ndarray], name: str, blind: str = "") -> float:
    """Share of the distance from least_served to the perfect forecast, of means over draws."""
    served, perfect = found[f"least_served{blind}"].mean(), found["perfect"].mean()
    return float((served - found[f"{name}{blind}"].mean()) / (served - perfect))


def behind(found: dict[str, np.ndarray], blind: str = "") -> str:
    """How far parity is above least_served, paired, and its standard error."""
    differences = found[f"parity{blind}"] - found[f"least_served{blind}"]
    return f"{differences.mean():+.4f} ± {differences.std(ddof=1) / np.sqrt(len(differences)):.4f}"


def row(where: Population, found: dict[str, np.ndarray]) -> str:
    """One population."""
    columns = ("limit", "perfect", "rollout", "parity", "least_served")
    cells = [f"{found[name].mean():.4f}" if name in found else "-" for name in columns]
    cells += [f"{won(found, name):.0%}" if name in found else "-" for name in ("rollout", "parity")]
    cells += [behind(found), f"{won(found, 'parity', BLIND):.0%}", behind(found, BLIND)]
    return f"| {where.name} | {' | '.join(cells)} |"


def section() -> Iterator[str]:
    """What docs/results.md says of it, line by line."""
    yield "## Looking ahead, population by population"
    yield ""
    yield (
        f"Gini, means over {DRAWS} draws, windows or samples of {ROUNDS} rounds of half an hour, after the server has"
        " watched one day. `perfect` is parity with the rounds online that will really come; *won* is the share of the"
        " distance from `least_served` to it; *behind* is `parity` less `least_served` with the standard error of the"
        " paired difference (below 0: parity is ahead). Blind: nothing was watched. Wanted: never behind, and 40 % won."
    )
    yield ""
    if not TRACES.exists():
        yield "The FLASH and FedScale files are not here: left out."
        yield ""
    yield (
        "| population | limit | perfect | `rollout` | `parity` | `least_served` | `rollout` won | `parity` won | behind"
        " | blind: `parity` won | behind |"
    )
    yield "|---" * 11 + "|"
    shares: dict[str, list[float]] = {}
    for where in populations():
        found = ginis(where)
        yield row(where, found)
        for name, blind in (("rollout", ""), ("parity", ""), ("parity", BLIND)):
            if name in found:
                shares.setdefault(f"`{name}`{blind}", []).append(won(found, name, blind))
    yield ""
    said = "; ".join(f"{name} {np.mean(values):.0%} ({len(values)} populations)" for name, values in shares.items())
    yield f"Won, mean over populations: {said}."
    yield ""


if __name__ == "__main__":
    for line in section():
        print(line, flush=True)
