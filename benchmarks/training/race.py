"""Training rounds of fedparity and its peers, each in its own process, taking turns on one machine.

    python benchmarks/training/race.py --workload a --rounds 5 --contenders bare,flower,pfl

Peers live in their own environments (`make peers`): .venv-flower and .venv-pfl in the repository, or flower and pfl
under $FEDPARITY_PEERS. The protocol is `protocol.py`'s; compare ratios inside one run, never seconds across runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self, TypedDict

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUSY = 2.0
A_TURN = 1.0
"""Seconds that a turn lasts at least: after the others' turns caches are cold, and the steady state is asked for."""
STOPPED = "cd"
"""Workloads on which whoever waits is stopped: where turns are short, since Ray gives up after a minute of it."""
SETTLE = 0.2
"""Seconds between waking a contender and its first round: what it would have done while it waited is done by then."""
ON_FLOWER = ("grid", "fair_grid", "fair_ray")
"""Flower's own app on our grid, and ours on our grid and on Ray: raced if they are named (extras flower, simulation)."""
PATIENCE = 30.0
"""Seconds a contender has to end by itself: Ray takes a few."""


class Record(TypedDict):
    """One contender on one workload; `ratio` is its median over the yardstick's, `spread` highest over lowest time."""

    benchmark: str
    contender: str
    workload: str
    ratio: float
    median_s: float
    spread: float
    n: int


class ContenderError(RuntimeError):
    """A contender died or answered something else than the protocol."""


