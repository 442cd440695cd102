"""The best schedule in hindsight for a separable convex cost, exactly.

A schedule fills min(m, online) slots of every round; S_k is how often client k is in it. An *exchange path* hands slots
on: client i gives its slot of round t to k, who is online then but not chosen; k gives one of another round to the
next; the last, j, keeps what it gets. Every round stays as full as it was, S_i falls by one, S_j rises by one, and
nobody in between changes. The path pays if

    f_i(S_i) - f_i(S_i - 1)  >  f_j(S_j + 1) - f_j(S_j).

The reachable count vectors are the integer bases of a polymatroid, on which a sum of convex f_k has no local optimum
but the global one: if no path pays, no schedule is better. Three steps, each exact about what it changes: a greedy pass
with the future known; sweeps that re-choose one round at a time given all others (ties by lot, which walks along
plateaus); then a search for paths that pay, which ends only when there is none. The first two leave it little to do.
f_k(S) = a_k S^2 - b_k S covers all the costs that are needed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids

Counts = NDArray[np.int64]
TIE = 1e-9
"""Relative size below which two marginal costs are equal; also the jitter that draws ties by lot."""


@dataclass(frozen=True, slots=True)
class Cost:
    """f_k(S) = a_k S^2 - b_k S."""

    a: FloatArray
    b: FloatArray

    @classmethod
    def squares(cls, num_clients: int) -> Cost:
        """Sum of S_k^2: its minimiser is majorised by every other count vector."""
        return cls(np.ones(num_clients), np.zeros(num_clients))

    def rise(self, counts: NDArray[np.number], clients: NDArray[np.integer]) -> FloatArray:
        """f_k(S + 1) - f_k(S)."""
        return np.asarray(self.a[clients] * (2 * counts + 1) - self.b[clients], dtype=np.float64)

    def total(self, counts: NDArray[np.number]) -> float:
        """Sum over all clients."""
        return float((self.a * counts**2 - self.b * counts).sum())


class Exchange:
    """A schedule that is improved until it is optimal."""

    def __init__(self, trace: Trace, cohort: int, cost: Cost) -> None:
        self.cost = cost
        self.online = [trace.clients[trace.starts[t] : trace.starts[t + 1]] for t in range(trace.num_rounds)]
        self.slots = [min(cohort, len(ids)) for ids in self.online]
        self.counts: Counts = np.zeros(trace.num_clients, dtype=np.int64)
        self.chosen: list[NDArray[np.int32]] = []
        self._rng = stream(0, "exchange")
        self._scale = float(np.abs(cost.rise(trace.counts(), np.arange(trace.num_clients))).max()) or 1.0

    def solve(self) -> None:
        """Greedy pass, sweeps while they help, then exchange paths until there is none."""
        self._greedy()
        best, idle = self.cost.total(self.counts), 0
        # A sweep that leaves the cost as it was may have moved along a plateau, so two in a row must be idle.
        while idle < 2:
            self._sweep()
            now = self.cost.total(self.counts)
            idle = 0 if now < best - TIE * abs(best) else idle + 1
            best = now
        self._exhaust()

    def _pick(self, ids: NDArray[np.int32], keys: FloatArray, slots: int) -> NDArray[np.int32]:
        if slots == len(ids):
            return ids
        # The jitter only decides among keys that count as equal.
        jitter = self._rng.random(len(ids)) * (TIE * self._scale)
        return ids[np.argpartition(keys + jitter, slots - 1)[:slots]] if slots else ids[:0]

    def _greedy(self) -> None:
        left = np.zeros(len(self.counts))
        for ids in self.online:
            left[ids] += 1
        for ids, slots in zip(self.online, self.slots, strict=True):
            left[ids] -= 1
            # Where each would end up if it got its even share of the rounds it still has.
            outlook = self.counts[ids] + slots / max(1, len(ids)) * left[ids]
            picked = self._pick(ids, self.cost.rise(outlook, ids), slots)
            self.counts[picked] += 1
            self.chosen.append(picked)

    def _sweep(self) -> None:
        for t in self._rng.permutation(len(self.online)):
            ids, slots = self.online[t], self.slots[t]
            if slots < len(ids):
                self.counts[self.chosen[t]] -= 1
                self.chosen[t] = self._pick(ids, self.cost.rise(self.counts[ids], ids), slots)
                self.counts[self.chosen[t]] += 1

    def _exhaust(self) -> None:
        # Givers come in order of what their last slot costs, the dearest first. A search in vain from one of them shows
        # that nobody it reached would take a slot for less, so later givers, who save less, need not look there either.
        search = _Search(self)
        everyone = np.flatnonzero(self.counts)
        falls = -self.cost.rise(self.counts[everyone] - 1, everyone)
        heap = list(zip(falls.tolist(), everyone.tolist(), strict=True))
        heapq.heapify(heap)
        while heap:
            fall, giver = heapq.heappop(heap)
            if search.closed[giver] or not self.counts[giver]:
                continue
            now = -float(self.cost.rise(self.counts[[giver]] - 1, np.array([giver]))[0])
            # Its last slot costs less than when it was queued, since it has given one: back to its place.
            if now > fall + TIE * self._scale:
                heapq.heappush(heap, (now, giver))
                continue
            taker = search.from_giver(giver, -fall - TIE * self._scale)
            if taker is not None:
                search.exchange(giver, taker)
                for client in (giver, taker):
                    if self.counts[client]:
                        marginal = self.cost.rise(self.counts[[client]] - 1, np.array([client]))
                        heapq.heappush(heap, (-float(marginal[0]), client))


class _Search:
    """Who can be reached from a giver along exchange paths; what was searched in vain is never searched again.

    No path leads out of a set that was searched in vain, and later paths that pay do not lead in, so its slots and
    counts are final. All searches in vain together therefore visit every client, and every pair of a round and a client
    online in it, once.
    """

    def __init__(self, problem: Exchange) -> None:
        self.p = problem
        num_clients, num_rounds = len(problem.counts), len(problem.online)
        self.closed = np.zeros(num_clients, dtype=np.bool_)
        # Where all that are online are chosen, there is nobody to hand a slot to.
        self.closed_rounds = np.array([s == len(i) for s, i in zip(problem.slots, problem.online, strict=True)])
        self._via_round = np.full(num_clients, -1, dtype=np.int64)
        self._via_client = np.full(num_rounds, -1, dtype=np.int64)
        # The rounds of each client, concatenated; exchanges change those of a few, which `_changed` holds instead.
        sizes = [len(c) for c in problem.chosen]
        clients = np.concatenate(problem.chosen) if problem.chosen else np.empty(0, np.int32)
        order = np.argsort(clients, kind="stable")
        self._rounds = np.repeat(np.arange(num_rounds), sizes)[order]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(clients, minlength=num_clients))])
        self._changed: dict[int, list[int]] = {}
        self._mask = np.zeros(num_clients, dtype=np.bool_)

    def rounds_of(self, client: int) -> list[int]:
        """The rounds in which a client is chosen now."""
        if client in self._changed:
            return self._changed[client]
        found: list[int] = self._rounds[self._starts[client] : self._starts[client + 1]].tolist()
        return found

    def from_giver(self, giver: int, below: float) -> int | None:
        """A client reachable from `giver` to which one more costs less than `below`; None closes all reached."""
        self.closed[giver] = True
        new_clients, new_rounds, queue = [np.array([giver])], [], [giver]
        at = 0
        # Breadth first, so that the path found is a shortest one and touches few rounds.
        while at < len(queue) and not self.closed_rounds.all():
            client = queue[at]
            at += 1
            for t in self.rounds_of(client):
                if self.closed_rounds[t]:
                    continue
                self.closed_rounds[t] = True
                self._via_client[t] = client
                new_rounds.append(t)
                fresh = self._not_chosen(t)
                self.closed[fresh] = True
                self._via_round[fresh] = t
                new_clients.append(fresh)
                if len(fresh):
                    rise = self.p.cost.rise(self.p.counts[fresh], fresh)
                    best = int(rise.argmin())
                    if rise[best] < below:
                        # A path that pays: what was visited on the way is open again, since counts will change.
                        self.closed[np.concatenate(new_clients)] = False
                        self.closed_rounds[new_rounds] = False
                        return int(fresh[best])
                    queue.extend(fresh.tolist())
        return None

    def _not_chosen(self, t: int) -> Ids:
        ids = self.p.online[t]
        self._mask[self.p.chosen[t]] = True
        fresh = ids[~(self.closed[ids] | self._mask[ids])].astype(np.int64)
        self._mask[self.p.chosen[t]] = False
        return fresh

    def exchange(self, giver: int, taker: int) -> None:
        """Hand slots along the path just found, from its end: each takes the slot of the one it was reached from."""
        client = taker
        while client != giver:
            t = int(self._via_round[client])
            before = int(self._via_client[t])
            row = self.p.chosen[t].copy()
            row[row == before] = client
            self.p.chosen[t] = row
            self._changed[client] = [*self.rounds_of(client), t]
            self._changed[before] = [r for r in self.rounds_of(before) if r != t]
            client = before
        self.p.counts[giver] -= 1
        self.p.counts[taker] += 1
