"""Certificates and keys: made by the app's own script, examined with openssl."""

from __future__ import annotations

import ipaddress
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from fedparity.core.errors import ConfigError
from fedparity.deploy.flower import TOOLS, missing_tools

SOON = 30
"""Days before its end at which a certificate is called old."""
MADE = "remove keys/server.pem and run: sh keys.sh CLIENTS NAME..."
ANEW = "put back the ca.pem that it was signed with, or remove keys/ and run: sh keys.sh CLIENTS NAME..."


State: TypeAlias = Literal["ok", "failed", "unknown"]
"""Unknown: it could not be examined here."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one look found."""

    name: str
    state: State
    found: str
    fix: str = ""


def state(holds: object) -> State:
    """What a look found that could be taken."""
    return "ok" if holds else "failed"


def make(app: Path, clients: int) -> None:
    """Make what is missing of an app's certificates and keys."""
    wanted = [app / "keys" / name for name in ("ca.pem", "server.pem", *(f"client-{k}" for k in range(clients)))]
    if all(path.exists() for path in wanted):
        return
    for tool in missing_tools():
        raise ConfigError(f"{tool} is not installed, which makes keys; install the package {TOOLS[tool]}")
    script = app / "keys.sh"
    if not script.is_file():
        raise ConfigError(f"{app} has no keys.sh; write the app again with: fedparity deploy init FOLDER")
    done = subprocess.run(  # noqa: S603 - the script that `deploy init` wrote
        [shutil.which("sh") or "/bin/sh", str(script), str(clients)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"{script} failed: {said}; remove {app / 'keys'} and try again")


def examine(folder: Path, host: str) -> Iterator[Check]:
    """Certificates and keys of a folder, for clients that reach the SuperLink as `host`."""
    if not (folder / "ca.pem").exists() and not (folder / "server.pem").exists():
        yield Check(
            "certificates",
            "unknown",
            f"{folder} holds none",
            "deploy up makes them; for other machines: sh keys.sh CLIENTS NAME...",
        )
        return
    if shutil.which("openssl") is None:
        yield Check("certificates", "unknown", "openssl is not installed", f"install the package {TOOLS['openssl']}")
    else:
        yield _chain(folder, host)
        yield _expiry(folder)
        yield _pair(folder)
    yield _modes(folder)


def _openssl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - fixed words and paths
        [shutil.which("openssl") or "openssl", *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _chain(folder: Path, host: str) -> Check:
    """Signed by our authority, valid now, and for this name."""
    done = _openssl("verify", "-CAfile", str(folder / "ca.pem"), *_name_option(host), str(folder / "server.pem"))
    if done.returncode == 0:
        return Check("certificate", "ok", f"signed by ca.pem, for {host}")
    why = re.search(r"lookup: *(.+)", done.stderr)
    found = why[1] if why else (done.stderr.strip().splitlines() or ["cannot be read"])[-1]
    fix = ANEW if re.search("issuer|self-signed|signature", found) else MADE
    return Check("certificate", "failed", f"server.pem is not good for {host}: {found}", fix)


def _name_option(host: str) -> list[str]:
    try:
        return ["-verify_ip", str(ipaddress.ip_address(host))]
    except ValueError:
        return ["-verify_hostname", host]


def _expiry(folder: Path) -> Check:
    done = _openssl("x509", "-in", str(folder / "server.pem"), "-noout", "-enddate", "-dateopt", "iso_8601")
    if done.returncode:
        return Check("expiry", "failed", "server.pem is no certificate", MADE)
    end = datetime.fromisoformat(done.stdout.strip().partition("=")[2].removesuffix("Z")).replace(tzinfo=UTC)
    days = (end - datetime.now(UTC)).days
    return Check("expiry", state(days >= SOON), f"server.pem ends {end:%Y-%m-%d}, in {days} days", MADE)


def _pair(folder: Path) -> Check:
    ours = _openssl("x509", "-in", str(folder / "server.pem"), "-noout", "-pubkey").stdout
    key = _openssl("pkey", "-in", str(folder / "server.key"), "-pubout").stdout
    same = bool(ours) and ours == key
    return Check("key pair", state(same), f"server.key {'is' if same else 'is not'} the key of server.pem", MADE)


def _modes(folder: Path) -> Check:
    """Private keys are for their owner alone."""
    private = [path for path in sorted(folder.iterdir()) if path.suffix == ".key" or _is_private(path)]
    loose = [path.name for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if loose:
        return Check("key files", "failed", f"others may read {', '.join(loose)}", f"chmod 600 {folder / loose[0]}")
    return Check("key files", "ok", f"{len(private)} private keys, for their owner alone")


def _is_private(path: Path) -> bool:
    try:
        return path.is_file() and b"PRIVATE KEY" in path.read_bytes()[:100]
    except OSError:
        return False  # what we may not read others may not, either
