"""`fedparity audit`: who was left out of any federated system, and how much of that could have been avoided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import CHECK_FAILED, AsJson, keep, print_json, say, show_table
from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.audit import Audit

SHOWN = ("selection_gap", "gini", "cv_counts", "jain_counts", "never_served", "fill")
LISTED = 10
GROUPS = 20
RATIO = "Impact ratio: per client, to the group asked most, ! below .80; p: of a random draw."
ASSUMED = "Limits and tables take everybody for always online: who was there is not in the log."


def audit_command(
    log: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="CSV, Parquet, JSON (lines), - or a run's folder.")
    ],
    *,
    column: Annotated[
        list[str] | None, typer.Option("--map", metavar="FIELD=COLUMN", help="What the log calls a field. Repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Rows (or the method of a run) to take. Repeatable."),
    ] = None,
    clients: Annotated[
        Path | None, typer.Option(help="A table of all registered clients, perhaps with groups.")
    ] = None,
    online: Annotated[Path | None, typer.Option(help="Who was there: a table (round, client) or a trace file.")] = None,
    cohort: Annotated[
        int | None, typer.Option(help="Slots per round (m).", show_default="the most that a round asked")
    ] = None,
    rounds: Annotated[
        str | None, typer.Option(metavar="FIRST-LAST", help="Rounds covered.", show_default="those of the rows")
    ] = None,
    min_group: Annotated[int, typer.Option(help="Groups with fewer clients are not shown.")] = 10,
    seed: Annotated[int, typer.Option(help="Start of the random numbers that chance is drawn with.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write one row per client.")] = None,
    card: Annotated[Path | None, typer.Option(help="Write a fairness card, .md, .json or .html.")] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option(metavar="CONDITION", help="Exit with 1 if it holds: 'gini_avoidable > .1'.")
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign the JSON (or check it) with the secret in a file.")
    ] = None,
    verify: Annotated[
        Path | None, typer.Option(metavar="RESULT", help="Check an earlier --json: do it again, and compare.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Audit a participation log of any system: who was left out, and how much of that could have been avoided.

    fedparity audit log.csv --html audit.html
    fedparity audit log.parquet --map client=device_id --fail-if 'gini_avoidable>.1'
    fedparity audit runs/demo --where method=parity --json
    """
    from fedparity.audit import open_audit
    from fedparity.audit.card import FORMS
    from fedparity.audit.fail_if import holds, parse
    from fedparity.audit.seal import read_key, read_result, signed
    from fedparity.audit.summary import summary

    keep([*log, clients, online, sign], html, csv, card)
    key = None if sign is None else read_key(sign)
    if key is not None and not as_json and verify is None:
        raise ConfigError("--sign signs the JSON; add --json")
    if card is not None and card.suffix not in FORMS:
        raise ConfigError(f"card={card} must end in {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    for text in fail_if or ():
        parse(text)
    if verify is not None:
        files = {"clients": clients, "online": online}
        _verify(log, verify, read_result(verify), files, key, as_json=as_json)
        return
    found = open_audit(
        log,
        columns=column or (),
        where=where or (),
        clients=clients,
        online=online,
        cohort=cohort,
        rounds=rounds,
        seed=seed,
        min_group=min_group,
    )
    told = summary(found)
    told = told if key is None else signed(told, key)
    failed = [text for text in fail_if or () if holds(text, told)]
    written = _write(found, told, html, csv, card)
    if as_json:
        print_json(told)
    else:
        _show(told)
        for path in written:
            say(f"Written: {path}")
    for text in failed:
        say(f"Failed: {text}", stderr=as_json)
    if failed:
        raise typer.Exit(CHECK_FAILED)


def _write(audit: Audit, told: dict[str, Any], html: Path | None, csv: Path | None, card: Path | None) -> list[Path]:
    from fedparity.audit.card import card_text
    from fedparity.audit.tables import client_csv
    from fedparity.core.files import write_text

    if csv is not None:
        write_text(csv, client_csv(audit))
    if card is not None and card.suffix == ".html":
        from fedparity.report.card_page import render_card

        write_text(card, render_card(told))
    elif card is not None:
        write_text(card, card_text(told, card.suffix))
    if html is not None:
        from fedparity.report.audit_page import render_audit

        write_text(html, render_audit(audit, told))
    return [path for path in (html, csv, card) if path is not None]


def _verify(
    logs: list[str],
    path: Path,
    told: dict[str, Any],
    files: dict[str, Any],
    key: bytes | None,
    *,
    as_json: bool,
) -> None:
    from fedparity.audit import open_audit
    from fedparity.audit.open import OPTIONS
    from fedparity.audit.seal import problems
    from fedparity.audit.summary import summary

    options = told["options"] if isinstance(told["options"], dict) else {}
    for name, file in files.items():
        if name in options and file is None:
            raise ConfigError(f"{path}: was made with a table {options[name]!r}; give it again: --{name} FILE")
    how = {OPTIONS[name]: value for name, value in options.items() if name in OPTIONS}
    found = problems(told, summary(open_audit(logs, **files, **how)), key)
    if as_json:
        print_json({"result": path.name, "ok": not found, "signature_checked": key is not None, "problems": found})
    else:
        for one in found:
            say(one)
        checked = "with its signature" if key is not None else "its signature was not checked: give --sign KEY"
        say(f"{path}: {'does not hold' if found else 'holds'} ({checked})")
    if found:
        raise typer.Exit(CHECK_FAILED)


def _show(told: dict[str, Any]) -> None:
    from fedparity.metrics import printed
    from fedparity.metrics.measures import MEASURES

    for sentence in told["verdict"]:
        say(sentence, wrap=True)
    say("")
    parts = ("", "_limit", "_avoidable")
    rows = [(MEASURES[name].heading, *(printed(name, told.get(f"{name}{part}")) for part in parts)) for name in SHOWN]
    show_table(("measure", "log", "limit", "avoidable"), rows)
    if not told["availability_known"]:
        say(ASSUMED, wrap=True)
    _show_groups(told)
    _show_clients(told)
    for point in told["changes"]:
        now, before = _ratio(point["after"]), _ratio(point["before"])
        say(f"From round {point['round']}: {point['what']} got {now} x chance, {before} x before.", wrap=True)
    for finding in told["findings"]:
        say(f"Found: {finding['what']}: {finding['count']:,} ({finding['says']})", wrap=True)
    for text in told["assumptions"]:
        say(f"Assumed: {text}", wrap=True)


def _show_groups(told: dict[str, Any]) -> None:
    if told["groups"]:
        say("")
        head = ("group", "clients", "online", "asked", "per client", "impact ratio", "p")
        show_table(head, [_group(group) for group in told["groups"][:GROUPS]])
        if (more := len(told["groups"]) - GROUPS) > 0:
            say(f"and {more} more")
        say(RATIO, wrap=True)
    hidden = told["groups_hidden"]
    if hidden and hidden["groups"]:
        say(f"Too small to be shown (--min-group): {hidden['groups']} groups, {hidden['clients']} clients.")


def _show_clients(told: dict[str, Any]) -> None:
    for key, title in (("left_out_clients", "asked less than by chance"), ("favoured_clients", "asked more")):
        if told[key]:
            say("")
            head = (title, "online", "asked", "by chance", "at limit", "last asked", "since round")
            show_table(head, [_client(one) for one in told[key][:LISTED]])
            if (more := told[key.removesuffix("_clients")] - LISTED) > 0:
                say(f"and {more} more")


def _group(group: dict[str, Any]) -> tuple[str, ...]:
    ratio = "–" if group["impact_ratio"] is None else f"{group['impact_ratio']:.2f}{' !' if group['flagged'] else ''}"
    p = "–" if group["p"] is None else f"{group['p']:.2g}"
    counts = (f"{group[key]:,}" for key in ("clients", "online", "asked"))
    return (group["name"], *counts, f"{group['per_client']:.1f}", ratio, p)


def _client(one: dict[str, Any]) -> tuple[str, ...]:
    last = "never" if one["last_asked"] is None else f"{one['last_asked']:,}"
    since = "–" if one["since"] is None else f"{one['since']:,}"
    counts = (f"{one['online']:,}", f"{one['asked']:,}", f"{one['expected']:.1f}", f"{one['at_limit']:,}")
    return (one["name"], *counts, last, since)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
