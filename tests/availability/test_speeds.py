"""Device speeds: who is slow stays slow, durations reach report, journal and ledger, and Oort avoids the slow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedparity import Run, Spec, execute
from fedparity.availability.speeds import SPEEDS, Clock
from fedparity.core.errors import ConfigError
from fedparity.core.journal import from_json, to_json
from fedparity.core.ledger import Ledger
from fedparity.store.erase import redact

SLOW = range(10)
RATES = "/".join("4" if client in SLOW else ".1" for client in range(20))


def a_spec(speed: str | None, **more: object) -> Spec:
    people = {"clients": 20, "availability": "bernoulli:low=.5"} | ({} if speed is None else {"speed": speed})
    keys = {"methods": ["uniform", "oort"], "rounds": 40, "cohort": 4, "data": {"set": "logistic"}} | more
    return Spec(**keys, population=people)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("timed") / "run"
    return execute(a_spec(f"given:rates={RATES},jitter=.1"), out=folder), folder


def test_devices_differ_by_the_law_and_not_by_who_asks() -> None:
    seconds = SPEEDS.build("lognormal:median=.2,sigma=.5").seconds_per_step(4001, 3)
    assert np.median(seconds) == pytest.approx(0.2, rel=0.05)
    assert np.log(seconds).std() == pytest.approx(0.5, rel=0.05)
    assert np.array_equal(seconds, SPEEDS.build("lognormal:median=.2,sigma=.5").seconds_per_step(4001, 3))
    assert len(set(SPEEDS.build("lognormal:sigma=0").seconds_per_step(9, 0).tolist())) == 1


def test_a_participation_takes_its_steps() -> None:
    clock = Clock.of(SPEEDS.build("given:rates=.1/.4"), np.array([10.0, 20.0]), 2, 0)
    assert clock.seconds.tolist() == [1.0, 8.0]


def test_durations_reach_journal_ledger_and_files(timed: tuple[Run, Path]) -> None:
    run, folder = timed
    for one in run.runs:
        took = np.concatenate([r.duration for r in one.records])
        assert np.isfinite(took).all()
        assert one.ledger.seconds.sum() == pytest.approx(took.sum())
        assert [to_json(from_json(line)) for line in one.journal] == one.journal
        assert Ledger.replay(20, map(from_json, one.journal)) == one.ledger
    header, first = (folder / "clients.csv").read_text().splitlines()[:2]
    assert dict(zip(header.split(","), first.split(","), strict=True))["seconds"] == str(run.runs[0].ledger.seconds[0])


def test_oort_leaves_slow_devices_alone_where_it_knows_them(timed: tuple[Run, Path]) -> None:
    untimed = execute(a_spec(None, methods=["oort"]))
    share = {
        name: float(run.of("oort")[0].ledger.selected[list(SLOW)].sum() / run.of("oort")[0].ledger.selected.sum())
        for name, run in (("timed", timed[0]), ("untimed", untimed))
    }
    assert share["timed"] < share["untimed"] - 0.1


def test_without_a_speed_nothing_changes() -> None:
    timed, untimed = (execute(a_spec(speed, methods=["uniform"])) for speed in ("lognormal", None))
    assert "duration" not in untimed.runs[0].journal[0]
    assert not untimed.runs[0].ledger.seconds.any()
    assert [r.model_sha256 for r in timed.runs[0].records] == [r.model_sha256 for r in untimed.runs[0].records]
    assert "speed" not in (untimed.resolved.population.model_dump(exclude_none=True))


def test_a_ledger_saved_before_durations_is_read() -> None:
    old = {name: column for name, column in Ledger.empty(3)._columns().items() if name != "seconds"}
    assert Ledger(rounds=0, **old) == Ledger.empty(3)


def test_an_erased_client_leaves_no_duration(timed: tuple[Run, Path]) -> None:
    record = timed[0].runs[0].records[0]
    gone = int(record.completed[0])
    left = from_json(redact(to_json(record), gone))
    assert len(left.duration) == len(left.completed) == len(record.completed) - 1


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        ("given", "speed: rates is empty; give the seconds of one local step for each client"),
        ("given:rates=.1/.2", "speed: rates has 2 values for 20 clients; give one per client"),
        ("lognormal:median=0", "speed: median=0.0 must be a finite number above 0"),
        ("lognorml", "did you mean 'lognormal'"),
    ],
)
def test_bad_speeds_are_refused_in_one_line(speed: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        a_spec(speed)
    assert "\n" not in str(caught.value)


def test_a_task_that_does_not_say_its_steps_cannot_be_timed() -> None:
    with pytest.raises(ConfigError, match="needs a task that says how many local_steps"):
        Clock.of(SPEEDS.build("lognormal"), None, 2, 0)
