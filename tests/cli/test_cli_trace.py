"""`fedparity trace`: what people script against, and what they see."""

import json
import tomllib
import warnings
from pathlib import Path

import pytest

from fedparity.availability import AVAILABILITY
from fedparity.core.errors import FedparityError
from fedparity.traces import Intervals

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # typer uses what click has deprecated
    from typer.testing import CliRunner

    from fedparity.cli.trace import trace_app

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

DATA = Path(__file__).parents[3] / "shared/data/traces"
MESSAGES = "2020-01-0{d} 01:00:00\twifi\n2020-01-0{d} 02:00:00\tbattery_charged_on\n2020-01-0{d} 03:00:00\t4G\n"


@pytest.fixture
def flash(tmp_path):
    devices = {
        str(k): {"messages": "".join(MESSAGES.format(d=d) for d in range(1, k + 2)) + "2020-01-08 00:00:00\t2G\n"}
        for k in range(5)
    }
    path = tmp_path / "events.json"
    path.write_text(json.dumps(devices))
    return path


def trace(*words, fails=None):
    done = CliRunner().invoke(trace_app, [str(w) for w in words], env={"COLUMNS": "80"})
    if fails is None:
        assert done.exception is None, done.output
        assert done.exit_code == 0
        return done.stdout
    assert isinstance(done.exception, FedparityError), done.output
    assert fails in str(done.exception)
    return ""


def test_import_writes_the_plain_file(flash, tmp_path):
    out = tmp_path / "t.csv"
    assert "5 devices, 15 times ready" in trace("import", flash, "--out", out)
    text = out.read_text()
    assert text.startswith("# fedparity-trace 1\nclient,first_seen_s,last_seen_s\n")
    assert "\nclient,start_s,end_s\n" in text
    assert json.loads(trace("import", flash, "--out", out, "--rule", "wifi", "--json"))["intervals"] == 15
    assert Intervals.load(out).start[0] == 3600


def test_import_samples_and_resamples(flash, tmp_path):
    out = tmp_path / "t.csv.gz"
    trace("import", flash, "--out", out, "--sample", 2, "--seed", 4)
    assert len(Intervals.load(out).names) == 2
    trace("import", flash, "--out", out, "--resample", 12)
    assert len(Intervals.load(out).names) == 12
    trace("import", flash, "--out", out, "--resample", 12, "--sample", 2, fails="exclude each other")
    trace("import", flash, "--out", out, "--sample", 6, fails="n=6")


def test_stats_as_json_and_for_eyes(flash, tmp_path):
    found = json.loads(trace("stats", flash, "--rule", "charging & wifi", "--json"))
    assert (found["devices"], found["events"], found["never"]) == (5, 50, 0)
    shown = trace("stats", flash)
    assert max(map(len, shown.splitlines())) <= 80
    assert "5 devices" in shown
    trace("import", flash, "--out", tmp_path / "t.csv")
    again = json.loads(trace("stats", tmp_path / "t.csv", "--json"))
    assert again == found | {"events": None}


def test_what_is_open_at_the_end_is_dropped_if_asked(tmp_path, fedparity):
    """FLASH's own rule: a device that is ready at its last event never was."""
    events, table = tmp_path / "events.json", tmp_path / "t.csv"
    messages = "2020-01-01 00:00:00\twifi\n2020-01-01 00:00:00\tbattery_charged_on\n2020-01-02 00:00:00\tscreen_on\n"
    closed = messages.replace("screen_on", "battery_charged_off")
    events.write_text(json.dumps({"open": {"messages": messages}, "closed": {"messages": closed}}))
    assert json.loads(trace("stats", events, "--json"))["never"] == 0
    assert json.loads(trace("stats", events, "--drop-open-end", "--json"))["never"] == 1
    words = ("import", events, "--out", table, "--json")
    assert json.loads(trace(*words))["intervals"] == 2
    assert json.loads(trace(*words, "--drop-open-end"))["intervals"] == 1
    trace("stats", table, "--drop-open-end", fails="open_end=False is for files of events (FLASH)")
    trace("stats", events, "--all-rules", "--drop-open-end", fails="--drop-open-end out")
    words = ("schedule", "--availability", events, "--cohort", 1, "--json")
    assert json.loads(fedparity(*words)[1])["never_available"] == 0
    assert json.loads(fedparity(*words, "--drop-open-end")[1])["never_available"] == 1
    code, _, err = fedparity("schedule", "--drop-open-end")
    assert (code, err.count("\n")) == (2, 1)
    assert "--drop-open-end is for trace files, but availability 'bernoulli' is a model" in err


