"""How long `fedparity audit` takes, and how much memory: logs of 10^6 and 10^7 rows, everything computed.

    python benchmarks/audit.py 1000000 10000000

A row is a client that was online in a round; 50 of them are asked, uniformly. Time and memory are those of the whole
command, from start to the printed JSON, with page and card written.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROUNDS, SLOTS, LOW = 200, 50, 0.2


def write_log(path: Path, rows: int) -> int:
    """A CSV of about so many rows; how many there are."""
    rng = np.random.default_rng(0)
    clients = int(rows / (ROUNDS * (1 + LOW) / 2))
    rates = rng.uniform(LOW, 1, clients)
    names = np.array([f"device-{k:07d}" for k in range(clients)])
    written = 0
    with path.open("wb") as file:
        for t in range(ROUNDS):
            online = np.flatnonzero(rng.random(clients) < rates)
            asked = np.zeros(len(online), np.int8)
            asked[rng.permutation(len(online))[:SLOTS]] = 1
            part = pl.DataFrame({
                "round": np.full(len(online), t), "client": names[online], "selected": asked, "completed": asked,
                "group": np.where(online % 3 == 0, "old", "new"), "time": np.full(len(online), 1_700_000_000 + 1800 * t),
            })  # fmt: skip
            part.write_csv(file, include_header=t == 0)
            written += len(online)
    return written


def main() -> None:
    """One line per size."""
    for rows in map(int, sys.argv[1:] or ["1000000"]):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.csv"
            written = write_log(log, rows)
            words = ["audit", str(log), "--html", f"{folder}/page.html", "--card", f"{folder}/card.md", "--json"]
            code = "from fedparity.cli.main import main; main()"
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
            seconds = time.perf_counter() - start
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            peak = used.ru_maxrss / 2**20
            cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            found = json.loads(done.stdout)
            print(
                f"{written:,} rows, {found['clients']:,} clients, {log.stat().st_size / 1e6:.0f} MB: {seconds:.1f} s "
                f"({cpu:.1f} s of processor time), {peak:.2f} GB at most; p = {found['p_value']:.2f}"
            )


if __name__ == "__main__":
    main()
