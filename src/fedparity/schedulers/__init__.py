"""Who is asked: one file per policy, one line each in `SCHEDULERS`."""

from functools import partial
from typing import Any

from fedparity.core.protocols import Scheduler
from fedparity.core.registry import Registry
from fedparity.schedulers.deficit import Deficit
from fedparity.schedulers.f3ast import F3ast
from fedparity.schedulers.fairfedcs import FairFedCS
from fedparity.schedulers.fedgs import FedGS
from fedparity.schedulers.fixed import Fixed
from fedparity.schedulers.inverse import Inverse
from fedparity.schedulers.maxmin import OracleMaxMin
from fedparity.schedulers.oort import Oort
from fedparity.schedulers.parity import Parity
from fedparity.schedulers.power_of_choice import PowerOfChoice
from fedparity.schedulers.reactive import Reactive
from fedparity.schedulers.refl import Refl
from fedparity.schedulers.rollout import Rollout
from fedparity.schedulers.turns import LeastServed, OldestFirst, RoundRobin
from fedparity.schedulers.uniform import Population, Uniform
from fedparity.schedulers.with_company import WithCompany
from fedparity.schedulers.with_floor import WithFloor
from fedparity.schedulers.with_label_coverage import WithLabelCoverage
from fedparity.schedulers.with_quota import WithQuota

SCHEDULERS: Registry[Scheduler[Any]] = Registry(
    "scheduler",
    {
        "parity": Parity,
        "parity_deployment": partial(
            WithQuota, inner="with_company:inner=parity:ratio=1.1;;horizon=0;;newcomers=last", lifetime=1.05
        ),
        "rollout": Rollout,
        "uniform": Uniform,
        "population": Population,
        "inverse": Inverse,
        "reactive": Reactive,
        "cup_authors": partial(Reactive, missed="since_selected", lam=0.5, eps=0.0, pi="counts", ties="order"),
        "cup_later": partial(Reactive, missed="not_selected", draw="pivotal", lam=0.1, clip=100.0),
        "oracle_maxmin": OracleMaxMin,
        "round_robin": RoundRobin,
        "least_served": LeastServed,
        "oldest_first": OldestFirst,
        "deficit": Deficit,
        "refl": Refl,
        "f3ast": F3ast,
        "fedgs": FedGS,
        "fairfedcs": FairFedCS,
        "oort": Oort,
        "oort_code": partial(
            Oort, decay=0.95, cutoff=0.7, clip=0.98, blacklist=None, pacer="flat", normalise=True, explore="size"
        ),
        "power_of_choice": PowerOfChoice,
        "with_quota": WithQuota,
        "with_company": WithCompany,
        "with_floor": WithFloor,
        "with_label_coverage": WithLabelCoverage,
        "fixed": Fixed,
    },
    needs=Scheduler,
)

__all__ = ["SCHEDULERS", "Fixed", "Parity", "Uniform"]
