"""What components return, held to the rules of a round: a wrong scheduler or weighting is refused by name.

A cohort is looked at in O(m log online): its ids are searched in the sorted ids of those online, and nothing is done
for each registered client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, FedparityError, RoundError
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Feedback, Learner, Scheduler, Weighting
from fedparity.core.reprs import one_line
from fedparity.core.types import Cohort, Design, FloatArray, Ids, RoundView, Rows

S = TypeVar("S")
DESIGNS = get_args(Design)


def select(scheduler: Scheduler[S], state: S, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, S]:
    """The cohort that a scheduler chose, if it keeps the rules, else RoundError; and its next state."""
    with _calling("scheduler", scheduler, "select", view.round):
        found = scheduler.select(state, view, rng)
    try:
        cohort, state = _pair(found, "select")
        return checked(cohort, view), state
    except RoundError as error:
        raise RoundError(f"scheduler {one_line(scheduler)}, round {view.round}: {error}") from None


def checked(cohort: Cohort, view: RoundView) -> Cohort:
    """The cohort with int64 ids and float64 probabilities, or RoundError with the rule that it breaks."""
    if type(cohort) is not Cohort:
        raise RoundError(f"select must return a Cohort first, not {one_line(cohort)}")
    clients = ids_of(cohort.clients, "clients")
    if len(clients) > view.cohort:
        raise RoundError(f"{len(clients)} clients for {view.cohort} slots; return at most view.cohort")
    at = np.searchsorted(view.available, clients)
    absent = at == len(view.available)
    if not absent.any():
        absent = view.available[at] != clients
    if absent.any():
        raise RoundError(f"client {clients[absent][0]} is not online; choose from view.available")
    probs = _per(cohort.probs, len(clients), "probs", "client")
    outside = ~((probs > 0) & (probs <= 1))
    if outside.any():
        raise RoundError(f"probability {probs[outside][0]} must be above 0 and at most 1")
    if cohort.design not in DESIGNS:
        raise RoundError(f"design={cohort.design!r} must be one of {', '.join(DESIGNS)}")
    if not (np.issubdtype(type(cohort.wasted), np.integer) and cohort.wasted >= 0):
        raise RoundError(f"wasted={cohort.wasted!r} must be a whole number of at least 0")
    if len(clients) + cohort.wasted > view.cohort:
        raise RoundError(
            f"{len(clients)} clients and wasted={cohort.wasted} for {view.cohort} slots; make both at most view.cohort"
        )
    if clients is cohort.clients and probs is cohort.probs:
        return cohort
    return Cohort(clients, probs, cohort.design, int(cohort.wasted))


def weigh(
    weighting: Weighting[S], state: S, rows: Rows, ledger: Ledger, round: int
) -> tuple[FloatArray, tuple[str, ...], S]:
    """The weights of a round's rows, if there is a number for each, else RoundError; what to say of it; the state."""
    with _calling("weighting", weighting, "weigh", round):
        notes = weighting.notes(state, rows)
        found = weighting.weigh(state, rows, ledger)
    try:
        weights, state = _pair(found, "weigh")
        return _per(weights, len(rows.clients), "weights", "row"), notes, state
    except RoundError as error:
        raise RoundError(f"weighting {one_line(weighting)}, round {round}: {error}") from None


def learn(scheduler: Learner[S], state: S, feedback: Feedback) -> S:
    """The next state of a scheduler that looks at what came back."""
    with _calling("scheduler", scheduler, "learn", feedback.round):
        return scheduler.learn(state, feedback)


@contextmanager
def _calling(kind: str, component: object, method: str, round: int) -> Iterator[None]:
    """Whatever a component raises is a RoundError that says whose it is, when and where it happened."""
    try:
        yield
    except (FedparityError, MemoryError):
        raise
    except Exception as error:
        *_, last = extract_tb(error.__traceback__)[:3]  # this file, the call, and what was called
        what = " ".join(f"{type(error).__name__}: {error}".split())
        fix = "change a copy: what it is shown is read-only" if "read-only" in what else f"mend it there, or the {kind}"
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise RoundError(
            f"{kind} {one_line(component)}, round {round}: {method} raised {what} ({where}); {fix}"
        ) from error


def ids_of(given: object, what: str, num_clients: int | None = None) -> Ids:
    """Sorted ids as int64, or RoundError: whole numbers, ascending, each once, below `num_clients`."""
    ids = _array(given, "iu", what)
    if ids.ndim != 1:
        raise RoundError(f"{what} has shape {ids.shape}; give one row of ids")
    falls = ids[1:] <= ids[:-1]
    if falls.any():
        at = int(np.flatnonzero(falls)[0])
        raise RoundError(f"{what} must be sorted, each once, but {ids[at + 1]} follows {ids[at]}; use np.unique")
    if num_clients is not None and len(ids) and (ids[0] < 0 or ids[-1] >= num_clients):
        wrong = ids[0] if ids[0] < 0 else ids[-1]
        raise RoundError(f"{what} names client {wrong}, but there are {num_clients}, numbered from 0")
    return ids if ids.dtype == np.int64 else ids.astype(np.int64)


def _pair(found: object, method: str) -> tuple[Any, Any]:
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RoundError(f"{method} must return its choice and the next state, not {one_line(found)}")
    return found


def _per(given: object, count: int, what: str, each: str) -> FloatArray:
    numbers = _array(given, "fiu", what)
    if numbers.shape != (count,):
        raise RoundError(f"{what} has shape {numbers.shape}, but there are {count}; give one number per {each}")
    return numbers if numbers.dtype == np.float64 else numbers.astype(np.float64)


def _array(given: object, kinds: str, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # lists of unequal length
        array = np.asarray(None)
    if array.size == 0 and array.ndim == 1 and array.dtype.kind in "fiu":
        return array.astype(np.int64) if kinds == "iu" and array.dtype.kind == "f" else array
    if array.dtype.kind not in kinds:
        kind = "whole numbers" if kinds == "iu" else "numbers"
        raise RoundError(f"{what} must be an array of {kind}, not {one_line(given)}")
    return array


def label_counts(given: object) -> NDArray[np.int64] | None:
    """Samples per client and label: whole numbers of at least 0; None: not known."""
    if given is None:
        return None
    counts = np.asarray(given)
    if counts.ndim != 2 or counts.dtype.kind not in "iuf" or not ((counts >= 0) & (counts == np.floor(counts))).all():
        raise ConfigError(f"labels={one_line(given)} must be whole numbers of at least 0, clients x labels")
    return counts


def with_unlabelled(labels: NDArray[np.int64] | None, num_clients: int) -> NDArray[np.int64] | None:
    """Label counts with rows of zeros for clients that registered since: what they hold is not known."""
    if labels is None or len(labels) >= num_clients:
        return labels
    return np.pad(labels, ((0, num_clients - len(labels)), (0, 0)))


def both(available: Ids, busy: Ids) -> Ids:
    """Who is online."""
    return np.union1d(available, busy) if len(busy) else available
