"""Availability as data: who is online in which round, and who stays until its end.

Stored by round (the ids online, concatenated), so a population of 10^5 clients over 10^3 rounds at 10 % costs 40 MB,
and asking who is there in a round costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.checks import is_encodable
from fedparity.core.errors import ConfigError
from fedparity.core.reprs import one_line
from fedparity.core.types import BoolArray, FloatArray, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """`clients[starts[t]:starts[t + 1]]` are online in round t; `stays` is aligned with `clients`."""

    num_clients: int
    starts: NDArray[np.int64]
    clients: NDArray[np.int32]
    stays: BoolArray | None = None
    """Who is still there when the round's work is done; None: everybody."""
    names: tuple[str, ...] | None = None
    """What the clients are called outside; None: their numbers."""
    before: Trace | None = None
    """Rounds that the server watched before round 0, without asking anybody; None: it starts blind."""

    @classmethod
    def from_rounds(
        cls,
        num_clients: int,
        rounds: Iterable[NDArray[np.integer]],
        stays: Iterable[BoolArray] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Trace:
        """From the sorted ids online in each round."""
        checks.at_least("clients", num_clients, 1)
        ids = [_ids(t, row, num_clients) for t, row in enumerate(_listed(rounds))]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)])
        clients = np.concatenate(ids) if ids else np.empty(0, np.int32)
        kept = None if stays is None else _stays(stays, ids)
        return cls(num_clients, starts.astype(np.int64), clients, kept, names)

    @classmethod
    def from_matrix(cls, online: NDArray[np.bool_] | Sequence[Sequence[int]]) -> Trace:
        """From a rounds x clients matrix of who is online."""
        matrix = _flags(online, "an availability matrix")
        if matrix.ndim != 2:
            raise ConfigError(f"an availability matrix has rounds x clients, not the shape {matrix.shape}")
        return cls.from_rounds(matrix.shape[1], (np.flatnonzero(row) for row in matrix))

    def __post_init__(self) -> None:
        checks.at_least("clients", self.num_clients, 1)
        _check_kinds(self)
        if len(self.starts) < 2:
            raise ConfigError("rounds=0 must be at least 1: a trace without rounds says nothing")
        if self.starts[0] != 0 or self.starts[-1] != len(self.clients) or (np.diff(self.starts) < 0).any():
            raise ConfigError("'starts' of a trace must rise from 0 to the number of entries in 'clients'")
        outside = (self.clients < 0) | (self.clients >= self.num_clients)
        if outside.any():
            raise ConfigError(f"a trace of {self.num_clients} clients names client {self.clients[outside][0]}")
        unsorted = np.diff(self.clients) <= 0
        unsorted[self.starts[1:-1][(self.starts[1:-1] > 0) & (self.starts[1:-1] < len(self.clients))] - 1] = False
        if unsorted.any():
            raise ConfigError("the clients of each round of a trace must be sorted, each once")
        _check_names(self.names, self.num_clients)
        if self.stays is not None and len(self.stays) != len(self.clients):
            raise ConfigError("'stays' of a trace must have one entry for each client online in each round")

    def __repr__(self) -> str:
        online = len(self.clients) / self.num_rounds
        return f"Trace({self.num_clients} clients x {self.num_rounds} rounds, {online:.1f} online)"

    @property
    def num_rounds(self) -> int:
        """How many rounds it covers."""
        return len(self.starts) - 1

    def online(self, round: int) -> Ids:
        """Who is online at the start of `round`."""
        checks.at_least("round", round, 0)
        if round >= self.num_rounds:
            raise ConfigError(f"round={round} must be at most {self.num_rounds - 1}, the last of this trace")
        return self.clients[self.starts[round] : self.starts[round + 1]].astype(np.int64)

    def staying(self, round: int) -> Ids:
        """Who is online at the start of `round` and still there at its end."""
        ids = self.online(round)
        return ids if self.stays is None else ids[self.stays[self.starts[round] : self.starts[round + 1]]]

    def __iter__(self) -> Iterator[Ids]:
        """The ids online, round by round."""
        return (self.online(t) for t in range(self.num_rounds))

    def sizes(self) -> NDArray[np.int64]:
        """How many clients are online in each round."""
        return np.diff(self.starts)

    def counts(self) -> NDArray[np.int64]:
        """In how many rounds each client is online."""
        return np.bincount(self.clients, minlength=self.num_clients)

    def rates(self) -> FloatArray:
        """The share of rounds in which each client is online."""
        return self.counts() / self.num_rounds

    def matrix(self) -> BoolArray:
        """Rounds x clients, dense: for small traces and pictures."""
        dense = np.zeros((self.num_rounds, self.num_clients), dtype=np.bool_)
        dense[np.repeat(np.arange(self.num_rounds), self.sizes()), self.clients] = True
        return dense

    def sessions(self) -> NDArray[np.int64]:
        """Runs of consecutive rounds online, as rows (client, first round, rounds), in client order."""
        rounds = np.repeat(np.arange(self.num_rounds), self.sizes())
        order = np.argsort(self.clients, kind="stable")
        client, when = self.clients[order].astype(np.int64), rounds[order]
        new = np.ones(len(client), dtype=np.bool_)
        new[1:] = (np.diff(client) != 0) | (np.diff(when) != 1)
        first = np.flatnonzero(new)
        return np.stack([client[first], when[first], np.diff(np.append(first, len(client)))], axis=1)

    def gaps(self) -> NDArray[np.int64]:
        """Lengths, in rounds, of the absences between two sessions of one client."""
        runs = self.sessions()
        same = np.diff(runs[:, 0]) == 0
        return np.asarray((runs[1:, 1] - runs[:-1, 1] - runs[:-1, 2])[same], dtype=np.int64)

    def head(self, rounds: int) -> Trace:
        """The first `rounds` rounds."""
        checks.at_least("rounds", rounds, 1)
        if rounds > self.num_rounds:
            raise ConfigError(f"rounds={rounds} must be between 1 and the {self.num_rounds} of this trace")
        end = self.starts[rounds]
        stays = None if self.stays is None else self.stays[:end]
        return Trace(self.num_clients, self.starts[: rounds + 1], self.clients[:end], stays, self.names, self.before)

    def without(self, clients: Collection[int]) -> Trace:
        """The same trace in which these clients are never there and have no names; itself, if there are none."""
        if not clients:
            return self
        kept = ~np.isin(self.clients, sorted(clients))
        return Trace(
            self.num_clients,
            np.append(0, np.cumsum(kept))[self.starts],
            self.clients[kept],
            None if self.stays is None else self.stays[kept],
            None if self.names is None else tuple("" if k in clients else name for k, name in enumerate(self.names)),
            None if self.before is None else self.before.without(clients),
        )

    def with_dropout(self, rate: float, rng: np.random.Generator) -> Trace:
        """The same trace in which each online client leaves mid-round with probability `rate`."""
        checks.between("dropout", rate, 0, 1)
        checks.instance("rng", rng, np.random.Generator, "stream(seed, 'dropout') makes one")
        kept = rng.random(len(self.clients)) >= rate
        stays = kept if self.stays is None else kept & self.stays
        return Trace(self.num_clients, self.starts, self.clients, stays, self.names, self.before)


