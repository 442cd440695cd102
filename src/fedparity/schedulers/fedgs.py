"""FedGS (Wang et al., AAAI 2023, arXiv 2211.13975): even counts, and clients whose data differ.

    max over M available   sum_k h_k + alpha * mean over pairs of distance(k, j)
    h_k = -(2 (v_k - mean v - M / |A_t|) + 1) / (N - 1)            v_k: how often k was asked

alpha = 0 is the fewest selections first. For alpha > 0 clients are nodes of a graph: similarity is the cosine of their
label histograms over the largest one; above `epsilon` there is an edge of length exp(-similarity^2 / sigma); distance
is the shortest path over the longest, and the longest where there is no path. epsilon and sigma are those that the
released code runs with. Its round 0 asks everybody for a model; here clients have said which labels they hold. Its
mixed-integer programme (Gurobi, 5 seconds) is replaced by greedy choice and the best swap of two clients until none
helps: a local optimum. Ties are drawn by lot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, FloatArray, Ids, RoundView
from fedparity.schedulers.draws import everybody, lowest, unknown

MOST = 4000
"""Clients up to which all shortest paths are computed: N^3 steps, N^2 numbers."""


def balance(counts: NDArray[np.int32], asked: int, available: int) -> FloatArray:
    """h_k of every client: higher for those asked less."""
    above = counts - counts.mean() - asked / max(1, available)
    return np.asarray(-(2 * above + 1) / max(1, len(counts) - 1))


def distances(labels: NDArray[np.int64], epsilon: float, sigma: float) -> FloatArray:
    """Shortest paths between clients on the graph of their label histograms, the longest being 1."""
    from scipy.sparse.csgraph import shortest_path

    norms = np.linalg.norm(labels, axis=1)
    unit = labels / np.where(norms > 0, norms, 1)[:, None]
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, 0)
    similarity /= similarity.max(initial=0) or 1.0
    edges = np.where(similarity > epsilon, np.exp(-(similarity**2) / sigma), np.inf)
    found = np.asarray(shortest_path(edges, method="FW", directed=False), dtype=np.float64)
    np.fill_diagonal(found, 0)
    longest = found[np.isfinite(found)].max(initial=0) or 1.0
    return np.where(np.isfinite(found), found / longest, 1.0)


@lru_cache(maxsize=4)
def _remembered(labels: bytes, shape: tuple[int, int], epsilon: float, sigma: float) -> FloatArray:
    """The same labels come every round."""
    return distances(np.frombuffer(labels, np.int64).reshape(shape), epsilon, sigma)


def search(alone: FloatArray, pairs: FloatArray, count: int) -> Ids:
    """Places of `count` with a large sum of `alone` and of `pairs`, each pair once: greedy, then the best swaps."""
    inside, value = np.zeros(len(alone), dtype=np.bool_), alone.copy()  # value: alone + pairs with those inside
    for _ in range(count):
        best = int(np.argmax(np.where(inside, -np.inf, value)))
        inside[best] = True
        value += pairs[best]
    for _ in range(10 * count):
        ins, outs = np.flatnonzero(inside), np.flatnonzero(~inside)
        if not len(outs):
            break
        gain = value[outs] - value[ins][:, None] - pairs[np.ix_(ins, outs)]
        out, into = np.unravel_index(np.argmax(gain), gain.shape)
        if gain[out, into] <= 1e-12:
            break
        inside[ins[out]], inside[outs[into]] = False, True
        value += pairs[outs[into]] - pairs[ins[out]]
    return np.flatnonzero(inside).astype(np.int64)


@dataclass(frozen=True, slots=True)
class FedGS(Scheduler[None]):
    """Even counts, and among them clients with different labels (FedGS)."""

    alpha: float = 0.1
    """Weight of differing data against even counts; 0 asks those with the fewest selections."""
    epsilon: float = 0.01
    """Similarity (0 to 1) above which two clients are linked; higher takes more pairs for far apart."""
    sigma: float = 0.1
    """Scale of squared similarity in the length of a link; higher makes links more equally long."""
    reference: ClassVar[str] = (
        "Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI 2023"
    )

    def __post_init__(self) -> None:
        checks.not_negative("alpha", self.alpha)
        checks.between("epsilon", self.epsilon, 0, 1)
        checks.positive("sigma", self.sigma)

    @property
    def requires(self) -> tuple[str, ...]:
        """What the view must hold."""
        return ("labels",) if self.alpha else ()

    def init(self, num_clients: int) -> None:
        """No memory of its own: the ledger has it all."""
        if self.alpha and num_clients > MOST:
            raise ConfigError(
                f"fedgs:alpha={self.alpha:g} takes at most {MOST} clients, not {num_clients}; use alpha=0"
            )

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """The fewest selections, or the best set that the search finds."""
        ids, asked = view.available, min(view.cohort, len(view.available))
        if not self.alpha:
            return lowest(ids, view.ledger.selected[ids].astype(np.float64), view.cohort, rng), state
        if view.labels is None:
            raise ConfigError(
                f"fedgs:alpha={self.alpha:g} compares clients by their labels, which are not known here;"
                " give Coordinator `labels`, or use alpha=0"
            )
        if asked == len(ids):
            return everybody(ids), state
        mixed = rng.permutation(ids)
        labels = np.ascontiguousarray(view.labels, dtype=np.int64)
        apart = _remembered(labels.tobytes(), labels.shape, self.epsilon, self.sigma)[np.ix_(mixed, mixed)]
        pairs = apart * (self.alpha * 2 / (asked * (asked - 1)) if asked > 1 else 0.0)
        alone = balance(view.ledger.selected, asked, len(ids))[mixed]
        return unknown(mixed[search(alone, pairs, asked)]), state
