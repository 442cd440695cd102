"""A coordinator and its state as values: components by name, short texts, a state in a file."""

import json
import struct

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, InputError, OutputError, State, Trace, frontier, run, schedule
from fedparity.core.coordinator import COMPONENTS
from fedparity.core.errors import ConfigError
from fedparity.core.tree import FORMAT
from fedparity.estimators import Forecast
from fedparity.experiment import Setting
from fedparity.schedulers import Parity, Uniform, WithQuota
from fedparity.servers import Adaptive
from fedparity.tasks import Quadratic
from fedparity.weightings import QFair

N, D = 6, 3
TASK = Quadratic(np.arange(N * D, dtype=float).reshape(N, D), np.ones((N, D)), rate=0.1, steps=2)
TEXTS = {
    "scheduler": "with_quota:inner=parity:target=opportunity;ratio=2,quota=1.5",
    "weighting": "qfair:q=2",
    "estimator": "forecast",
    "server": "adam",
    "local": "prox:mu=.5",
    "local_rate": "sqrt",
    "surrogate": "utility",
    "memory": "none",
    "utility": "none",
}


def test_names_and_objects_are_the_same_coordinator():
    named = Coordinator(2, scheduler=TEXTS["scheduler"], weighting="qfair:q=2", estimator="forecast", server="adam")
    inner = Parity(target="opportunity", ratio=2.0)
    assert named.scheduler == WithQuota(inner, quota=1.5)
    assert named == Coordinator(
        2, scheduler=WithQuota(inner, quota=1.5), weighting=QFair(q=2.0), estimator=Forecast(), server=Adaptive()
    )


def test_every_field_may_be_given_by_name():
    assert TEXTS.keys() == COMPONENTS.keys()
    made = Coordinator(2, **TEXTS)
    assert not any(isinstance(getattr(made, name), str) for name in COMPONENTS)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"scheduler": "party"}, "unknown scheduler 'party'; did you mean 'parity'"),
        ({"scheduler": Uniform}, r"scheduler Uniform is a class; give one of its objects: Uniform\(\)"),
        ({"scheduler": QFair()}, r"qfair\(\) is no scheduler: it has no 'select'; inherit from Scheduler"),
        ({"weighting": None}, "None is no weighting"),
        ({"server": "sgd:rat=1"}, "unknown key 'rat'; did you mean 'rate'"),
        ({"seed": -1}, "seed=-1 must be a whole number of at least 0"),
        ({"cohort": "5"}, "cohort='5' must be a whole number"),
        ({"cohort": 2.0}, "cohort=2.0 must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        Coordinator(**{"cohort": 2} | given)


def test_texts_are_short():
    assert repr(Coordinator(5)) == "Coordinator(cohort=5)"
    assert repr(Coordinator(5, scheduler="parity:target=opportunity", labels=np.ones((9, 2)))) == (
        "Coordinator(cohort=5, scheduler=parity(target='opportunity'), labels=<9 x 2 float64>)"
    )
    state = run(Coordinator(2), InProcess(TASK), 3, params=np.zeros(D))
    assert repr(state) == "State(round 3, 6 clients, a model of 3 numbers)"
    assert repr(state.ledger) == "Ledger(6 clients, 3 rounds)"
    trace = Trace.from_matrix([[1, 0], [1, 1]])
    assert repr(trace) == "Trace(2 clients x 2 rounds, 1.5 online)"
    assert repr(frontier(trace, 1)) == "Frontier(2 clients, 2 slots in 2 rounds)"


def test_a_comparison_takes_names():
    done = schedule("parity:target=opportunity", Setting("always", clients=5, rounds=3, cohort=2))
    assert done.name == "parity:target=opportunity"
    assert done.journal_sha256 == schedule(Parity(target="opportunity"), done.setting).journal_sha256


class TestSaved:
    coordinator = Coordinator(2, scheduler="with_quota:inner=oort", server="adam", local="ditto", memory="last_updates")

    def state(self, rounds=3):
        return run(self.coordinator, InProcess(TASK), rounds, params=np.zeros(D))

    def test_going_on_from_a_file_equals_never_stopping(self, tmp_path):
        self.state().save(tmp_path / "state")
        resumed = run(self.coordinator, InProcess(TASK), 6, state=State.load(tmp_path / "state", self.coordinator))
        whole = self.state(6)
        resumed.save(tmp_path / "resumed")
        whole.save(tmp_path / "whole")
        assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()

    def test_a_diverged_model_is_kept_too(self, tmp_path):
        state = self.state()
        state.params[0] = np.nan
        state.save(tmp_path / "state")
        assert np.isnan(State.load(tmp_path / "state", self.coordinator).params[0])

    @pytest.mark.parametrize(
        "other",
        [
            Coordinator(2),
            Coordinator(2, scheduler="with_quota:inner=oort"),
            Coordinator(7),
            Coordinator(2, server="adam"),
        ],
        ids=str,
    )
    def test_another_method_does_not_take_it(self, other, tmp_path):
        self.state().save(tmp_path / "state")
        with pytest.raises(InputError, match="give the coordinator that saved it") as caught:
            State.load(tmp_path / "state", other)
        assert "\n" not in str(caught.value)

    def test_what_is_no_state_is_refused(self, tmp_path):
        for data in (b"", b"x" * 99, b"\x80\x04N."):
            (tmp_path / "state").write_bytes(data)
            with pytest.raises(InputError, match="cannot be read as a state"):
                State.load(tmp_path / "state", self.coordinator)
        for path in (tmp_path, tmp_path / "nothing"):
            with pytest.raises(InputError, match="cannot be read as a state"):
                State.load(path, self.coordinator)

    @pytest.mark.parametrize(
        "cut",
        [{"fedparity-state 2": "{}"}, {FORMAT: "{"}, {FORMAT: "[]"}, {FORMAT: "5"}, {FORMAT: '{"array": "/params"}'}],
    )
    def test_a_changed_head_is_refused(self, cut, tmp_path):
        self.state().save(tmp_path / "state")
        data = (tmp_path / "state").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        head = json.loads(data[8 : 8 + size])
        head["__metadata__"] = cut
        text = json.dumps(head).encode()
        (tmp_path / "state").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
        with pytest.raises(InputError):
            State.load(tmp_path / "state", self.coordinator)

    def test_memory_that_is_no_data_is_named(self, tmp_path):
        state = self.state()
        state.scheduler = {1, 2}
        with pytest.raises(OutputError, match="the scheduler's state holds a set"):
            state.save(tmp_path / "state")
