"""The manifest: the SHA-256 of every file of a run that was closed cleanly, so that no flipped bit goes unnoticed."""

from __future__ import annotations

import hashlib
import json

from fedparity.core.errors import InputError
from fedparity.store.disk import Disk

MANIFEST, LOCK = "manifest.json", "lock"
SKIPPED = {MANIFEST, LOCK, "run.db-shm"}
"""Not listed: the manifest itself, the empty lock, and an index that SQLite's readers write into."""


def write_manifest(disk: Disk) -> None:
    """List every file with its digest, under a digest of the list."""
    files = {name: _sha256(disk, name) for name in disk.names() if name not in SKIPPED}
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
    there = set(disk.names()) - SKIPPED
    return sorted(
        [name for name, sha256 in files.items() if name not in there or _sha256(disk, name) != sha256]
        + [name for name in there if name not in files]
    )
