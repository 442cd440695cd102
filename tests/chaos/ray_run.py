"""python ray_run.py FOLDER: the run of `parity` on Flower's Ray simulation, started as docs/deploy.md says.

In a network of its own (`unshare -rn`): Ray listens on the machine's address, and here there is none but loopback.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

import parity
from cluster import Cluster, until


def main():
    folder = Path(sys.argv[1])
    cluster = Cluster(folder, tls=False)
    try:
        cluster.simulation(parity.NODES)
        seen = set()

        def over():
            seen.update(cluster.listening())
            return (folder / "calm" / "manifest.json").exists()

        for seconds in (
            240,
            240,
        ):  # on a busy machine Ray's actors may not start in time: the run goes on from its store
            cluster.run(**parity.CONFIG)
            with suppress(AssertionError):
                until(over, seconds, "the end of the run")
                break
        (folder / "listening.json").write_text(json.dumps(sorted(seen)))
    finally:
        left = cluster.end()
    assert left == {}, left


if __name__ == "__main__":
    main()
