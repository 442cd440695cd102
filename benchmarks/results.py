"""`make results`: the fairness figures of docs/results.md, from scratch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import forecasts
import numpy as np
from figures import FLASH_BELOW_5, FLASH_MEDIAN_SESSION, phones

from fedparity import AVAILABILITY, SCHEDULERS, Gains, Setting, schedule
from fedparity.estimators import Forecast, Oracle, RunningMean
from fedparity.experiment.schedule import run_draw
from fedparity.metrics import numbers

TARGET = Path(__file__).parent.parent / "docs" / "results.md"
DRAWS = 20
POPULATIONS = (
    ("bernoulli", 100, 50, 10),
    ("paper_like", 100, 50, 10),
    ("paper_like", 100, 200, 5),
    ("phones", 1000, 500, 20),
)
COMPARED = (
    "uniform",
    "inverse",
    "reactive",
    "cup_authors",
    "round_robin",
    "least_served",
    "parity",
    "parity_deployment",
    "with_quota:inner=parity",
)


def setting(availability: str, clients: int, rounds: int, cohort: int, draws: int = DRAWS) -> Setting:
    """The population of one table."""
    return Setting(AVAILABILITY.build(availability), clients, rounds, cohort, draws=draws)


def share_table(where: Setting, title: str) -> list[str]:
    """Gap and Gini of every scheduler next to the limit."""
    lines = [f"### {title}", "", "| scheduler | gap | limit | Gini | limit | never served | limit | fill |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for name in COMPARED:
        m = schedule(SCHEDULERS.build(name), where, name=name, workers=2).means()
        cells = [
            f"{m[k]:.3f}"
            for k in (
                "selection_gap",
                "selection_gap_limit",
                "gini",
                "gini_limit",
                "never_served",
                "never_served_limit",
            )
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} | {m['fill']:.1%} |")
    return [*lines, ""]


def forecast_rows(where: Setting) -> dict[str, np.ndarray]:
    """Gap, limit, Gini, limit of parity with each forecast, mean over draws."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for draw in range(where.draws):
        trace = where.trace(draw)
        one = replace(where, availability=trace, seed=where.seed + draw, draws=1)
        for name, estimator in (
            ("running mean", RunningMean()),
            ("forecast (default)", Forecast()),
            ("perfect forecast", Oracle(trace)),
        ):
            d = numbers(run_draw(replace(one, estimator=estimator), SCHEDULERS.build("parity"), 0, "share").outcome)
            row = (d["selection_gap"], d["selection_gap_limit"], d["gini"], d["gini_limit"])
            found.setdefault(name, []).append(row)
    return {name: np.mean(rows, axis=0) for name, rows in found.items()}


def forecast_table() -> list[str]:
    """How close parity comes to the limit, by what it knows of the future."""
    lines = ["| population | parity with | gap | x limit | Gini | x limit | held |", "|---|---|---|---|---|---|---|"]
    for availability, clients, rounds, cohort in POPULATIONS:
        draws = 10 if clients > 100 else DRAWS
        for name, (gap, gap0, gini, gini0) in forecast_rows(
            setting(availability, clients, rounds, cohort, draws)
        ).items():
            held = gap <= 1.02 * gap0 + 0.01 and gini <= 1.05 * gini0 + 0.01
            ratio = [f"{a / b:.3f}" if b > 1e-6 else "-" for a, b in ((gap, gap0), (gini, gini0))]
            lines.append(
                f"| `{availability}` N={clients} m={cohort} T={rounds} | {name} | {gap:.4f} | {ratio[0]} | {gini:.4f} |"
                f" {ratio[1]} | {'yes' if held else 'no'} |"
            )
    return [*lines, ""]


def other_targets() -> list[str]:
    """Equal counts and equal utility per round online, as shares of what uniform selection reaches."""
    lines = [
        "| target | gains differ by | rounds | uniform | parity | ratio | held (<= .2) |",
        "|---|---|---|---|---|---|---|",
    ]
    for target, key, spread, rounds in (
        ("opportunity", "cv_per_opportunity", 1.0, 200),
        ("utility", "utility_cv", 10.0, 200),
        ("utility", "utility_cv", 10.0, 1000),
    ):
        where = replace(setting("bernoulli", 100, rounds, 10, 10), gains=Gains(spread))
        value = {}
        for name in ("uniform", f"parity:target={target}"):
            value[name] = schedule(SCHEDULERS.build(name), where, workers=2).means()[key] or 0.0
        a, b = value.values()
        held = "yes" if b <= 0.2 * a else "no"
        lines.append(f"| {target} | {spread:g} x | {rounds} | {a:.3f} | {b:.3f} | {b / a:.3f} | {held} |")
    return [*lines, ""]


