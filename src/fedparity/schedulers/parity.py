"""Parity, our own: closed-loop on the ledger, towards a target that is named.

    S_k + place_k + r R_k
    ---------------------  ->  the m smallest are asked      r = slots filled / rounds online, of all clients so far
          pi_k^beta

S_k is what client k has been given, R_k in how many of the remaining rounds it is expected online, and r the rate at
which an online round is turned into a selection: the numerator is where k will end up if the loop did nothing more for
it, so a client that will seldom be back is asked before one that can wait. r is a mean over the rounds so far: with the
rate of the moment the order of two clients would turn with the time of day. Other weights of the outlook, fixed or
learned from how forecasts came true, and outlooks that level off were tried; what they win where forecasts do not come
true (`docs/results.md` says where that is) they lose elsewhere.

**A turn is spread.** Counts say who has had fewer turns, not who comes first among equals. If that were the rarest, or
nobody in particular, clients that come alike would be asked together, turn after turn: where who comes alike holds
alike data, one cohort knows some labels only and the next others, and the model follows whoever was asked last. So
each client has a place of its own within a turn, k times the golden ratio modulo 1, which spreads any numbering
evenly. In the last `LAST_TURNS` turns places draw together at 1/2: then who is rare comes first, so that it is not
missed. From beta = 1 on places span a quarter of a turn (`NARROW`) all along: equal rates with equal S_k are equals
there, too, and the rarest would all have their first turn in the same late rounds. A whole place would round small S_k
badly. Utility spreads turns as far as availability is seen to tell the data (`skew`, below).

Equal in the end is not even on the way: with the whole outlook, clients that are always there are put off until the
rare ones have had their turns, more than half of a long run. Counts do not mind; a model does, since early rounds learn
from the rare alone and late ones from the rest. `horizon` counts the outlook of so many rounds only, which bounds how
long anybody is put off; towards the end it is the whole again. Two days of 48 rounds cost little in counts over 200
rounds; over 500, on phones, the least Gini is missed by 5.4 % instead of 3.7 %. 0, one selection, is the evenest. What
is promised per round online needs no outlook: from beta = 1 on it is one selection long.

    target = share        beta = 0: everybody the same S_k, as far as availability allows
    target = opportunity  beta = 1: everybody the same S_k / pi_k
    target = utility      the same u_k / pi_k
    target = a number     that beta

**Utility** is a welfare, not a debt. A loop that asks whoever has least u_k / pi_k does not converge: gains fall as the
model learns, clients that are always there can never reach u ~ pi, so they would get every slot for ever and the model
would learn from them alone. Maximised is weighted alpha-fairness, sum_k pi_k phi_alpha(u_k / pi_k) with
phi_alpha' (x) = x^-alpha: the slot goes to the largest marginal welfare,

    g_k x_k^-alpha          x_k = (u_k + s_k + o_k) / pi_k          o_k = pi_k G (t / left) log(1 + left / t)

g_k is what asking k now is expected to gain, times its urgency (`fedparity.schedulers.gains`): who gains nothing is
held back as far as the band below goes, so that it cannot starve the model.
o_k is the outlook, one selection at the usual gain G if gains fall like 1 / t. s_k is what this slot
may make of x_k, since a large gain of a client with a small pi_k cannot be taken back: c g_k, half a gain if gains are
all alike and more the more they scatter (c = 1/2 + 3/2 CV^2, at most 4), or what is outstanding, if that is more. With
unit gains this is the order of target = opportunity. At alpha = 1, proportional fairness, a client that scales its
reports changes nothing. Once gains are seen to be the clients' own (`own` rises from 0 to 1, an analysis of variance)
low utility has no other cure than slots: then 1 / alpha falls to 0, max-min fairness.

Clients that hold alike data gain alike and would be asked together, as above, and the model would follow them. Losses
tell them apart: the `REACH` m furthest behind, in order of their last known losses, are cut into m parts, and who is
furthest behind in each part is asked. And a lot decides between near equals, x_k times exp(`LOT` t / T normal); it
grows as the run goes on, because it is the last model that stays.

The order by opportunity is what utility is held to: relative to medians, x_k g_k^(-1/alpha) stays within
sqrt(`ratio`)^((1 - r)^2 q) of its counterpart with unit gains, or is that if a third of those online are asked, since
there is no choice to make. q is 1 as long as who is rare fares like everybody else and falls to 0 as their losses stay
behind (`skew` from 1.02 to 1.1): where availability tells the data, holding back who gains much would starve the model
of what only they know, so that there the rule is equal opportunity. It is 0 as long as nobody can tell yet
(`seen`), and where the spread of 1 / pi_k, which is that of u_k / pi_k if all learn alike, lies with clients that are
hardly ever there (`_nearby` from .55 to .45): what those that are there give up would even out nothing. Narrower bands,
and bands that open as they are seen to help, ended less even and not with a better model.

Everything is observed by the server but utility, which clients report: `ratio` bounds what a report can do. A quota
bounds what anything can do: `with_quota` around parity; rates and medians stay those of everybody online, hidden or
not. With `newcomers = last`, who registers while the run is under
way enters behind everybody who is online, so that nobody gains by registering anew; the price is that an honest
newcomer waits for its turn like somebody who was just asked, and is not made up for the rounds before it came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Feedback, Scheduler
from fedparity.core.types import Cohort, FloatArray, Ids, RoundView
from fedparity.schedulers.draws import lowest, unknown
from fedparity.schedulers.gains import Gains, ramp

GOLDEN, LAST_TURNS, NARROW = (math.sqrt(5) - 1) / 2, 2.0, 0.25
LOT, REACH, MOST_PRUDENT = 0.1, 2, 4.0
ALIKE, APART = 1.02, 1.1
"""Skews between which availability comes to be taken to tell the data."""
NEARBY = 0.45, 0.55
"""Shares of what rarity does to u / pi that lie with those that are there, between which it is worth acting on."""
CROWDED, NOTHING = 1 / 3, 0.05
"""If more of those online are asked there is no choice to make; a relative gain below this is none."""


@dataclass(slots=True)
class Course:
    """What the loop remembers beside the ledger."""

    slots: int
    online: int
    """Rounds online of all clients, this one included."""
    gains: Gains | None
    """Learned for target = utility alone."""
    entry: FloatArray = field(metadata=PER_CLIENT)
    """What each newcomer counts as having been given when it came; NaN: it has not been seen yet."""

    @property
    def rate(self) -> float:
        """r: selections per round online."""
        return self.slots / max(1, self.online)


@dataclass(frozen=True, slots=True)
class Parity(Scheduler[Course]):
    """Closed loop on what each client was given and will still get, towards a named target (the default)."""

    forecasts: ClassVar[bool] = True
    target: Literal["share", "opportunity", "utility"] | float = "share"
    """What is made equal: selections (share), selections or utility per round online, or S_k / pi_k^number."""
    alpha: float = 1.0
    """Target utility: 1 is proportional fairness, large values are max-min; below 1 who gains most counts more."""
    ratio: float = 100.0
    """Target utility: largest ratio that reports can make in the order; higher trusts them more, 1 not at all."""
    horizon: int = 96
    """Below opportunity: rounds' worth of outlook that counts; 0, one selection, has the evenest turns."""
    newcomers: Literal["absent", "last"] = "absent"
    """Who registers late counts as one that was absent so far, or comes last of those online when it enters."""

    def __post_init__(self) -> None:
        if isinstance(self.target, str):
            checks.one_of("target", self.target, ("share", "opportunity", "utility"))
        else:
            checks.between("target", self.target, 0, 4)
        checks.positive("alpha", self.alpha)
        checks.at_least("horizon", self.horizon, 0)
        checks.one_of("newcomers", self.newcomers, ("absent", "last"))
        checks.between("ratio", self.ratio, 1, 1e6)

    @property
    def requires(self) -> tuple[str, ...]:
        """Credits, if they are to be evened out."""
        return ("utility",) if self.target == "utility" else ()

    def init(self, num_clients: int) -> Course:
        """Nobody has been asked."""
        gains = Gains.none(num_clients) if self.target == "utility" else None
        return Course(0, 0, gains, np.full(num_clients, np.nan))

    def learn(self, state: Course, feedback: Feedback) -> Course:
        """Take in what a round was worth to those that took part."""
        if state.gains is not None and feedback.reports:
            state.gains.learn(np.array([r.client for r in feedback.reports], dtype=np.int64), feedback.ledger)
        return state

    def select(self, state: Course, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Course]:
        """The available clients that are furthest behind."""
        # A wrapper may hide clients: rates and medians stay those of everybody online.
        whole = view.whole or view
        state.slots += min(whole.cohort, len(whole.available))
        state.online += len(whole.available)
        behind = self._ends_up_with(state, whole)
        gains = state.gains if state.gains is not None and state.gains.recent.value() > 0 else None
        if gains is not None:
            behind = self._by_utility(gains, whole, behind, state.rate, rng)
        if self.newcomers == "last" and whole.ledger.since is not None:
            behind = _entered(state.entry, whole.available, whole.ledger.since, behind)
        if whole is not view:
            behind = behind[np.isin(whole.available, view.available, assume_unique=True)]
        if gains is None:
            return lowest(view.available, behind, view.cohort, rng), state
        return unknown(self._mixed(gains, view, behind, rng)), state

    def _ends_up_with(self, state: Course, view: RoundView) -> FloatArray:
        """What each client will have been given, per round online as far as the target says."""
        ids, ledger = view.available, view.ledger
        beta = {"share": 0.0, "opportunity": 1.0, "utility": 1.0}.get(str(self.target))
        beta = float(self.target) if beta is None else beta
        outlook = self._outlook(state.rate, view) if beta < 1 else view.pi
        told = 1.0 if state.gains is None else ramp(state.gains.skew(), ALIKE, APART)
        place = (1 - beta) * self._fading(view) if beta < 1 else NARROW * told
        given = ledger.selected[ids] + 0.5 + place * _place(ids) + outlook
        if beta == 0:
            return given
        return np.asarray(given / ((ledger.online[ids] + 1) / (ledger.rounds + 1)) ** beta, dtype=np.float64)

    def _fading(self, view: RoundView) -> float:
        """How far places in a turn are apart: 1, and 0 in the end."""
        if view.remaining is None:
            return 1.0
        return min((view.rounds_left or 0) * view.cohort / view.ledger.num_clients / LAST_TURNS, 1.0)

    def _outlook(self, rate: float, view: RoundView) -> FloatArray:
        """Selections that each client can still count on."""
        # Without a known end the outlook is one selection long: enough to prefer the rarer of two equals.
        if view.remaining is None or not self.horizon:
            return view.pi
        left = view.rounds_left or 0
        counted = 1.0 if left <= self.horizon else self.horizon / left
        return np.asarray(rate * counted * view.remaining, dtype=np.float64)

    def _by_utility(
        self, gains: Gains, view: RoundView, by_count: FloatArray, rate: float, rng: np.random.Generator
    ) -> FloatArray:
        """Where utility puts each client, as far as the band around equal opportunity lets it."""
        ids, ledger, t = view.available, view.ledger, view.ledger.rounds + 1
        if not len(ids):
            return by_count
        gain, relative = gains.expected(ids)
        left = view.rounds_left or 0
        falling = t / left * math.log1p(left / t) if left else 1.0
        prudent = min(0.5 + 1.5 * gains.spread(), MOST_PRUDENT)
        online = (ledger.online[ids] + 1) / t
        to_come = view.pi / online * gains.recent.value() * falling
        step = np.maximum(prudent * gain, gains.outstanding(ids))
        level = (gains.given(ids, ledger) + step) / online + to_come
        level *= np.exp(LOT * t / (t + left) * rng.standard_normal(len(ids)))
        # The m largest of g x^-alpha are the m smallest of x g^(-1 / alpha).
        worth = np.maximum(relative * gains.urgency(ids), 1e-9)
        key = level / np.median(level) / worth ** ((1 - gains.own()) / self.alpha)
        counted = by_count / np.median(by_count)
        choice = (1 - rate) ** 2 if rate < CROWDED else 0.0
        blind = ramp(gains.skew(), APART, ALIKE) * gains.seen() * ramp(_nearby(ledger), *NEARBY)
        band = math.sqrt(self.ratio) ** (choice * blind)
        return np.where(relative < NOTHING, counted * band, np.clip(key, counted / band, counted * band))

    def _mixed(self, gains: Gains, view: RoundView, behind: FloatArray, rng: np.random.Generator) -> Ids:
        """Those furthest behind, of as many kinds of loss as there are slots."""
        slots = view.cohort
        reach = min(REACH, self.ratio)
        near = lowest(view.available, behind, round(reach * slots), rng).clients
        if len(near) <= slots:
            return near
        near = near[np.argsort(gains.last_losses(near), kind="stable")]
        kind = np.arange(len(near)) * slots // len(near)
        in_turn = np.lexsort((behind[np.searchsorted(view.available, near)], kind))
        return near[in_turn[np.unique(kind[in_turn], return_index=True)[1]]]


def _place(ids: Ids) -> FloatArray:
    """Where in a turn each client comes, between -1/2 and 1/2."""
    turned = ids * GOLDEN
    return np.asarray(turned - np.floor(turned) - 0.5, dtype=np.float64)  # % 1.0 takes several times as long


def _nearby(ledger: Ledger) -> float:
    """Variance of 1 / pi per round online over that per client: near 1, those that are there differ as much as all."""
    pi = (ledger.online + 1) / (ledger.rounds + 1)
    apart = (1 / pi - (1 / pi).mean()) ** 2
    return float(np.average(apart, weights=pi) / apart.mean()) if apart.any() else 1.0


def _entered(entry: FloatArray, ids: Ids, since: NDArray[np.int32], behind: FloatArray) -> FloatArray:
    """Where everybody stands, newcomers from where they entered on."""
    new = (since[ids] > 0) & np.isnan(entry[ids])
    known = np.nan_to_num(entry[ids])
    stands = behind + known
    if new.any() and not new.all():
        entry[ids[new]] = np.maximum(stands[~new].max() - behind[new], 0.0)
    return np.asarray(behind + np.nan_to_num(entry[ids]), dtype=np.float64)