class Contender:
    """A running process that has warmed up and waits for its turn."""

    def __init__(self, name: str, command: Sequence[str], *, stopped: bool = False) -> None:
        self.name = name
        self.stopped = stopped
        """Whether it is stopped while it waits."""
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wake()
            self._process.communicate("quit\n", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        finally:
            self._errors.close()

    def pause(self) -> None:
        """Stop it and all that it started: daemons and polling would take from whoever's turn it is."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        time.sleep(SETTLE)

    def _signal(self, number: signal.Signals) -> None:
        for pid in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def answer(self, key: str) -> object:
        """The next line's value under `key`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            return json.loads(line)[key]
        except (ValueError, KeyError, TypeError):
            said = f"said {line.strip()!r} instead of {key!r}" if line else f"ended with code {self._process.wait()}"
            raise ContenderError(f"contender {self.name!r} {said}; its last errors:\n{self._tail()}") from None

    def turn(self) -> float:
        """Seconds that a round takes, the mean of as many in a row as a turn has room for."""
        if self.stopped:
            self.wake()
        spent, rounds = 0.0, 0
        while spent < A_TURN:
            spent += self._round()
            rounds += 1
        if self.stopped:
            self.pause()
        return spent / rounds

    def ready(self) -> object:
        """What it says of itself once it has warmed up."""
        said = self.answer("ready")
        if self.stopped:
            self.pause()
        return said

    def _round(self) -> float:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is dead: `answer` says so, and why
        return float(str(self.answer("seconds")))

    def _tail(self, lines: int = 15) -> str:
        self._errors.seek(0)
        return "".join(self._errors.readlines()[-lines:]) or "(none)"


def family(pid: int) -> list[int]:
    """A process, its children, theirs and so on; without /proc, nobody."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            # The name, in parentheses, may hold anything.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid] if children else []
    for known in found:
        found += children.get(known, [])
    return found


def absent(command: Sequence[str]) -> str | None:
    """The interpreter or script a command needs and this machine does not have."""
    if shutil.which(command[0]) is None:
        return command[0]
    script = command[1] if len(command) > 1 and command[1].endswith(".py") else None
    return script if script and not (ROOT / script).exists() else None


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that keep a processor busy."""
    with ExitStack() as stack:
        for _ in range(count):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        yield


def race(workload: str, contenders: dict[str, list[str]], rounds: int) -> list[Record]:
    """Time `rounds` turns of every contender (A B C A B C ...): rounds in a row for `A_TURN` seconds, at least one.

    Whoever waits is stopped on `STOPPED`. One more turn comes first and is dropped: it is the first after a stop. Contenders that are not
    installed are skipped, and said to be. Ratios are to the bare loop, or to the first contender if there is none or
    the workload tests clients, which the bare loop is no yardstick for.
    """
    present: dict[str, list[str]] = {}
    for name, command in contenders.items():
        if missing := absent(command):
            print(f"skipped {name}: no {missing}", file=sys.stderr)
        else:
            present[name] = command
    times: dict[str, list[float]] = {name: [] for name in present}
    with ExitStack() as stack:
        running: list[Contender] = []
        for name, command in present.items():
            running.append(stack.enter_context(Contender(name, command, stopped=workload in STOPPED)))
            print(f"{name}: {json.dumps(running[-1].ready())}", file=sys.stderr)
        for turn in range(rounds + 1):
            for contender in running:
                seconds = contender.turn()
                if turn:
                    times[contender.name].append(seconds)
    if not times:
        return []
    middle = {name: median(found) for name, found in times.items()}
    yardstick = "bare" if "bare" in middle and workload != "e" else next(iter(middle))
    return [
        Record(
            benchmark="training round",
            contender=name,
            workload=workload,
            ratio=middle[name] / middle[yardstick],
            median_s=middle[name],
            spread=max(found) / min(found),
            n=len(found),
        )
        for name, found in times.items()
    ]


def commands(workload: str) -> dict[str, list[str]]:
    """How every contender is started."""
    peers = os.environ.get("FEDPARITY_PEERS")
    flower, pfl = (
        str(Path(peers) / name / "bin/python" if peers else ROOT / f".venv-{name}/bin/python")
        for name in ("flower", "pfl")
    )
    scripts = {
        "bare": [sys.executable, "benchmarks/training/bare.py"],
        "fedparity": [sys.executable, "benchmarks/training/fedparity_rounds.py"],
        "flower": [flower, "benchmarks/training/flower_peer.py"],
        "pfl": [pfl, "benchmarks/training/pfl_peer.py"],
        **{name: [sys.executable, f"benchmarks/training/{name}_peer.py"] for name in ON_FLOWER},
    }
    found = {name: [*command, workload] for name, command in scripts.items()}
    if workload == "e":
        found |= {f"{name}-one-pass": [*found[name], "--one-pass"] for name in ("bare", "flower", "pfl")}
    return found


def table(records: list[Record]) -> str:
    """As it stands in benchmarks/README.md."""
    lines = ["| workload | contender | ratio | median | spread | n |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {r['workload']} | {r['contender']} | {r['ratio']:.2f} | {r['median_s']:.3f} s | {r['spread']:.1f} | {r['n']} |"
        for r in records
    ]
    return "\n".join(lines)


def main() -> None:
    """Race on one workload."""
    parser = argparse.ArgumentParser(description="Training rounds of fedparity and its peers, taking turns.")
    parser.add_argument("--workload", choices="abcde", required=True)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    parser.add_argument("--beside", type=int, default=0, help="busy processes beside the race")
    parser.add_argument("--contenders", help="names, separated by commas; all of the workload if not given")
    parser.add_argument("--json", type=Path, help="also write the records here")
    given = parser.parse_args()
    known = commands(given.workload)
    names = given.contenders.split(",") if given.contenders else [name for name in known if name not in ON_FLOWER]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown contender {unknown[0]!r} for workload {given.workload}; known: {', '.join(known)}")
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: at least 1")
    with neighbours(given.beside):
        records = race(given.workload, {name: known[name] for name in names}, given.rounds)
    print(table(records))
    if any(record["spread"] > BUSY for record in records):
        print(f"a spread above {BUSY}: the machine was busy, do not use these ratios", file=sys.stderr)
    if given.json:
        given.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
