"""`fedparity watch`: a run while it happens, on a local page or once in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import AsJson, RunFolder, print_json, say, show_table
from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.report.live.follow import Follower

COLUMNS = ("gini", "gini_limit", "gini_avoidable", "accuracy", "fairness_variance")
LISTED = 5


def watch_command(
    run: RunFolder,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it in the terminal, once.")] = False,
    method: Annotated[str | None, typer.Option(help="Whom to begin with.", show_default="the spec's first")] = None,
    seed: Annotated[int | None, typer.Option(help="Which repetition.", show_default="the newest")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On this port of 127.0.0.1; 0: any.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Follow a run, also while another process writes it: on a local page until stopped, or once in the terminal.

    The run is only read, and nothing outside this machine is asked. The page's address holds its key.

    fedparity watch runs/demo
    fedparity watch runs/demo --once --json
    """
    from fedparity.report.live.follow import Follower

    if as_json and not once:
        raise ConfigError("--json prints what there is now; add --once")
    if not once:
        from fedparity.report.live.server import require

        require()
    found = Follower(run, seed)
    if method is not None and method not in found.methods:
        raise ConfigError(f"method={method!r} is not in this run; it has {', '.join(found.methods)}")
    if once:
        _print(found, method, as_json=as_json)
    else:
        from fedparity.report.live.server import serve

        serve(found, port, method, say)


def _print(found: Follower, method: str | None, *, as_json: bool) -> None:
    from fedparity.report.live.told import told

    while not found.refresh():
        pass
    if found.rounds and not found.too_large:
        found.compute_limit()
    now = told(found, method)
    if as_json:
        print_json({"run": str(found.folder), **now})
    else:
        _show(now)


def _show(now: dict[str, Any]) -> None:
    from fedparity.report.live.told import duration

    say(now["sentence"], wrap=True)
    left = f", {duration(now['eta_seconds'])} left" if now["eta_seconds"] is not None else ""
    last = now["seed"] - now["first_seed"] + 1
    gone = f", {now['erased']:,} of them erased" if now["erased"] else ""
    clients = f"{now['clients']:,} clients{gone}"
    say(f"{now['name']}: {now['state']}{left}; repetition {last} of {now['seeds']}, {clients}.", wrap=True)
    say("")
    head = ("method", "round", "online", "asked", "back", "never", "Gini", "limit", "avoidable", "acc.", "V_T")
    show_table(head, [_method(one) for one in now["methods"]], bold=[now["method"]])
    if now["behind"]:
        say("")
        behind = (f"furthest behind ({now['method']})", "online", "asked", "at limit", "last asked")
        show_table(behind, [_client(one) for one in now["behind"][:LISTED]])
    for event in now["events"][:LISTED]:
        when = event["at"] if event["round"] is None else f"Round {event['round']:,}"
        say(f"{when}: {event['what']}", wrap=True)


def _method(one: dict[str, Any]) -> tuple[str, ...]:
    from fedparity.metrics import printed

    counts = (_count(one[key]) for key in ("round", "online", "asked", "returned", "never_served"))
    return (one["method"], *counts, *(printed(key, one[key]) for key in COLUMNS))


def _client(one: dict[str, Any]) -> tuple[str, ...]:
    last = "never" if one["last_asked"] is None else f"{one['last_asked']:,}"
    return (one["name"], *(_count(one[key]) for key in ("online", "asked", "at_limit")), last)


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
