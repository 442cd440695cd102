"""Whole experiments: comparisons, logs, results."""

from fedparity.experiment.methods import METHODS, Method
from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.schedule import Draw, Gains, Schedule, Setting, schedule

__all__ = ["METHODS", "Draw", "Gains", "Method", "MetricsLog", "Schedule", "Setting", "schedule"]
