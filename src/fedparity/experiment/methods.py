"""Methods by name: combinations of components with their published defaults (reading of the paper: docs/paper.md)."""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.errors import unknown

CUP = "Behfar and Mortier, Cumulative Utility Parity for Fair Federated Learning, arXiv 2602.13651"
FEDAVG = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"


@dataclass(frozen=True, slots=True)
class Method:
    """What a named method is made of, each component written `NAME[:key=value,...]`."""

    summary: str
    scheduler: str
    weighting: str = "mean"
    surrogate: str = "none"
    mixing: float = 1.0
    local: str = "plain"
    server: str = "sgd"
    reference: str | None = None


METHODS: dict[str, Method] = {
    "parity": Method("Closed loop towards equal shares, looking ahead (the default).", "parity"),
    "parity_surrogate": Method("Parity, with utility surrogates for the absent.", "parity", surrogate="utility"),
    "uniform": Method("FedAvg among the available (the paper's vanilla branch).", "uniform", reference=FEDAVG),
    "inverse": Method("Chance proportional to 1/availability (Lemma 2).", "inverse", reference=CUP),
    "cup_paper": Method(
        "The paper as printed: top-K of 1/availability x rounds offline, utility surrogates.",
        "reactive:missed=offline,draw=top,lam=.7",
        surrogate="utility",
        reference=CUP,
    ),
    "cup_authors": Method(
        "The authors' public code: top-K of 1/availability x rounds since selected, models mixed by half.",
        "reactive:missed=since_selected,draw=top,lam=.5",
        mixing=0.5,
        reference=CUP,
    ),
    "least_served": Method(
        "The fewest selections first, the rarer first among equals.",
        "least_served",
        reference="Wang et al., FedGS: Federated Graph-Based Sampling, AAAI 2023 (alpha = 0)",
    ),
}


def method(name: str) -> Method:
    """The method of that name, or an error with the nearest one."""
    try:
        return METHODS[name]
    except KeyError:
        raise unknown("method", name, METHODS) from None
