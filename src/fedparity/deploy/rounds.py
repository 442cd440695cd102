"""What happened round by round, as JSON lines: for eyes, for `fedparity audit`, for OpenMetrics.

    {"round": 0, "time": 1790000000.0, "available": [...], "busy": [], "selected": [...], "completed": [...],
     "failed": [["client-2", "why"]], "timed_out": [], "late": [["client-1", 3]], "seconds": 9.1,
     "scores": [["client-0", 0.42, 0.9]]}

`scores` are loss and accuracy of the new model at those who were asked and answered (`serve(evaluate_every=)`); it is
not there in rounds in which nobody was asked, and null is what a task does not say. Clients are told by their stable
names. A round that was not committed is done again after a restart: the last line of a round counts.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedparity.core.errors import InputError, OutputError

if TYPE_CHECKING:
    from fedparity.engines.flower.grid_engine import RoundEvents

Round: TypeAlias = dict[str, Any]
"""One line."""
LISTS = ("available", "busy", "selected", "completed", "failed", "timed_out", "late")


class RoundsFile:
    """Hears of every round (`serve(told=)`) and adds a line for it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._write("")  # a path that cannot be written is told now, not after the first round

    def __call__(self, events: RoundEvents) -> None:
        """Add the line of a round."""
        line = {
            "round": events.round,
            "time": round(time.time(), 3),
            "available": events.online,
            "busy": events.busy,
            "selected": events.asked,
            "completed": events.replied,
            "failed": events.failed,
            "timed_out": events.timed_out,
            "late": events.late,
            "seconds": round(events.seconds, 3),
        }
        if events.scores:
            line["scores"] = [[name, *map(_or_none, scores)] for name, *scores in events.scores]
        self._write(json.dumps(line) + "\n")

    def _write(self, text: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot be written ({error.strerror}); choose a folder you may write to"
            ) from error


def read_rounds(path: str | Path) -> list[Round]:
    """The rounds by now, in order; a line that is still being written is left for the next time."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"{path}: cannot be read ({reason}); give the rounds-file of a deployment") from error
    return [found for _, found in sorted({one["round"]: one for one in _lines(path, text)}.items())]


def _lines(path: str | Path, text: str) -> Iterator[Round]:
    whole = text[: text.rfind("\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            found = json.loads(line)
            sound = (
                type(found["round"]) is int
                and isinstance(found["seconds"], int | float)
                and all(isinstance(found[key], list) for key in LISTS)
                and all(map(_is_score, found.get("scores", [])))
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise InputError(f"{path}: line {number} is no round; give the rounds-file of a deployment")
        yield found


def _or_none(score: float) -> float | None:
    return score if math.isfinite(score) else None


def _is_score(entry: Any) -> bool:
    name, *scores = entry
    return isinstance(name, str) and len(scores) == 2 and all(isinstance(one, int | float | None) for one in scores)


def mean_scores(one: Round) -> dict[str, tuple[float, int]]:
    """Mean loss and accuracy of a round, each with how many clients it is of; what nobody said is not there."""
    found = {}
    for at, name in enumerate(("loss", "accuracy"), start=1):
        said = [entry[at] for entry in one.get("scores", []) if entry[at] is not None]
        if said:
            found[name] = sum(said) / len(said), len(said)
    return found


def name_of(entry: Any) -> str:
    """The client of an entry: itself, or with a reason or a round beside it."""
    return str(entry[0] if isinstance(entry, list) and entry else entry)