def _check_kinds(trace: Trace) -> None:
    for name in ("starts", "clients"):
        given: object = getattr(trace, name)
        if not (isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind in "iu"):
            raise ConfigError(f"{name}={one_line(given)} must be an array of whole numbers; use Trace.from_rounds")
    if trace.before is not None:
        checks.instance("before", trace.before, Trace)


def _check_names(names: Any, num_clients: int) -> None:
    if names is None:
        return
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"names={one_line(names)} must be texts, one per client")
    if not is_encodable("".join(names)):
        wrong = next((name for name in names if not is_encodable(name)), "".join(names))
        raise ConfigError(f"client {wrong!r} is not a name that can be written as UTF-8; rename it")
    given = [name for name in names if name]  # who was erased has none
    if len(names) != num_clients or len(set(given)) < len(given):
        raise ConfigError(f"{len(set(names))} names for {num_clients} clients; give each its own")


def _array(given: object, what: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ConfigError(f"{what} must have rows of one length") from error


def _listed(rounds: Iterable[Any]) -> Iterable[Any]:
    if not isinstance(rounds, Iterable):
        raise ConfigError(f"rounds={one_line(rounds)} must be the ids online in each round, one list per round")
    return rounds


def _ids(round: int, row: object, num_clients: int) -> NDArray[np.int32]:
    ids = _array(row, f"round {round}")
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(f"round {round} of a trace must be a list of client numbers, not {one_line(row)}")
    outside = ids[(ids < 0) | (ids >= num_clients)]
    if outside.size:
        raise ConfigError(f"round {round} of a trace of {num_clients} clients names client {outside[0]}")
    return ids.astype(np.int32)


def _flags(given: object, what: str) -> BoolArray:
    flags = _array(given, what)
    odd = flags[(flags != 0) & (flags != 1)]
    if odd.size:
        raise ConfigError(f"{what} is made of 0 and 1, or False and True, not {odd.tolist()[0]!r}")
    return flags.astype(np.bool_)


def _stays(stays: Iterable[Any], ids: Sequence[NDArray[np.int32]]) -> BoolArray:
    rows = [_flags(row, "'stays' of a trace") for row in stays]
    if [row.shape for row in rows] != [row.shape for row in ids]:
        raise ConfigError("'stays' of a trace must have one entry for each client online in each round")
    return np.concatenate([*rows, np.empty(0, np.bool_)])
