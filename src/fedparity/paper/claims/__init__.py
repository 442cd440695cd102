"""Every claim of the paper, in the order in which the paper makes them: a statement, an experiment, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fedparity.core.errors import unknown
from fedparity.paper.claims.adjusted_objective import AdjustedObjective
from fedparity.paper.claims.adversarial_availability import AdversarialAvailability
from fedparity.paper.claims.appendix_a import AppendixA
from fedparity.paper.claims.appendix_b import AppendixB
from fedparity.paper.claims.appendix_c import AppendixC
from fedparity.paper.claims.appendix_d import AppendixD
from fedparity.paper.claims.appendix_e import AppendixE
from fedparity.paper.claims.bursty_availability import BurstyAvailability
from fedparity.paper.claims.claim import Claim, Result
from fedparity.paper.claims.correlated_dropout import CorrelatedDropout
from fedparity.paper.claims.drift import Drift
from fedparity.paper.claims.exact_targets import ExactTargets
from fedparity.paper.claims.gini_gap import GiniGap
from fedparity.paper.claims.identity_jain_cv import IdentityJainCv
from fedparity.paper.claims.irreducibility import Irreducibility
from fedparity.paper.claims.lemma_1 import Lemma1
from fedparity.paper.claims.lemma_2 import Lemma2
from fedparity.paper.claims.lemma_3 import Lemma3
from fedparity.paper.claims.participation_balance import ParticipationBalance
from fedparity.paper.claims.physical_limit import PhysicalLimit
from fedparity.paper.claims.sizes import Sizes
from fedparity.paper.claims.table_2_utility import Table2Utility
from fedparity.paper.claims.table_numbers import TableNumbers
from fedparity.paper.claims.theorem_1 import Theorem1
from fedparity.paper.claims.theorem_2 import Theorem2
from fedparity.paper.claims.theorem_3 import Theorem3
from fedparity.paper.claims.trace_statistics import TraceStatistics
from fedparity.paper.claims.two_targets import TwoTargets

__all__ = ["CLAIMS", "Claim", "Result", "chosen", "examine"]

_ORDER: tuple[type[Claim], ...] = (
    *(Lemma1, Theorem1, Lemma2, Theorem2, Lemma3, Theorem3),
    *(AppendixA, AppendixB, AppendixC, AppendixD, AppendixE),
    *(IdentityJainCv, GiniGap, PhysicalLimit, TwoTargets, ExactTargets, AdjustedObjective, Irreducibility),
    *(ParticipationBalance, Drift, CorrelatedDropout, BurstyAvailability, AdversarialAvailability),
    *(TableNumbers, Table2Utility, TraceStatistics, Sizes),
)
CLAIMS: dict[str, type[Claim]] = {claim.id: claim for claim in _ORDER}


def chosen(ids: Iterable[str], *, trace: str | None = None) -> list[Claim]:
    """The claims of those ids, each once and in the paper's order; all if none is given. `trace`: FLASH's events."""
    wanted = set(ids)
    for name in sorted(wanted - set(CLAIMS)):
        raise unknown("claim", name, CLAIMS)
    some = [claim for name, claim in CLAIMS.items() if not wanted or name in wanted]
    return [claim(trace=trace) if claim is TraceStatistics else claim() for claim in some]


def examine(claims: Iterable[Claim], tell: Callable[[int, Claim], None] | None = None) -> Iterator[Result]:
    """One result after the other; `tell` hears how many are done, and of each claim before it is examined."""
    for done, claim in enumerate(claims):
        if tell is not None:
            tell(done, claim)
        yield claim.result()
