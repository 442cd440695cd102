"""What an audit found, in three sentences for people who do not know the words."""

from __future__ import annotations

import numpy as np

from fedparity.audit.audit import ENDS, Audit
from fedparity.metrics import printed
from fedparity.metrics.paired import LEVEL


def verdict(audit: Audit) -> list[str]:
    """What happened; how much of it could have been avoided; whether chance explains it."""
    return [_what(audit), _avoidable(audit), _chance(audit)]


def _what(audit: Audit) -> str:
    log, counts = audit.log, audit.log.ledger.selected
    n, total = log.num_clients - audit.erased, audit.total
    tenth = max(1, round(n / 10))
    top = float(np.sort(counts)[-tenth:].sum()) / max(1, total)
    never = int((counts == 0).sum()) - audit.erased
    text = (
        f"In {log.num_rounds:,} rounds {total:,} requests went out to {n - never:,} of {n:,} clients; "
        f"{'the tenth of the clients that were' if n >= 10 else 'the client'} asked most got {_part(top, 1.0)} of them"
    )
    if not never:
        return f"{text}, and nobody went without."
    there = int(((counts == 0) & (log.ledger.online > 0)).sum()) if audit.online_known else 0
    return f"{text}, and {never:,} {'client' if never == 1 else 'clients'} got none{_though(there, never)}."


def _though(there: int, never: int) -> str:
    if not there:
        return ""
    who = "it was" if never == 1 else f"{there:,} of them {'was' if there == 1 else 'were'}"
    return f", though {who} there at times"


def _avoidable(audit: Audit) -> str:
    found = audit.measures
    gini, limit, own = (found[key] for key in ("gini", "gini_limit", "gini_avoidable"))
    scale = "on a scale from 0 (everybody got the same) to 1 (one got all)"
    shown = printed("gini", gini)
    if printed("gini", gini) == printed("gini", 0.0):
        return f"Requests were shared evenly: the inequality is {shown} {scale}."
    if not audit.online_known:
        worst = audit.measures_of(audit.ends[ENDS[0]])["gini_avoidable"]
        if printed("gini", worst) == printed("gini", 0.0):
            return f"The inequality is {shown} {scale}; nothing of it could have been avoided, whoever was online."
        return (
            f"The inequality is {shown} {scale}; who was online is not in the log, so between 0 % (if clients were "
            f"there only when asked) and {_part(worst, gini)} (if all were always there) could have been avoided."
        )
    return (
        f"The inequality is {shown} {scale}; with the same clients coming and going it could have been "
        f"{printed('gini', limit)}, so {_part(own, gini)} of it could have been avoided."
    )


def _part(own: float, whole: float) -> str:
    return f"{max(0.0, own / whole if whole else 0.0):.0%}".replace("%", " %")


def _chance(audit: Audit) -> str:
    chance = audit.chance
    if chance is None:
        return "The log is too large to be compared with a random draw."
    told = "" if audit.online_known else ", if all were always there"
    if len(audit.left_out):
        said = _left_out(audit) if audit.online_known else _perhaps_left_out(len(audit.left_out))
        return f"{said}{_group(audit)}."
    p = f"p = {chance.p:.2g}{told}"
    if chance.p > LEVEL:
        return f"A random draw among those present would give such a log, too ({p}){_group(audit)}."
    if chance.gini_range is not None and audit.measures["gini"] < chance.gini_range[0]:
        drawn = printed("gini", chance.gini)
        return f"It is shared more evenly than by a random draw among those present ({drawn}; {p}){_group(audit)}."
    return (
        "No single client was asked far less often than by a random draw among those present, but all requests "
        f"together do not look like one ({p}){_group(audit)}."
    )


def _left_out(audit: Audit) -> str:
    first = audit.listed(audit.left_out, fewer=True)[0]
    count = len(audit.left_out)
    since = f" since round {first.since:,}" if first.since is not None else ""
    return (
        f"{count:,} {'client was' if count == 1 else 'clients were'} asked less often than a random draw among those "
        f"present explains: first {first.name}, there in {first.online:,} rounds and asked {first.asked:,} "
        f"{'time' if first.asked == 1 else 'times'}, where a draw would give {first.expected:.0f}{since}"
    )


def _perhaps_left_out(count: int) -> str:
    return (
        "Whether anybody was left out cannot be told without knowing who was there; if all always were, "
        f"{count:,} {'client was' if count == 1 else 'clients were'} asked less often than a random draw explains"
    )


def _group(audit: Audit) -> str:
    flagged = [group for group in audit.groups.shown if group.flagged] if audit.groups is not None else []
    if not flagged:
        return ""
    return (
        f"; the group {flagged[0].name} was asked {flagged[0].impact_ratio:.2f} times as often per client as the group "
        "asked most"
    )
