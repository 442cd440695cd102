"""Federated Fairness Analytics (Dilley, Parra-Ullauri, Hussain, Simeonidou 2024, arXiv 2408.08214): four in [0, 1].

    individual    f_j = J(x_k / s_k)         x_k  accuracy of client k's model, s_k its Shapley contribution so far
    group         f_g                        from e_ka, the equalised-odds difference of client k for sensitive label a
    incentive     f_r = J(r_k / s_k)         r_k  accuracy of the model that client k received
    orchestrator  f_o = mean_k x_k
    general       F_T = (f_j + f_g + f_r + f_o) / 4

J is Jain's index, over the clients evaluated in a round. The text and the code (oscardilley/federated-fairness 5e3115e)
differ; `reading` chooses:

             "paper"                                                  "code"
    s_k <= 0 left out and counted: a share of a harm is no share      kept: the ratio flips its sign, and J with it; all
                                                                      of them negative is "fair"; an s_k of 0 gives NaN
    all 0    J = 1, everybody has the same                            f_j NaN; f_r = 1, as for any sum of 0
    f_g      1 - mean_a median_k |e_ka|                               1 - median_k |mean_a e_ka|: signs cancel
    e_ka     P(right | label a) - P(right | another label)            (#{right = is a} - #{right = is not a}) / n

The code was read, the text was not: "paper" is our reading of the definitions that its README gives. NaN in e_ka (a
client without label a, or with nothing else) is left out of the median there. In the code x_k is that of the client's
locally trained model, and s_k leaves out the empty coalition (`shapley(..., empty="exclude")`): the caller gives both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core.errors import ConfigError, unknown
from fedparity.core.types import BoolArray, FloatArray
from fedparity.metrics.inequality import NAN, as_vector, jain, mean

Reading: TypeAlias = Literal["paper", "code"]


@dataclass(frozen=True, slots=True)
class FairnessAnalytics:
    """The four measures of one round; 1 is fair. A measure over nobody is NaN, and so is `general` then."""

    individual: float
    group: float
    incentive: float
    orchestrator: float
    left_out: int
    """Clients with a contribution of 0 or less, not in `individual` and `incentive`; 0 as coded."""

    @property
    def general(self) -> float:
        """The mean of the four."""
        return (self.individual + self.group + self.incentive + self.orchestrator) / 4


def fairness_analytics(
    accuracy: ArrayLike, received: ArrayLike, contribution: ArrayLike, eod: ArrayLike, *, reading: Reading = "paper"
) -> FairnessAnalytics:
    """All measures; one entry per client, `eod` one row per client and one column per sensitive label (`label_eod`)."""
    s = as_vector(contribution, "contribution")
    if len(np.asarray(eod)) != len(s):
        raise ConfigError(f"eod has {len(np.asarray(eod))} rows but contribution {len(s)} clients; give one per client")
    return FairnessAnalytics(
        individual=individual_fairness(accuracy, s, reading=reading),
        group=group_fairness(eod, reading=reading),
        incentive=incentive_fairness(received, s, reading=reading),
        orchestrator=mean(accuracy),
        left_out=0 if reading == "code" else int((s <= 0).sum()),
    )


def individual_fairness(accuracy: ArrayLike, contribution: ArrayLike, *, reading: Reading = "paper") -> float:
    """f_j = J(x_k / s_k)."""
    ratio = _ratio("accuracy", accuracy, contribution, reading)
    return NAN if reading == "code" and not ratio.any() else _jain(ratio)


def incentive_fairness(received: ArrayLike, contribution: ArrayLike, *, reading: Reading = "paper") -> float:
    """f_r = J(r_k / s_k)."""
    ratio = _ratio("received", received, contribution, reading)
    return 1.0 if reading == "code" and len(ratio) and ratio.sum() == 0 else _jain(ratio)


def group_fairness(eod: ArrayLike, *, reading: Reading = "paper") -> float:
    """f_g of one row per client and one column per sensitive label; NaN is left out (as coded, f_g is NaN)."""
    _check(reading)
    e = np.asarray(eod, dtype=np.float64)
    if e.ndim != 2 or (np.abs(e) > 1).any():
        raise ConfigError(
            "eod must have one row per client, one column per label and entries in [-1, 1] (or NaN: no such data)"
        )
    if not e.size:
        return NAN
    if reading == "code":
        return float(1 - np.median(np.abs(e.mean(axis=1))))
    medians = [np.median(np.abs(column[~np.isnan(column)])) for column in e.T if not np.isnan(column).all()]
    return float(1 - np.mean(medians)) if medians else NAN


def label_eod(
    labels: ArrayLike, predicted: ArrayLike, sensitive: ArrayLike, *, reading: Reading = "paper"
) -> FloatArray:
    """e_ka of one client, one entry per sensitive label; NaN where a rate has no samples."""
    _check(reading)
    y, guess = np.asarray(labels), np.asarray(predicted)
    if y.shape != guess.shape or y.ndim != 1:
        raise ConfigError(f"labels of shape {y.shape} and predicted of {guess.shape} must be flat and of equal length")
    right = y == guess
    return np.array([_eod(right, y == label, reading) for label in np.atleast_1d(sensitive).tolist()], dtype=np.float64)


def _eod(right: BoolArray, member: BoolArray, reading: Reading) -> float:
    if reading == "code":
        return float(2 * (right == member).mean() - 1) if len(right) else NAN
    return float(right[member].mean() - right[~member].mean()) if member.any() and not member.all() else NAN


def _ratio(name: str, gain: ArrayLike, contribution: ArrayLike, reading: Reading) -> FloatArray:
    _check(reading)
    x, s = as_vector(gain, name), as_vector(contribution, "contribution")
    if len(x) != len(s):
        raise ConfigError(f"{name} has {len(x)} clients but contribution has {len(s)}; give both for the same ones")
    if reading == "paper":
        x, s = x[s > 0], s[s > 0]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(x / s, dtype=np.float64)


def _jain(ratio: FloatArray) -> float:
    return jain(ratio) if np.isfinite(ratio).all() else NAN


def _check(reading: str) -> None:
    if reading not in ("paper", "code"):
        raise unknown("reading", reading, ("paper", "code"))
