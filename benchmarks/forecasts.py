"""`make results`: what looking ahead is worth, by population, after a day was watched and blind.

Parameters were chosen on other draws, windows and samples (seeds from 1000 on) than those reported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedparity import AVAILABILITY, SCHEDULERS, Setting, Trace, stream
from fedparity.estimators import Oracle
from fedparity.experiment.schedule import run_draw
from fedparity.metrics import numbers
from fedparity.traces import Intervals, open_intervals

TRACES = Path(__file__).parents[2] / "shared/data/traces"
DAY, ROUNDS, DRAWS = 48, 200, 10
SIMULATED = 300
"""Above so many clients `rollout` is left out: it would take most of the hour."""
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
    first = open_intervals(TRACES / "flash_000_099_events.json.gz", "charging & wifi & locked", open_end=False)
    rest = open_intervals(
        TRACES / "flash_100_999_locked_intervals.csv.gz", devices=TRACES / "flash_100_999_devices.csv"
    )
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
        fedscale = open_intervals(TRACES / "fedscale_clients_001_100.pkl")
        yield Population("FedScale, 100 most active clients, m=5", 5, windows(fedscale))


def split(trace: Trace, *, watched: bool) -> Trace:
    """The rounds after the first day, which the server has watched or not."""
    day, rest = (
        Trace.from_rounds(trace.num_clients, [trace.online(t) for t in part])
        for part in (range(DAY), range(DAY, trace.num_rounds))
    )
    return replace(rest, before=day) if watched else rest


def ginis(where: Population, draws: int = DRAWS, *, watched: bool = True) -> dict[str, np.ndarray]:
    """Gini of each scheduler and the limit, one number per draw."""
    found: dict[str, list[float]] = {}
    for seed in range(draws):
        trace = split(where.draw(seed), watched=watched)
        setting = Setting(trace, trace.num_clients, ROUNDS, where.cohort, seed=seed)
        compared = {name: (name, setting) for name in ("least_served", "parity")}
        compared["perfect"] = ("parity", replace(setting, estimator=Oracle(trace)))
        if watched and trace.num_clients <= SIMULATED:
            compared["rollout"] = ("rollout", setting)
        for name, (scheduler, known) in compared.items():
            row = numbers(run_draw(known, SCHEDULERS.build(scheduler), 0, "share").outcome)
            found.setdefault(name, []).append(row["gini"])
        found.setdefault("limit", []).append(row["gini_limit"])
    return {name: np.array(values) for name, values in found.items()}


def won(found: dict[str, np.ndarray], name: str) -> float:
    """Share of the distance from least_served to the perfect forecast, of means over draws."""
    served, perfect = found["least_served"].mean(), found["perfect"].mean()
    return float((served - found[name].mean()) / (served - perfect))


def table(*, watched: bool) -> list[str]:
    """One row per population: Gini of each, the share won, and whether parity is behind."""
    names = ["limit", "perfect", "rollout", "parity", "least_served"] if watched else ["parity", "least_served"]
    heads = [name if name in {"limit", "perfect"} else f"`{name}`" for name in names]
    shares = ["rollout", "parity"] if watched else ["parity"]
    lines = [
        f"| population | {' | '.join(heads)} | {' | '.join(f'`{n}` won' for n in shares)} | `parity` - `least_served` |",
        "|---" * (2 + len(names) + len(shares)) + "|",
    ]
    mean: dict[str, list[float]] = {}
    for where in populations():
        found = ginis(where, watched=watched)
        behind = found["parity"] - found["least_served"]
        error = behind.std(ddof=1) / np.sqrt(len(behind))
        cells = [f"{found[name].mean():.4f}" if name in found else "-" for name in names]
        cells += [f"{won(found, name):.0%}" if name in found else "-" for name in shares]
        for name in {*shares} & {*found}:
            mean.setdefault(name, []).append(won(found, name))
        lines.append(f"| {where.name} | {' | '.join(cells)} | {behind.mean():+.4f} ± {error:.4f} |")
    said = ", ".join(f"`{name}` {np.mean(mean[name]):.0%} ({len(mean[name])} populations)" for name in shares)
    return [*lines, "", f"Mean over populations: {said}.", ""]


def section() -> list[str]:
    """What docs/results.md says of it."""
    missing = [] if TRACES.exists() else [f"The FLASH and FedScale files are not here ({TRACES.name}/): left out.", ""]
    return [
        "## Looking ahead, population by population",
        "",
        f"Gini, means over {DRAWS} draws, windows or samples of {ROUNDS} rounds of half an hour. `perfect` is parity with"
        " the rounds online that will really come; *won* is the share of the distance from `least_served` to it, ± is a"
        " standard error of the paired difference (above 0: parity is behind). Wanted: never behind, and 40 % won.",
        "",
        *missing,
        "After the server has watched one day:",
        "",
        *table(watched=True),
        "Blind, from the first round on:",
        "",
        *table(watched=False),
    ]


if __name__ == "__main__":
    print("\n".join(section()))
