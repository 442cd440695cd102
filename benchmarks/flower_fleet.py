"""Our own part of a round on a real SuperLink, apart from Flower's: many emulated nodes, 1 MB each, in one process.

    python benchmarks/flower_fleet.py [--nodes 100] [--rounds 5]

SuperLink and server are real processes on loopback; the nodes speak the Fleet API from this one: each pulls the model
and its job, and pushes an update of its own. Processor time is the server's: inside Flower's grid, and all the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from flower_grid import MEGABYTE, copies
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supernode.fleet_http_connection import http_request_response

from fedparity.deploy.flower import LOOPBACK, answers, environment, free_ports, programs
from fedparity.engines.flower import codec

HERE = Path(__file__).parent


@contextmanager
def superlink(folder: Path, port: int, env: dict[str, str]) -> Iterator[int]:
    """A SuperLink without TLS on loopback, and whatever it starts, until the end; its process id."""
    with (folder / "superlink.log").open("w") as log:
        command = [str(programs() / "flower-superlink"), "--insecure", "--host", LOOPBACK, "--port", str(port)]
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            while not answers(LOOPBACK, port):
                time.sleep(0.2)
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answer(connection: Any, update: Array) -> bool:
    """What one node does about the message that waits for it; whether there was one."""
    _, receive, send, _, _, pull_object, push_object, confirm = connection
    received = receive()
    if received is None:
        return False
    asked, tree = received
    run_id, message_id = asked.metadata.run_id, asked.metadata.message_id
    wanted_ids = [one.object_id for one in iterate_object_tree(tree)]
    contents = pull_objects(wanted_ids, pull_object_fn=lambda object_id: pull_object(run_id, object_id))
    confirm(run_id, message_id)
    message: Any = inflate_object_from_contents(message_id, contents)
    message.metadata.__dict__["_message_id"] = message_id
    said: dict[str, Any] = dict.fromkeys(codec.NUMBERS, 1.0) | {"num_samples": 10, "failure": ""}
    said["nonce"] = message.content[codec.JOB]["nonce"]
    reply = Message(
        RecordDict({codec.DELTA: ArrayRecord({codec.W: update}), codec.REPORT: ConfigRecord(said)}), reply_to=message
    )
    reply.metadata.__dict__["_message_id"] = reply.object_id
    objects = get_all_nested_objects(reply)
    wanted, session = send(reply, get_object_tree(reply), 0.0)
    for object_id in (one for one in objects if one in wanted):
        push_object(run_id, session, object_id, objects[object_id].deflate())
    return True


def fleet(folder: Path, nodes: int, rounds: int) -> list[dict[str, float]]:
    """Carry a run out: what the server wrote of each round, and the SuperLink's own figures last."""
    (port,) = free_ports(1)
    env = environment(folder / "home")
    (folder / "home").mkdir()
    (folder / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{LOOPBACK}:{port}"\ninsecure = true\n'
    )
    rng = np.random.default_rng(0)
    updates = [Array(rng.normal(0, 1e-3, MEGABYTE).astype(np.float32)) for _ in range(nodes)]
    with superlink(folder, port, env) as pid, ExitStack() as stack:
        connections = [stack.enter_context(http_request_response(f"{LOOPBACK}:{port}", insecure=True)) for _ in updates]
        config = f'nodes={nodes} rounds={rounds} size={MEGABYTE} out="{folder}"'
        run = [str(programs() / "flwr"), "run", str(HERE / "fleet"), "here", "--run-config", config]
        subprocess.run(run, env=env, check=True, capture_output=True)
        while not (folder / "done").exists():
            if not sum(answer(*pair) for pair in zip(connections, updates, strict=True)):
                time.sleep(0.2)
        status = Path(f"/proc/{pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    told = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return [*told, {"peak_mb": peak}]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Our own part of a round on a real SuperLink.")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        *rounds, last, link = fleet(Path(made), given.nodes, given.rounds)
    copied = copies(given.nodes, MEGABYTE)
    # A line holds the commit of the round before: the sum over all lines holds every commit once.
    own = sum(one["own"] for one in (*rounds, last)) / len(rounds)
    flower = sum(one["flower"] for one in rounds) / len(rounds)
    answered = sum(one["completed"] for one in rounds) / len(rounds)
    print(f"{given.nodes} nodes x 1 MB, {len(rounds)} rounds, {answered:g} answers per round")
    print(
        f"processor time per round: ours {1000 * own:.0f} ms, of which one copy of the bytes is {1000 * copied:.0f} ms"
    )
    print(f"Flower's grid in the same process: {1000 * flower:.0f} ms; wall {median(r['wall'] for r in rounds):.1f} s")
    print(f"peak memory: server {last['peak_mb']:.0f} MB, SuperLink {link['peak_mb']:.0f} MB")


if __name__ == "__main__":
    main()
