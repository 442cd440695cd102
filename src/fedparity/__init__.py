"""Fair federated learning for clients that come and go.

The whole round is `Coordinator.plan` and `Coordinator.absorb`; `run` carries one through an engine, `execute` a
whole spec, `schedule` compares schedulers without training, `frontier` says how fair any of them could have been.
docs/api.md lists the names, docs/architecture.md has the map. Each is imported when it is first used, so
`import fedparity` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedparity.availability import AVAILABILITY
    from fedparity.availability.speeds import SPEEDS
    from fedparity.core.coordinator import Coordinator
    from fedparity.core.errors import ConfigError, FedparityError, InputError, OutputError, RoundError
    from fedparity.core.gate import Gate
    from fedparity.core.journal import Journal
    from fedparity.core.ledger import Ledger
    from fedparity.core.loop import run, run_side_by_side
    from fedparity.core.protocols import (
        Availability,
        Engine,
        Estimator,
        Feedback,
        Local,
        Memory,
        Observer,
        Scheduler,
        Server,
        Surrogate,
        Task,
        Utility,
        Weighting,
    )
    from fedparity.core.rng import stream
    from fedparity.core.state import State
    from fedparity.core.trace import Trace
    from fedparity.core.types import ClientReport, Cohort, Descent, Evals, Job, RoundPlan, RoundRecord, RoundView, Rows
    from fedparity.data import open_data
    from fedparity.data.partitions import PARTITIONS
    from fedparity.engines import InProcess, Intermittent, NoTraining
    from fedparity.estimators import ESTIMATORS
    from fedparity.experiment import METHODS
    from fedparity.experiment.metrics_log import MetricsLog
    from fedparity.experiment.model_file import load_model, save_model
    from fedparity.experiment.own import frame_samples, own_samples, torch_task
    from fedparity.experiment.run import Run
    from fedparity.experiment.runner import Callbacks, execute
    from fedparity.experiment.schedule import Gains, Schedule, Setting, schedule
    from fedparity.experiment.spec import Spec
    from fedparity.local import LOCALS
    from fedparity.memory import MEMORIES
    from fedparity.metrics import (
        MEASURES,
        ClientFrame,
        Frontier,
        Table,
        fractional_frontier,
        frontier,
        weighted_frontier,
    )
    from fedparity.models import MODELS
    from fedparity.models.features import EXTRACTORS
    from fedparity.report import write_report
    from fedparity.schedulers import SCHEDULERS
    from fedparity.servers import SERVERS
    from fedparity.servers.rate_schedules import RATE_SCHEDULES
    from fedparity.surrogates import SURROGATES
    from fedparity.tasks import Quadratic
    from fedparity.tasks.samples import Samples
    from fedparity.tasks.torch_task import TorchTask
    from fedparity.tasks.training import Training
    from fedparity.traces import load_trace, save_trace
    from fedparity.utility import UTILITIES
    from fedparity.weightings import WEIGHTINGS

__version__ = "0.3.0.dev0"

_HOMES = {
    "availability": ("AVAILABILITY",),
    "availability.speeds": ("SPEEDS",),
    "core.coordinator": ("Coordinator",),
    "core.state": ("State",),
    "core.errors": ("ConfigError", "FedparityError", "InputError", "OutputError", "RoundError"),
    "core.gate": ("Gate",),
    "core.journal": ("Journal",),
    "core.ledger": ("Ledger",),
    "core.loop": ("run", "run_side_by_side"),
    "core.protocols": (
        "Availability",
        "Engine",
        "Estimator",
        "Feedback",
        "Local",
        "Memory",
        "Observer",
        "Scheduler",
        "Server",
        "Surrogate",
        "Task",
        "Utility",
        "Weighting",
    ),
    "core.rng": ("stream",),
    "core.trace": ("Trace",),
    "core.types": (
        "ClientReport",
        "Cohort",
        "Descent",
        "Evals",
        "Job",
        "RoundPlan",
        "RoundRecord",
        "RoundView",
        "Rows",
    ),
    "data": ("open_data",),
    "data.partitions": ("PARTITIONS",),
    "engines": ("InProcess", "Intermittent", "NoTraining"),
    "estimators": ("ESTIMATORS",),
    "experiment": ("METHODS",),
    "experiment.metrics_log": ("MetricsLog",),
    "experiment.model_file": ("load_model", "save_model"),
    "experiment.own": ("frame_samples", "own_samples", "torch_task"),
    "experiment.run": ("Run",),
    "experiment.runner": ("Callbacks", "execute"),
    "experiment.schedule": ("Gains", "Schedule", "Setting", "schedule"),
    "experiment.spec": ("Spec",),
    "local": ("LOCALS",),
    "memory": ("MEMORIES",),
    "metrics": ("MEASURES", "ClientFrame", "Frontier", "Table", "fractional_frontier", "frontier", "weighted_frontier"),
    "models": ("MODELS",),
    "models.features": ("EXTRACTORS",),
    "report": ("write_report",),
    "schedulers": ("SCHEDULERS",),
    "servers": ("SERVERS",),
    "servers.rate_schedules": ("RATE_SCHEDULES",),
    "surrogates": ("SURROGATES",),
    "tasks": ("Quadratic",),
    "tasks.samples": ("Samples",),
    "tasks.torch_task": ("TorchTask",),
    "tasks.training": ("Training",),
    "traces": ("load_trace", "save_trace"),
    "utility": ("UTILITIES",),
    "weightings": ("WEIGHTINGS",),
}
"""Where each name lives."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AVAILABILITY",
    "ESTIMATORS",
    "EXTRACTORS",
    "LOCALS",
    "MEASURES",
    "MEMORIES",
    "METHODS",
    "MODELS",
    "PARTITIONS",
    "RATE_SCHEDULES",
    "SCHEDULERS",
    "SERVERS",
    "SPEEDS",
    "SURROGATES",
    "UTILITIES",
    "WEIGHTINGS",
    "Availability",
    "Callbacks",
    "ClientFrame",
    "ClientReport",
    "Cohort",
    "ConfigError",
    "Coordinator",
    "Descent",
    "Engine",
    "Estimator",
    "Evals",
    "FedparityError",
    "Feedback",
    "Frontier",
    "Gains",
    "Gate",
    "InProcess",
    "InputError",
    "Intermittent",
    "Job",
    "Journal",
    "Ledger",
    "Local",
    "Memory",
    "MetricsLog",
    "NoTraining",
    "Observer",
    "OutputError",
    "Quadratic",
    "RoundError",
    "RoundPlan",
    "RoundRecord",
    "RoundView",
    "Rows",
    "Run",
    "Samples",
    "Schedule",
    "Scheduler",
    "Server",
    "Setting",
    "Spec",
    "State",
    "Surrogate",
    "Table",
    "Task",
    "TorchTask",
    "Trace",
    "Training",
    "Utility",
    "Weighting",
    "execute",
    "fractional_frontier",
    "frame_samples",
    "frontier",
    "load_model",
    "load_trace",
    "open_data",
    "own_samples",
    "run",
    "run_side_by_side",
    "save_model",
    "save_trace",
    "schedule",
    "stream",
    "torch_task",
    "weighted_frontier",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedparity' has no attribute {name!r}; docs/api.md lists what it has")
    found = getattr(import_module(f"fedparity.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
