"""Ways to pick from the available, all but one with inclusion probabilities that are known exactly.

`lowest` ranks and breaks ties at the boundary by lot; `proportional` draws a fixed number with probabilities
min(1, c w_k) (water-filled) by systematic sampling in random order (Madow 1949), `pivotal` with the same ones by the
pivotal method (Deville and Tille 1998); `with_replacement` draws independently and keeps the distinct ones.
`successive` draws one after the other from those that are left, as published codes do (`choice(replace=False, p=w)`):
its inclusion probabilities have no closed form, so such a cohort is `unknown`.
"""

from __future__ import annotations

import numpy as np

from fedparity.core.types import Cohort, FloatArray, Ids, RoundView


def everybody(clients: Ids) -> Cohort:
    """All of them: there are no more than slots."""
    return Cohort(clients, np.ones(len(clients)), "deterministic")


def unknown(clients: Ids) -> Cohort:
    """A cohort of which nobody can say how likely each was: the probabilities are 1, so that nothing is corrected."""
    return Cohort(np.sort(clients), np.ones(len(clients)), "unknown")


def shares(view: RoundView) -> FloatArray:
    """p_k of every client: its share of all samples if clients have said what they hold, else 1/N.

    `Rows.shares` is the same for weightings.
    """
    count = view.ledger.num_clients
    sizes = np.zeros(count) if view.labels is None else view.labels.sum(1).astype(np.float64)
    return sizes / sizes.sum() if sizes.sum() > 0 else np.full(count, 1 / count)


def lowest(clients: Ids, keys: FloatArray, count: int, rng: np.random.Generator) -> Cohort:
    """The `count` clients with the lowest keys; equal keys at the boundary are drawn by lot."""
    if not 0 < count < len(clients):
        return everybody(clients[: max(0, count)])
    boundary = np.partition(keys, count - 1)[count - 1]
    sure, tied = np.flatnonzero(keys < boundary), np.flatnonzero(keys == boundary)
    places = count - len(sure)
    picked = np.concatenate([sure, rng.choice(tied, places, replace=False, shuffle=False)])
    probs = np.concatenate([np.ones(len(sure)), np.full(places, places / len(tied))])
    order = np.argsort(picked)
    return Cohort(clients[picked[order]], probs[order], "deterministic" if places == len(tied) else "exact")


def inclusion_probabilities(weights: FloatArray, count: int) -> FloatArray:
    """min(1, c w_k) with c such that they sum to `count` (water-filling)."""
    probs = np.empty(len(weights))
    loose = np.ones(len(weights), dtype=np.bool_)
    while True:
        probs[loose] = weights[loose] * ((count - np.count_nonzero(~loose)) / weights[loose].sum())
        full = loose & (probs >= 1)
        if not full.any():
            return probs
        probs[full] = 1.0
        loose &= ~full


def proportional(clients: Ids, weights: FloatArray, count: int, rng: np.random.Generator) -> Cohort:
    """`count` distinct clients, each included with probability min(1, c w_k)."""
    if not 0 < count < len(clients):
        return everybody(clients[: max(0, count)])
    probs = inclusion_probabilities(weights, count)
    sure = np.flatnonzero(probs == 1)
    loose = rng.permutation(np.flatnonzero(probs < 1))
    places = count - len(sure)
    edges = np.cumsum(probs[loose])
    # Rounding leaves the last edge a hair off `places`; scaling it there keeps the number drawn fixed.
    points = (np.arange(places) + rng.random()) * (edges[-1] / places) if places else np.empty(0)
    hits = loose[np.minimum(np.searchsorted(edges, points, side="right"), len(loose) - 1)]
    picked = np.sort(np.concatenate([sure, hits]))
    return Cohort(clients[picked], probs[picked], "exact")


def pivotal(clients: Ids, weights: FloatArray, count: int, rng: np.random.Generator) -> Cohort:
    """As `proportional`, drawn by the pivotal method: client by client, one of two gives its chance to the other."""
    if not 0 < count < len(clients):
        return everybody(clients[: max(0, count)])
    probs = inclusion_probabilities(weights, count)
    left = probs.copy()
    fighter = -1  # who still holds a part of a slot
    for place in np.flatnonzero(probs < 1).tolist():
        if fighter >= 0:
            both = left[fighter] + left[place]
            # One of the two ends with 0 or 1, and the other goes on with what is left, so that means are kept.
            if both < 1:
                winner, loser, kept, given = fighter, place, both, 0.0
                stays = rng.random() * both < left[fighter]
            else:
                winner, loser, kept, given = fighter, place, 1.0, both - 1
                stays = rng.random() * (2 - both) < 1 - left[place]
            if not stays:
                winner, loser = loser, winner
            left[winner], left[loser] = kept, given
            fighter = next((k for k in (winner, loser) if 1e-12 < left[k] < 1 - 1e-12), -1)
        else:
            fighter = place
    if fighter >= 0:  # rounding leaves the last a hair off 0 or 1
        left[fighter] = round(left[fighter])
    picked = np.flatnonzero(left > 0.5)
    return Cohort(clients[picked], probs[picked], "exact")


def with_replacement(clients: Ids, weights: FloatArray, count: int, rng: np.random.Generator) -> Cohort:
    """The distinct clients among `count` independent draws: P(included) = 1 - (1 - q_k)^count."""
    if not len(clients) or count <= 0:
        return everybody(clients[:0])
    share = weights / weights.sum()
    picked = np.unique(np.searchsorted(np.cumsum(share)[:-1], rng.random(count), side="right"))
    missed = np.log1p(-np.minimum(share[picked], 1 - 1e-16))
    return Cohort(clients[picked], -np.expm1(count * missed), "exact")


def successive(weights: FloatArray, count: int, rng: np.random.Generator) -> Ids:
    """Places of `count` drawn one by one, each with chances proportional to weight among those left.

    The `count` smallest of E_k / w_k with E_k exponential (Efraimidis and Spirakis 2006). Weight 0 comes after all
    others, by lot.
    """
    top = weights.max(initial=0.0)
    relative = np.maximum(weights / top, 1e-200) if top > 0 else np.ones(len(weights))
    keys = rng.exponential(size=len(weights)) / relative
    if count >= len(keys):
        return np.arange(len(keys), dtype=np.int64)
    return np.sort(np.argpartition(keys, count)[:count]).astype(np.int64) if count > 0 else np.empty(0, np.int64)
