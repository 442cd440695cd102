"""Every error a user can meet, in one tree.

    FedparityError
    ├── ConfigError     a value given by the caller breaks a rule (argument, component, spec key)
    ├── InputError      a file given by the caller cannot be read as what it should be
    ├── OutputError     a result cannot be written where the caller wants it
    ├── RefusedError    what a client sent cannot be used; its client is dropped for the round, the round goes on
    └── RoundError      an engine and a coordinator disagree about a round

A message names the value, the rule and the fix, in one line: it is what the command line prints.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MANY = 60
"""Names that one line of an error can still list."""


class FedparityError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigError(FedparityError):
    """A value given by the caller breaks a rule."""


class InputError(FedparityError):
    """A file given by the caller cannot be read as what it should be."""


class OutputError(FedparityError):
    """A result cannot be written where the caller wants it."""


class RefusedError(FedparityError):
    """What a client sent cannot be used."""


class RoundError(FedparityError):
    """An engine and a coordinator disagree about a round."""


def in_line(name: str) -> str:
    """A name that may have been read from a file, as a line of text can have it."""
    return name if name.isprintable() else repr(name)


def unknown(kind: str, name: str, known: Iterable[str], shown_by: str = "`fedparity list`") -> ConfigError:
    """The error for a name that is not in a table, with the nearest one that is; `shown_by` shows a long table."""
    names = sorted(set(known))
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(map(in_line, names))
    shown = listed if len(names) <= MANY else f"{len(names)} names, which {shown_by} shows"
    return ConfigError(f"unknown {kind} {name!r};{hint} known: {shown}")
