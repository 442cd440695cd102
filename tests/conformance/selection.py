"""What the conformance suites of schedulers share: the table with variants; views are `fedparity.testing`'s."""

import numpy as np

from fedparity import SCHEDULERS
from fedparity.schedulers import Fixed
from fedparity.testing.views import LABELS, N, a_ledger, a_round, a_view, record, view_of, warm

__all__ = ["LABELS", "VARIANTS", "N", "a_ledger", "a_round", "a_view", "build", "record", "view_of", "warm"]

VARIANTS = [
    *SCHEDULERS,
    "inverse:replace=true",
    "reactive:draw=sample",
    "reactive:missed=since_selected",
    "reactive:missed=not_selected,draw=sample",
    "parity:target=opportunity",
    "parity:target=utility",
    "parity:target=utility,ratio=1.1",
    "with_quota:inner=parity:target=utility;alpha=4,quota=2",
    "parity:target=.5",
    "with_quota:inner=parity,quota=1.5,window=7",
    "deficit:due=missed",
    "deficit:due=opportunity",
    "refl:window=10",
    "f3ast:beta=.3",
    "fedgs:alpha=0",
    "fedgs:alpha=10",
    "fairfedcs:queue=share",
    "fairfedcs:offline=freeze,exact=2,orders=3",
    "oort:blacklist=1,exploration=.4,window=1",
    "oort_code:exploration=0,blacklist=2",
    "power_of_choice:variant=cpow,d=5",
    "power_of_choice:variant=rpow",
    "power_of_choice:variant=rpow,d=1",
    "with_quota:inner=oort,quota=1",
    "with_quota:inner=uniform,quota=1,window=5",
    "with_floor:inner=inverse,floor=1,window=3",
    "with_floor:inner=parity:target=opportunity;ratio=2,floor=.8",
    "with_label_coverage:inner=parity",
    "with_quota:inner=with_floor:inner=reactive:draw=sample;;missed=offline;floor=.5,quota=2",
]


def build(name: str):
    return Fixed([np.arange(3)] * 40) if name == "fixed" else SCHEDULERS.build(name)
