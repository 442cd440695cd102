"""Loggers: every finite number of the log, at its round, one run per method and seed; real packages where installed."""

import sys
import types

import pytest

from fedparity.core.errors import ConfigError
from fedparity.experiment.loggers import KINDS, Logger

ROWS = [{"round": 0.0, "gini": 0.5, "accuracy": float("nan")}, {"round": 1.0, "gini": 0.25, "accuracy": 0.75}]
EXPECTED = {("gini", 1): 0.5, ("gini", 2): 0.25, ("accuracy", 2): 0.75}


def send(text):
    logger = Logger(text, "spec", 2)
    for method in ("parity", "uniform"):
        for number, row in enumerate([*ROWS, *ROWS]):
            logger.tell(number, method, row)
    logger.close()


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_has_every_number(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (pip install 'fedparity[tensorboard]')")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    send(f"tensorboard:{tmp_path}")
    names = {"parity-1", "parity-2", "uniform-1", "uniform-2"}
    assert {path.name for path in (tmp_path / "spec").iterdir()} == names
    for name in names:
        events = EventAccumulator(str(tmp_path / "spec" / name)).Reload()
        found = {
            (tag, one.step): one.tensor_proto.float_val[0]
            for tag in events.Tags()["tensors"]
            for one in events.Tensors(tag)
        }
        assert found == pytest.approx(EXPECTED)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_every_number(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # which needs no database
    pytest.importorskip("mlflow", reason="mlflow is not installed (pip install 'fedparity[mlflow]')")
    from mlflow.tracking import MlflowClient

    send(f"mlflow:{tmp_path.as_uri()}")
    client = MlflowClient(tracking_uri=tmp_path.as_uri())
    runs = client.search_runs([client.get_experiment_by_name("spec").experiment_id])
    assert sorted(run.info.run_name for run in runs) == ["parity-1", "parity-2", "uniform-1", "uniform-2"]
    for run in runs:
        assert run.info.status == "FINISHED"
        history = [m for key in run.data.metrics for m in client.get_metric_history(run.info.run_id, key)]
        assert {(m.key, m.step): m.value for m in history} == EXPECTED


def test_a_logger_that_fails_says_so_and_ends_nothing(monkeypatch):
    def broken(**_how):
        raise RuntimeError("no\nroute")

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=broken))
    logger = Logger("wandb:project", "spec", 2)
    logger.tell(0, "parity", ROWS[0])
    logger.close()
    assert logger.trouble == "log='wandb:project': stopped logging (no route)"


def test_wandb_is_sent_every_number(monkeypatch):
    made = []

    class Run:
        def __init__(self, **how):
            self.how, self.rows, self.finished = how, {}, False
            made.append(self)

        def log(self, row, step):
            self.rows |= {(key, step): value for key, value in row.items()}

        def finish(self):
            self.finished = True

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=Run))
    send("wandb:project")
    assert [run.how["name"] for run in made] == ["parity-1", "parity-2", "uniform-1", "uniform-2"]
    assert all(run.finished and run.rows == EXPECTED and run.how["project"] == "project" for run in made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_package_is_one_line_with_the_fix(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(ConfigError, match=rf"pip install 'fedparity\[{kind}\]'"):
        Logger(f"{kind}:x", "spec", 2)


@pytest.mark.parametrize("text", ["", "tensorboard", "tensorboard:", "csv:x", ":x"])
def test_a_text_that_names_no_logger_is_refused(text):
    with pytest.raises(ConfigError, match="must be KIND:WHERE"):
        Logger(text, "spec", 2)
