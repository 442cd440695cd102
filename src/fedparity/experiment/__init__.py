"""Whole experiments: comparisons, logs, results."""

from collections.abc import Mapping

from fedparity.core.registry import Named
from fedparity.experiment import methods
from fedparity.experiment.methods import Method
from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.schedule import Draw, Gains, Schedule, Setting, schedule

METHODS: Mapping[str, Method] = Named("method", methods.METHODS)
"""Named methods: combinations of components with published defaults."""

__all__ = ["METHODS", "Draw", "Gains", "Method", "MetricsLog", "Schedule", "Setting", "schedule"]
