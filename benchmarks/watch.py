"""What `fedparity watch` takes: time to the first paint, time from a commit to the page, and what the run pays for it.

    python benchmarks/watch.py paint     # 10^5 clients, 10^3 rounds; makes the run first (some minutes)
    python benchmarks/watch.py follow    # from a round's commit until a page shows it
    python benchmarks/watch.py cost      # the same run with and without a page open on it, taking turns

The page is opened in headless Chromium, as the browser tests do. `--clients` and `--rounds` change the size.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))

from test_report_browser import Browser  # type: ignore[import-not-found]

from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from fedparity.experiment.spec import Spec
from stored_runs import run_into, spec_of  # type: ignore[import-not-found]

SEEN = """
window.seen = [];
new MutationObserver(() => window.seen.push([Date.now(), document.querySelector(".verdict").textContent]))
  .observe(document.getElementById("now"), {childList: true, subtree: true})
"""


def spec(clients: int, rounds: int, cohort: int) -> Spec:
    """One method without much training, so that what is measured is the store and the page."""
    people = f"population.availability=bernoulli:low={200 / clients:g},high={10_000 / clients:g}"
    people = people if clients > 20_000 else "population.availability=bernoulli:low=.2,high=.8"
    found: Spec = spec_of(
        f"rounds={rounds}", f"population.clients={clients}", people, f"cohort={cohort}", methods=("uniform",)
    )
    return found


@contextmanager
def watched(folder: Path) -> Iterator[tuple[str, int]]:
    """The address at which a process of its own shows a run, and the number of that process."""
    words = [sys.executable, "-c", "from fedparity.cli.main import main; main()", "watch", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield (process.stdout or sys.stdin).readline().strip(), process.pid
        finally:
            process.terminate()


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        found = Browser(Path(profile))
        try:
            yield found
        finally:
            found.close()


PAINT = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0]"


def paint(clients: int, rounds: int, kept: Path | None) -> None:
    """The first paint at once, and once everything was read; then that of one client's page."""
    with tempfile.TemporaryDirectory() as parent, browser() as page:
        folder = kept or Path(parent) / "run"
        if not folder.exists():
            run_into(folder, spec(clients, rounds, 50))
        print(f"{clients:,} clients x {rounds:,} rounds; load {load()}")
        with watched(folder) as (address, process):
            times = [painted(page, address)]
            while f"Round {rounds:,} of" not in page.ask("document.querySelector('.verdict').textContent"):
                time.sleep(1)
                times.append(painted(page, address))
            time.sleep(5)  # the limit may still be computed
            before = used(process)
            warm = sorted(painted(page, address) for _ in range(9))
            per_page = (used(process) - before) / len(warm)
            one = sorted(painted(page, address.replace("/?", "/client/7?")) for _ in range(9))
        print(f"first paint at once {times[0]:.2f} s, while it reads at most {max(times):.2f} s ({len(times)} looks)")
        print(f"first paint when all is read: median {median(warm):.2f} s, at most {warm[-1]:.2f} s; load {load()}")
        print(f"processor time of the server: {per_page:.2f} s per page")
        print(f"page of one client: median {median(one):.2f} s, at most {one[-1]:.2f} s")


def used(process: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def painted(page: Browser, address: str) -> float:
    """Seconds from the request to the first paint, with nothing kept from before."""
    page.open(address, 1280)
    while (found := page.ask(PAINT)) is None:
        time.sleep(0.02)
    return float(found) / 1000


def follow(clients: int, rounds: int) -> None:
    """How long after its commit a round stands on the page."""
    commits: dict[int, float] = {}

    def note(number: int, _method: str, _row: object) -> None:
        commits[number + 1] = time.time()
        time.sleep(0.2)

    with tempfile.TemporaryDirectory() as parent, browser() as page:
        folder, wanted = Path(parent) / "run", spec(clients, rounds, 20)
        run_into(folder, wanted, rounds=1)
        with watched(folder) as (address, _):
            page.open(address, 1280)
            page.ask(SEEN)
            with open_store(folder, wanted, resume=True) as store:
                execute(wanted, store=store, callbacks=Callbacks(progress=note))
            time.sleep(3)
            seen = [(at / 1000, int(found[1].replace(",", ""))) for at, said in page.ask("window.seen")
                    if (found := re.search(r"Round ([\d,]+) of", said))]  # fmt: skip
    delays = sorted(min(at for at, shown in seen if shown >= number) - done for number, done in commits.items())
    print(f"{clients:,} clients, {len(delays)} rounds: from commit to page median {median(delays):.2f} s,"
          f" at most {delays[-1]:.2f} s; load {load()}")  # fmt: skip


def cost(clients: int, rounds: int, repeats: int) -> None:
    """The same run alone and watched, in turns: wall time, and the processor time of the run's own process."""
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "watched": []}
    wanted = spec(clients, rounds, 20)
    with browser() as page:
        for turn in range(repeats + 1):
            for name in found if turn % 2 else reversed(found):
                timed = alone(wanted) if name == "alone" else beside(wanted, page)
                if turn:  # the first warms up
                    found[name].append(timed)
    for k, what in enumerate(("wall", "processor")):
        ratios = sorted(w[k] / a[k] for a, w in zip(found["alone"], found["watched"], strict=True))
        base = median(a[k] for a in found["alone"])
        print(f"{what}: {base:.2f} s alone, watched / alone median {median(ratios):.3f}"
              f" ({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} pairs); load {load()}")  # fmt: skip


def alone(wanted: Spec) -> tuple[float, float]:
    """Seconds of a run that nobody looks at."""
    with tempfile.TemporaryDirectory() as parent:
        return timed_run(Path(parent) / "run", wanted)


def beside(wanted: Spec, page: Browser) -> tuple[float, float]:
    """Seconds of a run with a page open on it."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        run_into(folder, wanted, rounds=1)
        with watched(folder) as (address, _):
            page.open(address, 1280)
            return timed_run(folder, wanted)


def timed_run(folder: Path, wanted: Spec) -> tuple[float, float]:
    """Wall and processor seconds of all rounds but the first."""
    if not folder.exists():
        run_into(folder, wanted, rounds=1)
    wall, own = time.perf_counter(), time.process_time()
    run_into(folder, wanted, resume=True)
    return time.perf_counter() - wall, time.process_time() - own


def load() -> str:
    """How busy the machine is."""
    return f"{os.getloadavg()[0]:.1f}"


def main() -> None:
    """One measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("paint", "follow", "cost"))
    parser.add_argument("--clients", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--run", type=Path, help="paint: a folder that keeps the run for the next time")
    given = parser.parse_args()
    usual = {"paint": (100_000, 1000), "follow": (1000, 60), "cost": (1000, 400)}[given.what]
    size = given.clients or usual[0], given.rounds or usual[1]
    if given.what == "cost":
        cost(*size, given.repeats)
    elif given.what == "paint":
        paint(*size, given.run)
    else:
        follow(*size)


if __name__ == "__main__":
    main()
