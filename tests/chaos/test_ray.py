"""Flower's Ray simulation gives the bits of this process, in a network of its own."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

import parity
from cluster import LOOPBACK

HERE = Path(__file__).parent
ALONE = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
"""Before a command: a network of its own, with loopback alone."""


def no_network():
    if not (shutil.which("unshare") and shutil.which("ip")):
        return "no unshare or ip"
    done = subprocess.run([*ALONE, "true"], capture_output=True, check=False)
    return "no network of one's own here" if done.returncode else ""


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'fedparity[simulation]')"
    ),
    pytest.mark.skipif(bool(no_network()), reason=no_network() or "-"),
]


def test_ray_gives_the_bits_of_this_process(tmp_path):
    command = [*ALONE, sys.executable, str(HERE / "ray_run.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=700, check=False)
    logs = [path.read_text()[-3000:] for path in tmp_path.glob("*.log")]
    if done.returncode:  # an assertion would cut the middle of it
        pytest.fail("\n".join((done.stderr[-3000:], *logs)))
    found = parity.in_a_store(tmp_path / "calm")
    assert found == parity.in_process()
    seen = set(json.loads((tmp_path / "listening.json").read_text()))
    assert seen
    assert seen <= LOOPBACK
