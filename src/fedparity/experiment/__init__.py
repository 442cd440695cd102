"""Whole experiments: comparisons, logs, results."""

from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.schedule import Draw, Gains, Schedule, Setting, schedule

__all__ = ["Draw", "Gains", "MetricsLog", "Schedule", "Setting", "schedule"]
