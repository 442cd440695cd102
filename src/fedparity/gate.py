"""The one validator before every aggregator: a bad report drops its client, never the round."""

from __future__ import annotations

import math

import numpy as np

from fedparity.types import ClientReport, RoundPlan

MAX_SAMPLES = 10**9


def refusal(report: ClientReport, plan: RoundPlan) -> str | None:
    """Why this report cannot be used, or None if it can."""
    if report.failure is not None:
        return report.failure
    if report.delta is None:
        return "no update"
    if report.delta.dtype != np.float64:
        return f"update is {report.delta.dtype}, not float64"
    if report.delta.shape != plan.params.shape:
        return f"update has shape {report.delta.shape}, not {plan.params.shape}"
    if not np.isfinite(report.delta).all():
        return "update is not finite"
    if not 0 < report.num_samples <= MAX_SAMPLES:
        return f"num_samples must be between 1 and {MAX_SAMPLES}"
    if any(map(math.isinf, (report.loss_before, report.loss_after, report.accuracy_before))):
        return "a reported loss or accuracy is infinite"
    return None
