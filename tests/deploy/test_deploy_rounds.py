"""Rounds as JSON lines and as OpenMetrics."""

import json
import threading
import urllib.error
import urllib.request

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from fedparity import ConfigError, InputError, OutputError
from fedparity.audit import open_audit
from fedparity.audit.summary import summary
from fedparity.deploy import RoundsFile, openmetrics, read_rounds
from fedparity.deploy.metrics import CONTENT, metrics_server
from fedparity.deploy.up import line_of
from fedparity.engines.flower import RoundEvents


@pytest.fixture
def path(tmp_path):
    told = RoundsFile(tmp_path / "new" / "rounds.jsonl")
    told(RoundEvents(0, ["a", 'b"\n'], [], ["a"], ["a"], seconds=2.0))
    told(RoundEvents(1, ["a"], ['b"\n'], ["a"], [], failed=[("a", "no battery")], late=[('b"\n', 0)], seconds=3.0))
    return told.path


def test_rounds_are_read_back(path):
    first, second = read_rounds(path)
    assert (first["available"], first["completed"]) == (["a", 'b"\n'], ["a"])
    assert second["failed"] == [["a", "no battery"]]
    assert line_of(second) == ('round 1  online 2: a; asked a; 0 answered in 3.0 s; busy b"\n; failed a; late b"\n')


def test_scores_are_means_over_those_who_answered(path):
    told = RoundsFile(path)
    told(RoundEvents(2, ["a"], [], seconds=1.0, scores=[("a", 0.5, 0.75), ("c", 0.25, float("nan"))]))
    told(RoundEvents(3, ["a"], [], seconds=1.0))
    *_, third, last = read_rounds(path)
    assert third["scores"] == [["a", 0.5, 0.75], ["c", 0.25, None]]
    assert line_of(third).endswith("; loss 0.375 over 2 clients; accuracy 0.75 over 1 client")
    assert "scores" not in last
    page = openmetrics(read_rounds(path)).splitlines()
    wanted = {"fedparity_loss 0.375", "fedparity_loss_clients 2", "fedparity_accuracy 0.75"}
    assert wanted <= set(page)
    assert open_audit([path]).log.asked.num_rounds == 4


def test_a_round_that_was_done_again_counts_once(path):
    RoundsFile(path)(RoundEvents(1, ["a"], [], ["a"], ["a"], seconds=4.0))
    assert [(one["round"], one["seconds"]) for one in read_rounds(path)] == [(0, 2.0), (1, 4.0)]


def test_a_line_that_is_being_written_is_left_for_later(path):
    with path.open("a") as file:
        file.write('{"round": 2, "ava')
    assert len(read_rounds(path)) == 2


@pytest.mark.parametrize("line", ["{}", "[]", "nothing", '{"round": "1"}', "[" * 3000])
def test_a_line_that_is_no_round_is_named(path, line):
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match="line 3 is no round"):
        read_rounds(path)


def test_a_path_that_cannot_be_written_is_told_before_the_first_round(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="choose a folder you may write to"):
        RoundsFile(tmp_path / "file" / "rounds.jsonl")


def test_an_audit_reads_the_rounds(path):
    told = summary(open_audit([path]))
    assert (told["clients"], told["rounds"]) == (2, 2)


def parsed(text):
    """Samples by name and labels; every family is announced before its samples, and the page ends as it must."""
    *lines, end, nothing = text.split("\n")
    assert (end, nothing) == ("# EOF", "")
    families, found = {}, {}
    for line in lines:
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            families[name] = kind
        elif not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            name = sample.partition("{")[0]
            family = name.removesuffix("_total")
            assert families[family] == ("counter" if name.endswith("_total") else "gauge")
            found[sample] = float(value)
    return found


def test_openmetrics_counts(path):
    found = parsed(openmetrics(read_rounds(path)))
    assert found["fedparity_rounds_total"] == 2
    assert found['fedparity_clients{state="available"}'] == 1
    assert found['fedparity_client_selected_total{client="a"}'] == 2
    assert found['fedparity_client_failed_total{client="a"}'] == 1
    assert found['fedparity_client_late_total{client="b\\"\\n"}'] == 1
    assert parsed(openmetrics([]))["fedparity_rounds_total"] == 0


def test_the_endpoint_serves_one_page_on_loopback(path):
    with metrics_server(path, 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host, port = server.server_address[:2]
        assert host == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            assert page.headers["Content-Type"] == CONTENT
            assert parsed(page.read().decode())["fedparity_rounds_total"] == 2
        for wrong in ("/", "/metrics/../x"):
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{wrong}")
            refused.value.close()
        path.write_text(json.dumps({}) + "\n")
        with pytest.raises(urllib.error.HTTPError, match="500") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
        refused.value.close()
        with pytest.raises(ConfigError, match="give another"):
            metrics_server(path, port)
        server.shutdown()
    with pytest.raises(ConfigError, match="give another"):
        metrics_server(path, 70000)
