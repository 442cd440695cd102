"""`fedparity deploy`: write a Flower app, bring a deployment up on this machine, check one, publish its metrics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import (
    CHECK_FAILED,
    AsJson,
    Command,
    EndedEarlyError,
    group,
    print_json,
    print_text,
    say,
    show_table,
)  # fmt: skip
from fedparity.core.errors import RoundError

if TYPE_CHECKING:
    from fedparity.deploy.rounds import Round

deploy_app = group(
    "deploy",
    "Real clients on Flower: write an app, bring it up, check it.\n\n"
    "fedparity deploy init my-app\n"
    "fedparity deploy up my-app --clients 3 --rounds 5\n"
    "fedparity deploy doctor my-app",
)
NO_LOGIN = "The SuperLink's Control API has no login: keep it on loopback, in a VPN, or behind a proxy."


@deploy_app.command("init", cls=Command)
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a ready Flower app: both sides, settings, script for keys, systemd units, Dockerfile, Compose.

    fedparity deploy init my-app
    """
    from fedparity.deploy import write_app

    written = write_app(folder)
    if as_json:
        print_json({"folder": str(folder), "files": [path.name for path in written]})
        return
    say(f"{folder}: {', '.join(path.name for path in written)}", wrap=True)
    say(NO_LOGIN, wrap=True)
    say(f"Next: fedparity deploy up {folder} --clients 3 --rounds 5")


@deploy_app.command("up", cls=Command)
def up_command(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The app; it is written if it is not there.")] = Path(
        "runs/deploy"
    ),
    *,
    clients: Annotated[int, typer.Option(help="SuperNodes to start.")] = 3,
    rounds: Annotated[int, typer.Option(help="Rounds of the run.")] = 5,
    cohort: Annotated[
        int | None, typer.Option(help="Clients asked per round.", show_default="two thirds of them")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The SuperLink's port.", show_default="any free one")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve OpenMetrics here, on loopback.", show_default="not served")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder; one that is there is gone on with.", show_default="DIR/runs/NUMBER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start SuperLink, SuperNodes and a run on this machine, with TLS and node keys; no process is left behind.

    fedparity deploy up --clients 3 --rounds 2
    fedparity deploy up my-app --clients 5 --metrics-port 9464
    """
    from fedparity.core.files import write_text
    from fedparity.deploy import Up
    from fedparity.report import require

    require()  # now, not after a long run
    up = Up(folder, clients, rounds, cohort, port, metrics_port, out, say=lambda line: say(line, stderr=as_json))
    try:
        run, done = up.run()
    except RoundError as error:
        raise EndedEarlyError(str(error)) from error
    told, page = _audited(run)
    write_text(run / "report.html", page)
    if as_json:
        print_json({"folder": str(run), "report": str(run / "report.html"), "rounds": done, "audit": told})
        return
    _show(done)
    say(f"Report: {run / 'report.html'}")


def _audited(run: Path) -> tuple[dict[str, Any], str]:
    """What an audit says of the rounds, and its page."""
    from fedparity.audit import open_audit
    from fedparity.audit.summary import summary
    from fedparity.report.audit_page import render_audit

    audit = open_audit([run / "rounds.jsonl"])
    told = summary(audit)
    return told, render_audit(audit, told)


def _show(rounds: list[Round]) -> None:
    from fedparity.deploy.rounds import name_of

    heads = {"online": ("available", "busy"), "asked": ("selected",), "answered": ("completed",)}
    heads |= {"failed": ("failed", "timed_out"), "late": ("late",)}
    counts = {
        head: Counter(name_of(one) for r in rounds for key in keys for one in r[key]) for head, keys in heads.items()
    }
    names = sorted(set().union(*counts.values()))
    show_table(["client", *heads], [[name, *(str(counts[head][name]) for head in heads)] for name in names])


@deploy_app.command("doctor", cls=Command)
def doctor_command(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The app's folder.")] = Path(),
    *,
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The SuperLink, as its clients reach it.")
    ] = "127.0.0.1:8000",
    as_json: AsJson = False,
) -> None:
    """Check versions, tools, app, certificates, key files, ports, the Control API and clocks; exit 1 if one fails.

    fedparity deploy doctor my-app
    fedparity deploy doctor my-app --superlink 10.8.0.1:8000 --json
    """
    from dataclasses import asdict

    from fedparity.deploy import examine

    found = examine(folder, superlink)
    if as_json:
        print_json({"folder": str(folder), "superlink": superlink, "checks": [asdict(one) for one in found]})
    else:
        for one in found:
            say(f"{one.name:<13}{one.state:<9}{one.found}")
            if one.state != "ok" and one.fix:
                say(f"{'':<22}{one.fix}")
    if any(one.state == "failed" for one in found):
        raise typer.Exit(CHECK_FAILED)


@deploy_app.command("metrics", cls=Command)
def metrics_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rounds-file of a deployment.")],
    *,
    port: Annotated[
        int | None, typer.Option(help="Serve them on loopback until stopped.", show_default="printed once")
    ] = None,
) -> None:
    """A deployment's rounds as OpenMetrics: printed, or served on loopback.

    fedparity deploy metrics my-app/state/rounds.jsonl
    fedparity deploy metrics my-app/state/rounds.jsonl --port 9464
    """
    from fedparity.deploy import openmetrics, read_rounds
    from fedparity.deploy.metrics import metrics_server

    text = openmetrics(read_rounds(file))
    if port is None:
        print_text(text)
        return
    with metrics_server(file, port) as server:
        say(f"http://127.0.0.1:{server.server_port}/metrics")
        server.serve_forever()