def test_rules_are_compared_with_the_paper(flash, tmp_path):
    shown = trace("rules", flash)
    assert shown == trace("stats", flash, "--all-rules")
    assert "213 of 1000" in shown.replace("\n", " ")
    assert max(map(len, shown.splitlines())) <= 80
    found = json.loads(trace("rules", flash, "--json"))
    assert found["paper"] == {"devices": 1000, "below_5pct": 213}
    assert found["rules"][1]["rule"] == "charging & wifi, Wi-Fi never cleared"
    assert found["rules"][1]["mean"] > found["rules"][0]["mean"]
    trace("import", flash, "--out", tmp_path / "t.csv")
    trace("rules", tmp_path / "t.csv", fails="rules are for files of events")
    trace("stats", flash, "--all-rules", "--rule", "wifi", fails="leave --rule")


def test_files_are_joined_and_options_find_their_file(flash, tmp_path):
    table, seen = tmp_path / "t.csv", tmp_path / "d.csv"
    table.write_text("id,start,end\nx,10,20\n")
    seen.write_text("id,first,last\nx,0,86400\ny,,\n")
    words = (flash, table, "--rule", "wifi", "--devices", seen, "--json")
    found = json.loads(trace("stats", *words))
    assert (found["devices"], found["events"], found["never"]) == (7, None, 1)
    trace("stats", flash, flash, fails="joining 2 files")
    trace("stats", table, "--rule", "wifi", fails="rule is for files of events")
    trace("stats", flash, "--devices", seen, fails="devices is for tables")


def test_pictures(flash, tmp_path):
    for name in ("a.svg", "a.html"):
        assert "Picture" in trace("plot", flash, "--out", tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "<svg" in text
        assert "below 5%" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    trace("plot", flash, "--out", tmp_path / "a.pdf", fails="must end in .svg, .html or .png")


def test_a_png(flash, tmp_path):
    pytest.importorskip("matplotlib")
    trace("plot", flash, "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_synth_fits_phones(flash, tmp_path):
    out, plot = tmp_path / "p.toml", tmp_path / "p.svg"
    shown = trace("synth", flash, "--out", out, "--plot", plot, "--steps", 8)
    assert max(len(line) for line in shown.splitlines() if not line.startswith(("phones:", "Par", "Pic"))) <= 80
    AVAILABILITY.build(tomllib.loads(out.read_text())["availability"])
    assert "phones, fitted" in plot.read_text()
    found = json.loads(trace("synth", flash, "--steps", 2, "--json"))
    assert found["component"].startswith("phones")
    assert found["out"] is None


def test_bad_input_is_a_typed_error(flash, tmp_path):
    trace("stats", tmp_path / "gone.csv", fails="no such file")
    trace("stats", flash, "--rule", "wify", fails="unknown state 'wify'")
    trace("stats", flash, "--format", "flsh", fails="--format='flsh' must be")
    trace("import", flash, "--out", tmp_path / "no" / "t.csv", fails="cannot be written")


def test_the_real_files():
    events = DATA / "flash_000_099_events.json.gz"
    if not events.exists():
        pytest.skip(f"{events} is not here")
    found = json.loads(trace("stats", events, "--rule", "charging & wifi", "--json"))
    assert (found["devices"], found["events"], found["below_5pct"], found["never"]) == (100, 106248, 52, 26)
    assert json.loads(trace("stats", events, "--wifi-never-cleared", "--json"))["below_5pct"] == 23
    words = (events, DATA / "flash_100_999_locked_intervals.csv.gz", "--devices", DATA / "flash_100_999_devices.csv")
    found = json.loads(trace("stats", *words, "--rule", "charging & wifi & locked", "--json"))
    assert (found["devices"], found["below_5pct"], found["never"]) == (1000, 630, 296)