def calibration() -> list[str]:
    """What the forecast says against what came, after three days of phones, by thirds of what it said."""
    trace = AVAILABILITY.build("phones").draw(1500, 400, 11)
    matrix = trace.matrix()
    lines = ["| rounds ahead | all: said / came | lowest third | middle | highest |", "|---|---|---|---|---|"]
    for horizon in (4, 48, 192):
        forecast = Forecast()
        state = forecast.init(trace.num_clients)
        said, came = [], []
        for t in range(200):
            online = trace.online(t)
            state = forecast.observe(state, online)
            if t >= 144 and t % 7 == 4:
                said.append(forecast.remaining(state, online, horizon))
                came.append(matrix[t + 1 : t + 1 + horizon, online].sum(0))
        a, b = np.concatenate(said), np.concatenate(came)
        parts = [np.arange(len(a)), *np.array_split(np.argsort(a, kind="stable"), 3)]
        lines.append(f"| {horizon} | " + " | ".join(f"{a[p].mean():.2f} / {b[p].mean():.2f}" for p in parts) + " |")
    return [*lines, ""]


def phones_section() -> list[str]:
    """The fit of the synthetic population, as a picture and in numbers."""
    found = phones(TARGET.parent / "phones.png")
    return [
        "![phones beside the figures it is fitted to](phones.png)",
        "",
        f"Worst decile off by {found['worst decile off by']:.3f} (acceptance criterion: at most .03); {found['below 5 %']:.1%} of phones below 5 %"
        f" ({FLASH_BELOW_5:.0%} in the trace; acceptance criterion: within 5 points); median session {found['median session s']:.0f} s"
        f" ({FLASH_MEDIAN_SESSION:.0f} s; acceptance criterion: within 25 %); the busiest hour has {found['busiest over quietest hour']:.2f} x"
        " the phones of the quietest.",
        "",
    ]


def main() -> None:
    """Compute every table and write the page."""
    lines = [
        "# Results",
        "",
        "Every number on this page is written by `make results`; timed figures are in"
        " [benchmarks/README.md](../benchmarks/README.md), written by `make bench`.",
        "",
        "## Equal shares: how fair each scheduler is, and how fair any could have been",
        "",
        f"Means over {DRAWS} draws (phones: 10), the same traces for all schedulers. A limit is taken at the scheduler's own"
        " number of filled slots.",
        "",
    ]
    for availability, clients, rounds, cohort in POPULATIONS:
        where = setting(availability, clients, rounds, cohort, 10 if clients > 100 else DRAWS)
        lines += share_table(where, f"`{availability}`, N={clients}, m={cohort}, T={rounds}")
    lines += [
        "`parity_deployment` is parity with the bounds of deployments: nobody above 1.3 x the fair share of any 100"
        " rounds and 1.05 x that of the run, and less than a third of a full round for clients that come and go alike;"
        " slots beyond that stay empty. `with_quota:inner=parity` has the window's quota alone.",
        "",
        "## What a forecast is worth",
        "",
        "Acceptance criterion: gap <= 1.02 x limit + .01 and Gini <= 1.05 x limit + .01. The perfect forecast knows the trace, but not"
        " the best schedule on it.",
        "",
        *forecast_table(),
        "How well it is calibrated, rounds online that it said against those that came (phones, after three days):",
        "",
        *calibration(),
        *forecasts.section(),
        "## Equal per opportunity, equal utility",
        "",
        "Coefficient of variation of S/online, or of u/pi, on `bernoulli` U(.2, 1), N=100, m=10, 10 draws. Acceptance criterion:"
        " at most .2 of what uniform selection leaves.",
        "",
        *other_targets(),
        "## Phones",
        "",
        *phones_section(),
    ]
    TARGET.write_text("\n".join(lines).rstrip() + "\n")
    print(TARGET)


if __name__ == "__main__":
    main()
