"""What is wrong with an installation, and the fix: versions, tools, app, keys, ports, the Control API, clocks."""

from __future__ import annotations

import http.client
import ipaddress
import platform
import shutil
import ssl
import sys
import time
import tomllib
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from fedparity.core.errors import ConfigError
from fedparity.deploy import keys
from fedparity.deploy.flower import LOOPBACK, TOOLS, answers, programs
from fedparity.deploy.keys import Check, state
from fedparity.engines.flower.shim import require

AHEAD = 5.0
"""Seconds by which a node's clock may be ahead of its SuperLink's: Flower refuses it beyond that."""
LISTENING = "0A"
"""A socket's state in /proc/net/tcp."""


def examine(folder: Path, superlink: str = f"{LOOPBACK}:8000") -> list[Check]:
    """Look at an app's folder, and at the SuperLink that its clients are to reach."""
    host, port = address(superlink)
    return [
        _flower(),
        *_tools(),
        *_app(folder),
        *keys.examine(folder / "keys", host),
        *_port(folder / "keys" / "ca.pem", host, port),
        exposure(port),
    ]


def address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) < 1 << 16:
        raise ConfigError(f"{text!r} must be HOST:PORT, such as {LOOPBACK}:8000")
    return host.strip("[]"), int(port)


def _flower() -> Check:
    try:
        version, place = require(), programs()
    except ConfigError as error:
        found, _, fix = str(error).partition("; ")
        return Check("flower", "failed", found, fix)
    found = f"Flower {version} in {place}, Python {platform.python_version()}"
    return Check("flower", "ok", found)


def _tools() -> Iterator[Check]:
    for tool, package in TOOLS.items():
        where = shutil.which(tool)
        yield Check(tool, state(where is not None), where or "not installed", f"install the package {package}")


def _app(folder: Path) -> Iterator[Check]:
    fix = "fedparity deploy init FOLDER"
    try:
        told = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        parts = told["tool"]["flwr"]["app"]["components"]
        files = [
            folder / f"{parts[side].partition(':')[0].replace('.', '/')}.py" for side in ("serverapp", "clientapp")
        ]
    except OSError as error:
        yield Check("app", "failed", f"{folder / 'pyproject.toml'}: {error.strerror}", fix)
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        yield Check("app", "failed", f"{folder / 'pyproject.toml'} names no serverapp and clientapp", fix)
        return
    lost = [path.name for path in files if not path.is_file()]
    found = f"{' and '.join(lost)} not there" if lost else "server and client are there"
    yield Check("app", state(not lost), found, "name the files that are, in [tool.flwr.app.components]")


def _port(root: Path, host: str, port: int) -> Iterator[Check]:
    """Whether the port is free, or a SuperLink answers that we can trust, and what time it has."""
    if not answers(host, port):
        fix = "start the SuperLink, or look at the firewall"
        if _is_loopback(host):
            yield Check("port", "ok", f"{host}:{port}: free", fix)
        else:
            yield Check("port", "unknown", f"{host}:{port}: nobody answers", fix)
        yield Check("clock", "unknown", "no SuperLink answers to compare with", "start it, then ask again")
        return
    try:
        context = ssl.create_default_context(cafile=str(root))
        connection = http.client.HTTPSConnection(host, port, timeout=5, context=context)
        before = time.time()
        connection.request("GET", "/")
        said = connection.getresponse().headers.get("Date", "")
        after = time.time()
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        no_tls = "it speaks no TLS" if getattr(error, "reason", None) == "WRONG_VERSION_NUMBER" else None
        refused = no_tls or getattr(error, "verify_message", None) or getattr(error, "strerror", None)
        why = refused or type(error).__name__
        fix = "give another --superlink, or the ca.pem that its certificate was signed with"
        yield Check("port", "failed", f"{host}:{port} answers, but not as our SuperLink: {why}", fix)
        return
    yield Check("port", "ok", f"{host}:{port}: a SuperLink with our certificate")
    yield clock(said, before, after)


def clock(said: str, before: float, after: float) -> Check:
    """Our clock against the date in a SuperLink's answer, which is cut to whole seconds."""
    try:
        theirs = parsedate_to_datetime(said).timestamp()
    except (TypeError, ValueError):
        return Check("clock", "unknown", "the SuperLink's answer has no date", "compare by hand: date -u")
    off = 0.0 if before - 1 <= theirs <= after else min(before - theirs, after - theirs, key=abs)
    found = f"{abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the SuperLink's" if off else "as the SuperLink's"
    return Check("clock", state(abs(off) <= AHEAD), f"this clock is {found}", "let NTP set both clocks")


def exposure(port: int, tables: Path = Path("/proc/net")) -> Check:
    """Whether the Control API, which has no login, listens on more than loopback."""
    found: list[str] = []
    try:
        for name in ("tcp", "tcp6"):
            table = tables / name
            found += _listening(table.read_text(encoding="ascii"), port) if table.exists() or name == "tcp" else []
    except OSError:
        return Check(
            "control api", "unknown", "sockets cannot be listed here", f"look for port {port} with: netstat -an"
        )
    beyond = sorted({one for one in found if not _is_loopback(one)})
    if beyond:
        return Check(
            "control api",
            "failed",
            f"listens on {', '.join(beyond)}, without a login",
            f"start the SuperLink with --host {LOOPBACK}, a VPN's address, or behind a proxy that blocks /v1/control",
        )
    return Check("control api", "ok", "on loopback alone" if found else f"nobody listens on port {port} here")


def _listening(table: str, port: int) -> Iterator[str]:
    """Addresses that a port is listened on, from a table whose numbers are in the machine's byte order."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        packed, _, at = fields[1].partition(":")
        if fields[3] != LISTENING or int(at, 16) != port:
            continue
        words = [int(packed[i : i + 8], 16) for i in range(0, len(packed), 8)]
        raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
        found = ipaddress.ip_address(raw)
        yield str(getattr(found, "ipv4_mapped", None) or found)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
