"""`fedparity trace`: read any device trace, say what it is like, draw it, and fit the phones population to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fedparity.cli.console import AsJson, Bar, Command, group, keep, print_json, say, show_table
from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.traces.fit import Fit
    from fedparity.traces.intervals import Intervals
    from fedparity.traces.readers import Format, Opened
    from fedparity.traces.stats import TraceStats

trace_app = group(
    "trace",
    "Device traces: FLASH events, FedScale pickles, tables of intervals, and our own files.\n\n"
    "fedparity trace stats events.json.gz --rule 'charging & wifi'\n"
    "fedparity trace import events.json.gz --out trace.csv.gz",
)

FILES = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trace files of any kind; several are joined.")]
RULE = Annotated[str | None, typer.Option(help="Events: when a device is ready, e.g. 'charging & wifi & battery>=50'.")]
DEVICES = Annotated[Path | None, typer.Option(help="Tables of intervals: the table of first and last seen.")]
FORMAT = Annotated[str, typer.Option("--format", help="auto, plain, flash, fedscale or intervals.")]
NEVER = Annotated[
    bool, typer.Option("--wifi-never-cleared", help="Events: never leave Wi-Fi (wrong; the paper's Figure 1).")
]
OPEN_END = Annotated[
    bool, typer.Option("--drop-open-end", help="Events: drop what is open at a device's last event, as FLASH does.")
]
EPOCH = Annotated[
    str | None, typer.Option(help="Events: the date of second 0, as 2020-01-02.", show_default="the file's first day")
]
SEED = Annotated[int, typer.Option(help="Chooses samples.")]
PAPER = "The paper says: 213 of 1000 devices below 5 % (Figure 1), over 60 % below half, most below 40 %."


def _open(
    files: list[Path],
    rule: str | None,
    form: str = "auto",
    devices: Path | None = None,
    epoch: str | None = None,
    *,
    never_cleared: bool = False,
    drop_open_end: bool = False,
) -> tuple[Intervals, list[Opened]]:
    """All files as one population; an option goes to the files whose kind it is for, and must find one."""
    from fedparity.traces.intervals import join
    from fedparity.traces.plain import read_data
    from fedparity.traces.readers import detect, open_file

    if form not in ("auto", "plain", "flash", "fedscale", "intervals"):
        raise ConfigError(f"--format={form!r} must be auto, plain, flash, fedscale or intervals")
    opened = []
    given = cast("Format", form)
    kinds = [detect(read_data(path)) if len(files) > 1 and given == "auto" else given for path in files]
    for path, kind in zip(files, kinds, strict=True):
        events = kind in ("flash", "auto") or "flash" not in kinds
        table = kind in ("intervals", "auto") or "intervals" not in kinds
        with Bar() as bar:
            opened.append(
                open_file(
                    path,
                    rule if events else None,
                    form=kind,
                    devices=devices if table else None,
                    wifi_cleared=not (never_cleared and events),
                    open_end=not (drop_open_end and events),
                    epoch=epoch if events else None,
                    progress=partial(bar.tell, path.name),
                )
            )
    if len(opened) == 1:
        return opened[0].intervals, opened
    try:
        return join([one.intervals for one in opened]), opened
    except ConfigError as error:
        raise ConfigError(f"joining {len(files)} files: {error}") from None


def _events(opened: list[Opened]) -> int | None:
    known = [len(one.events.device) for one in opened if one.events is not None]
    return sum(known) if len(known) == len(opened) else None


@trace_app.command("import", cls=Command)
def import_command(
    files: FILES,
    *,
    out: Annotated[Path, typer.Option(help="The trace file to write (.csv or .csv.gz).")],
    rule: RULE = None,
    form: FORMAT = "auto",
    devices: DEVICES = None,
    never_cleared: NEVER = False,
    drop_open_end: OPEN_END = False,
    epoch: EPOCH = None,
    sample: Annotated[int | None, typer.Option(help="Take so many devices, each at most once.")] = None,
    resample: Annotated[int | None, typer.Option(help="Draw so many devices with replacement.")] = None,
    seed: SEED = 0,
    as_json: AsJson = False,
) -> None:
    """Read a trace of any kind and write it as one plain trace file.

    fedparity trace import events.json.gz --rule 'charging & wifi' --out trace.csv.gz
    fedparity trace import a.csv b.csv --sample 500 --out trace.csv
    """
    keep([*files, devices], out)
    if sample is not None and resample is not None:
        raise ConfigError("--sample and --resample exclude each other; give one")
    intervals, _ = _open(files, rule, form, devices, epoch, never_cleared=never_cleared, drop_open_end=drop_open_end)
    if sample is not None:
        intervals = intervals.sample(sample, seed)
    if resample is not None:
        intervals = intervals.resample(resample, seed)
    intervals.save(out)
    if as_json:
        print_json({"path": str(out), "devices": len(intervals.names), "intervals": len(intervals.device)})
    else:
        say(f"{out}: {len(intervals.names)} devices, {len(intervals.device)} times ready")
        say(f"Next: fedparity schedule --availability {out}")


@trace_app.command("stats", cls=Command)
def stats_command(
    files: FILES,
    *,
    rule: RULE = None,
    form: FORMAT = "auto",
    devices: DEVICES = None,
    never_cleared: NEVER = False,
    drop_open_end: OPEN_END = False,
    all_rules: Annotated[bool, typer.Option("--all-rules", help="Events: a table of readiness rules.")] = False,
    seed: SEED = 0,
    as_json: AsJson = False,
) -> None:
    """How available the devices are, when in the day, and for how long at a time.

    fedparity trace stats trace.csv.gz
    fedparity trace stats events.json.gz --rule 'charging & wifi & locked' --drop-open-end --json
    """
    from fedparity.traces.stats import trace_stats

    if all_rules:
        if rule is not None or never_cleared or drop_open_end:
            raise ConfigError(
                "--all-rules compares every rule; leave --rule, --wifi-never-cleared and --drop-open-end out"
            )
        rules_command(files, form=form, as_json=as_json)
        return
    intervals, opened = _open(files, rule, form, devices, never_cleared=never_cleared, drop_open_end=drop_open_end)
    found = trace_stats(intervals, events=_events(opened), seed=seed)
    if as_json:
        print_json(found.to_json())
    else:
        _show_stats(found)


@trace_app.command("rules", cls=Command)
def rules_command(files: FILES, *, form: FORMAT = "auto", as_json: AsJson = False) -> None:
    """Events: the share of seldom ready devices under every readiness rule, next to the paper's.

    fedparity trace rules events.json.gz
    """
    from fedparity.traces.intervals import join
    from fedparity.traces.rules import RULES
    from fedparity.traces.stats import trace_stats

    _, opened = _open(files, None, form)
    events = [one.events for one in opened if one.events is not None]
    if len(events) < len(opened):
        raise ConfigError("rules are for files of events (FLASH); a file of intervals has one rule built in")
    rows = [(rule, trace_stats(join([e.intervals(rule) for e in events]), pairs=False)) for rule in RULES]
    uncleared = join([e.intervals(RULES[0], wifi_cleared=False) for e in events])
    rows.insert(1, (f"{RULES[0]}, Wi-Fi never cleared", trace_stats(uncleared, pairs=False)))
    if as_json:
        keys = ("devices", "below_5pct", "below_40pct", "below_half", "never", "mean")
        found = [{"rule": rule, **{key: getattr(stats, key) for key in keys}} for rule, stats in rows]
        print_json({"rules": found, "paper": {"devices": 1000, "below_5pct": 213}})
        return
    cells = [
        (rule, *map(str, (s.below_5pct, s.below_40pct, s.below_half, s.never)), f"{s.mean:.3f}") for rule, s in rows
    ]
    show_table(("ready when", "below 5%", "below 40%", "below half", "never", "mean"), cells)
    say(f"Of {rows[0][1].devices} devices. {PAPER}", wrap=True)


@trace_app.command("plot", cls=Command)
def plot_command(
    files: FILES,
    *,
    out: Annotated[Path, typer.Option(help="The picture: .svg, .html or .png.")],
    rule: RULE = None,
    form: FORMAT = "auto",
    devices: DEVICES = None,
    never_cleared: NEVER = False,
) -> None:
    """Draw the distribution of availability (the paper's Figure 1), the day's rhythm and session lengths.

    fedparity trace plot trace.csv.gz --out trace.svg
    """
    from fedparity.report.traces import write_picture

    intervals, _ = _open(files, rule, form, devices, never_cleared=never_cleared)
    write_picture([(_named(files, rule, never_cleared=never_cleared), intervals)], out)
    say(f"Picture: {out}")


@trace_app.command("synth", cls=Command)
def synth_command(
    files: FILES,
    *,
    out: Annotated[Path | None, typer.Option(help="Where to write parameters and figures as TOML.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Both drawn over each other: .svg, .html or .png.")] = None,
    rule: RULE = None,
    form: FORMAT = "auto",
    devices: DEVICES = None,
    steps: Annotated[int, typer.Option(help="How many parameter sets to try.")] = 240,
    seed: SEED = 0,
    as_json: AsJson = False,
) -> None:
    """Fit the phones population to a trace: parameters out, and how far off each figure is.

    fedparity trace synth trace.csv.gz --out phones.toml --plot phones.svg
    """
    from fedparity.core.files import write_text
    from fedparity.report.traces import write_picture
    from fedparity.traces.fit import fit_phones

    keep([*files, devices], out, plot)
    intervals, _ = _open(files, rule, form, devices)
    with Bar() as bar:
        fit = fit_phones(intervals, seed=seed, steps=steps, progress=partial(bar.tell, "fitting phones"))
    if out is not None:
        write_text(out, fit.toml(_named(files, rule)))
    if plot is not None:
        write_picture([(_named(files, rule), intervals), ("phones, fitted", fit.drawn)], plot)
    if as_json:
        found = {"component": fit.component(), "distance": fit.distance, "trace": fit.trace, "phones": fit.found}
        print_json({**found, "out": None if out is None else str(out), "plot": None if plot is None else str(plot)})
        return
    _show_fit(fit)
    for what, path in (("Parameters", out), ("Picture", plot)):
        if path is not None:
            say(f"{what}: {path}")


def _named(files: list[Path], rule: str | None, *, never_cleared: bool = False) -> str:
    name = " + ".join(path.name for path in files)
    return f"{name}{f' [{rule}]' if rule else ''}{', Wi-Fi never cleared' if never_cleared else ''}"


def _or_dash(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)


def _show_stats(s: TraceStats) -> None:
    def of(count: int) -> str:
        return f"{count} ({count / s.devices:.1%})"

    events = "" if s.events is None else f", {s.events} events"
    say(f"{s.devices} devices seen for {s.days:.1f} days on average{events}")
    rows = [
        ("ready below 5 % of the time", of(s.below_5pct)),
        ("below 40 %", of(s.below_40pct)),
        ("below half", of(s.below_half)),
        ("never", of(s.never)),
        ("mean availability", f"{s.mean:.3f}"),
        ("sessions per device, per day", f"{s.sessions_per_device:.1f}, {s.sessions_per_day:.2f}"),
        ("median session", _or_dash(s.median_session_s, lambda v: f"{v:.0f} s")),
        ("mean session", _or_dash(s.mean_session_s, lambda v: f"{v:.0f} s")),
        ("correlation of two devices", _or_dash(s.pair_correlation, lambda v: f"{v:+.3f}")),
    ]
    show_table(("", ""), rows)
    say("deciles          " + " ".join(f"{d:.3f}" for d in s.deciles))
    say("hours 0 to 11    " + " ".join(f".{round(1000 * min(h, 0.999)):03d}" for h in s.hours[:12]))
    say("hours 12 to 23   " + " ".join(f".{round(1000 * min(h, 0.999)):03d}" for h in s.hours[12:]))
    later = ", ".join(f"{lag} {_or_dash(v, lambda x: f'{x:.2f}')}" for lag, v in s.autocorrelation.items())
    say(f"autocorrelation  {later}")


def _show_fit(fit: Fit) -> None:
    rows = [(key, f"{fit.trace[key]:.4g}", f"{fit.found[key]:.4g}") for key in fit.trace]
    show_table(("figure", "trace", "phones"), rows)
    say(f"Distance {fit.distance:.2f} (1: a typical figure is off by its tolerance).")
    say(fit.component())
