"""Fair federated learning for clients that come and go.

The whole round is `Coordinator.plan` and `Coordinator.absorb`; `run` carries one through an engine, `schedule` compares
schedulers without training, `frontier` says how fair any of them could have been. docs/architecture.md has the map.
"""

from fedparity.availability import AVAILABILITY
from fedparity.core.coordinator import Coordinator, State
from fedparity.core.errors import ConfigError, FedparityError, InputError, OutputError, RoundError
from fedparity.core.journal import Journal
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run, run_side_by_side
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import ClientReport, Cohort, Evals, RoundPlan, RoundRecord, RoundView, Rows
from fedparity.engines import InProcess, Intermittent, NoTraining
from fedparity.estimators import ESTIMATORS
from fedparity.experiment import Gains, MetricsLog, Schedule, Setting, schedule
from fedparity.memory import MEMORIES
from fedparity.metrics import METRICS, ClientFrame, Frontier, fractional_frontier, frontier, weighted_frontier
from fedparity.schedulers import SCHEDULERS
from fedparity.surrogates import SURROGATES
from fedparity.traces import load_trace, save_trace
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

__version__ = "0.1.0"

__all__ = [
    "AVAILABILITY",
    "ESTIMATORS",
    "MEMORIES",
    "METRICS",
    "SCHEDULERS",
    "SURROGATES",
    "UTILITIES",
    "WEIGHTINGS",
    "ClientFrame",
    "ClientReport",
    "Cohort",
    "ConfigError",
    "Coordinator",
    "Evals",
    "FedparityError",
    "Frontier",
    "Gains",
    "InProcess",
    "InputError",
    "Intermittent",
    "Journal",
    "Ledger",
    "MetricsLog",
    "NoTraining",
    "OutputError",
    "RoundError",
    "RoundPlan",
    "RoundRecord",
    "RoundView",
    "Rows",
    "Schedule",
    "Setting",
    "State",
    "Trace",
    "fractional_frontier",
    "frontier",
    "load_trace",
    "run",
    "run_side_by_side",
    "save_trace",
    "schedule",
    "stream",
    "weighted_frontier",
]
