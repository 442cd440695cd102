"""The manifest: the SHA-256 of every file of a run that was closed cleanly, so that no flipped bit goes unnoticed.

It vouches for what this package writes; what somebody else put into the folder is neither listed nor touched.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fedparity.core.errors import ConfigError, InputError
from fedparity.store.arrays import FOLDER
from fedparity.store.database import DATABASE, LOG
from fedparity.store.disk import Disk
from fedparity.store.heads import HEADS
from fedparity.store.lock import LOCK

MANIFEST = "manifest.json"
SPECS = ("spec.toml", "spec.resolved.toml")
COMPARISON = ("comparison.csv", "comparison.json", "comparison.tex", "tradeoff.svg")
"""What `fedparity compare` adds to the folder of a run it made."""
RESULTS = ("metrics_log.csv", "clients.csv", "journal.jsonl", "summary.json", "report.html", *COMPARISON)
DERIVED = (*SPECS, *RESULTS)
"""Files that can be written anew from the store."""
INDEX = f"{DATABASE}-shm"
"""SQLite's readers write into it."""


def _listed(disk: Disk) -> set[str]:
    found = {n for n in disk.names() if n in DERIVED or n.startswith(FOLDER) or (n.startswith(DATABASE) and n != INDEX)}
    # A process that died while it opened a closed run leaves a log in which nothing was written.
    return found - {LOG} if LOG in found and not disk.path(LOG).stat().st_size else found


def not_ours(disk: Disk) -> list[str]:
    """Files in the folder that somebody else put there: an erasure does not look into them."""
    return sorted(set(disk.names()) - _listed(disk) - {MANIFEST, HEADS, LOCK, INDEX, LOG})


def outside(folder: Path) -> Path:
    """A folder for tables, which is not that of a run: what is written there would not be what the run wrote."""
    if (folder / DATABASE).exists():
        raise ConfigError(f"{folder} holds a run, whose files are sealed; give another --out")
    return folder


def write_manifest(disk: Disk) -> None:
    """List every file with its digest, under a digest of the list; each is on the disk before the list is."""
    files = {}
    for name in sorted(_listed(disk)):
        if name in DERIVED:
            disk.sync(name)
        files[name] = _sha256(disk, name)
    body = json.dumps(files, indent=1, sort_keys=True)
    seal = hashlib.sha256(body.encode()).hexdigest()
    disk.write(MANIFEST, f"{seal}\n{body}\n".encode())


def _sha256(disk: Disk, name: str) -> str:
    try:
        with disk.path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{disk.path(name)}: cannot be read ({error.strerror})") from error


def differences(disk: Disk) -> list[str] | None:
    """Files that are not what the manifest says, by name; None if there is no manifest (the run was not closed)."""
    if not disk.path(MANIFEST).exists():
        return None
    seal, _, body = disk.read(MANIFEST).partition(b"\n")
    if hashlib.sha256(body.rstrip(b"\n")).hexdigest().encode() != seal or not body.endswith(b"\n"):
        return [MANIFEST]
    try:
        files: dict[str, str] = dict(json.loads(body))
    except (RecursionError, TypeError, ValueError):
        return [MANIFEST]
    there = _listed(disk)
    return sorted(
        [name for name, sha256 in files.items() if name not in there or _sha256(disk, name) != sha256]
        + [name for name in there if name not in files]
    )
