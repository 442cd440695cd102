"""The cluster of these tests sees who is left behind, whatever that one did not to be found."""

import sys

import pytest
from cluster import Cluster, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
HIDDEN = "env -i setsid sleep 1000 & echo begun"
"""Another session, no environment, and a parent that ends at once."""
WATCHING = 'sleep 1 & setsid sh -c "while kill -0 $!; do sleep .1; done" &'
"""As Flower's programs do: its parent ended, it ends once the process that it watches is not there."""
DEAF = "trap '' TERM; echo begun; while :; do sleep 1000; done"


@pytest.mark.parametrize("planted", [HIDDEN, f"setsid sh -c '{HIDDEN}' &", f'sh -c "{DEAF}" & exit'])
def test_a_planted_orphan_is_found_and_then_killed(tmp_path, monkeypatch, planted):
    monkeypatch.setattr("cluster.POLITE", 0.5)
    cluster = Cluster(tmp_path, tls=False)
    cluster.start("planted", "sh", "-c", planted)
    until(lambda: "begun" in (tmp_path / "planted.log").read_text(), 60, "the start")
    cluster.started["planted"].wait(timeout=60)
    left = cluster.end()
    assert any("sleep 1000" in command for command in left.values()), left
    assert cluster.pids() == []


def test_nobody_is_left_where_everybody_ends_when_asked(tmp_path):
    cluster = Cluster(tmp_path, tls=False)
    cluster.start("polite", "sleep", "1000")
    assert len(cluster.pids()) == 1
    assert cluster.end() == {}


def test_one_that_watches_an_orphan_sees_its_end(tmp_path):
    cluster = Cluster(tmp_path, tls=False)
    cluster.start("watching", "sh", "-c", WATCHING)
    cluster.started["watching"].wait(timeout=60)
    assert cluster.pids()
    assert cluster.end() == {}
