"""Numbers of a run where people already look: TensorBoard, MLflow, Weights & Biases.

Aggregates only, never one series per client. A logger is a progress callback: told the row of metrics_log.csv after
each round of each method. `KIND:WHERE` names one (`tensorboard:DIR`, `mlflow:URI`, `wandb:PROJECT`); each method with
each seed becomes one run there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from fedparity.core.errors import ConfigError


class Sink(Protocol):
    """One method with one seed at the other end."""

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Take the numbers of a round."""
        ...

    def close(self) -> None:
        """Make them durable."""
        ...


class TensorBoard:
    """A folder of event files."""

    def __init__(self, where: str, run: str, name: str) -> None:
        from tensorboard.summary import Writer

        self._writer = Writer(f"{where}/{run}/{name}")

    def log(self, row: Mapping[str, float], step: int) -> None:
        """One scalar per number."""
        for key, value in row.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def close(self) -> None:
        """End the event file."""
        self._writer.close()


class MLflow:
    """A run of the experiment that is called as the spec is."""

    def __init__(self, where: str, run: str, name: str) -> None:
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=where)
        found = self._client.get_experiment_by_name(run)
        experiment = self._client.create_experiment(run) if found is None else found.experiment_id
        self._id = self._client.create_run(experiment, run_name=name).info.run_id

    def log(self, row: Mapping[str, float], step: int) -> None:
        """One metric per number."""
        for key, value in row.items():
            self._client.log_metric(self._id, key, value, step=step)

    def close(self) -> None:
        """Mark it as finished."""
        self._client.set_terminated(self._id)


class Wandb:
    """A run of a project, in the group that is called as the spec is; WANDB_MODE=offline asks nobody."""

    def __init__(self, where: str, run: str, name: str) -> None:
        import wandb

        self._run: Any = wandb.init(project=where, group=run, name=name, reinit="create_new")

    def log(self, row: Mapping[str, float], step: int) -> None:
        """One step."""
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        """Mark it as finished."""
        self._run.finish()


KINDS: dict[str, tuple[Callable[[str, str, str], Sink], str]] = {
    "tensorboard": (TensorBoard, "tensorboard"),
    "mlflow": (MLflow, "mlflow"),
    "wandb": (Wandb, "wandb"),
}
"""By name: what takes the numbers, and the module it needs, which is also the name of its extra."""


class Logger:
    """Rows of a run, sent where `KIND:WHERE` says."""

    def __init__(self, text: str, name: str, rounds: int) -> None:
        kind, _, self._where = text.partition(":")
        if kind not in KINDS or not self._where:
            raise ConfigError(f"log={text!r} must be KIND:WHERE with one of {', '.join(KINDS)}; tensorboard:runs/tb")
        self._make, module = KINDS[kind]
        try:
            __import__(module)
        except ImportError as error:
            raise ConfigError(f"log={text!r} needs {module}; pip install 'fedparity[{module}]'") from error
        self._name = name
        self._rounds = rounds
        self._open: dict[str, Sink] = {}
        self._text = text
        self.trouble = ""
        """Why nothing is logged any more: a logger that fails does not end the run."""

    def tell(self, number: int, method: str, row: Mapping[str, float]) -> None:
        """One more round of one method is done; `number` counts over all seeds."""
        if self.trouble:
            return
        repeat, step = divmod(number, self._rounds)
        key = f"{method}-{repeat + 1}"
        known = {name: value for name, value in row.items() if name != "round" and math.isfinite(value)}
        with self._kept():
            if key not in self._open:
                self._open[key] = self._make(self._where, self._name, key)
            self._open[key].log(known, step + 1)

    def close(self) -> None:
        """No more rounds come."""
        for sink in self._open.values():
            with self._kept():
                sink.close()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever those packages raise
            self.trouble = self.trouble or f"log={self._text!r}: stopped logging ({' '.join(str(error).split())[:200]})"
