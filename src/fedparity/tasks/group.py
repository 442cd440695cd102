"""What a group of clients trains on, side by side: their samples, and the batches of every step.

Batches are padded to one size with samples that weigh nothing; a client that has fewer steps than others rests.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedparity.core.rng import streams
from fedparity.core.types import FloatArray, Ids, Job
from fedparity.tasks.scored import Scored
from fedparity.tasks.stacked import Stack, Stacked


@dataclass(frozen=True, slots=True)
class Step:
    """What every client of a group looks at in one step: its next batch, padded to the largest."""

    rows: Ids
    """Clients x samples: where they stand in the training data."""
    y: Tensor
    """Clients x 1 x samples: their labels."""
    share: Tensor
    """Clients x 1 x samples: what part of the client's loss each is; 0 for padding."""

    def part(self, first: int, end: int) -> Step:
        """The same for some of the clients."""
        return Step(self.rows[first:end], self.y[first:end], self.share[first:end])


class Group:
    """The samples of a group of clients, side by side."""

    def __init__(self, task: Scored, jobs: Sequence[Job], streams: Sequence[np.random.Generator]) -> None:
        self.task, self.jobs = task, jobs
        rows = [task.samples.train[job.row] for job in jobs]
        self.sizes = [len(r) for r in rows]
        self.offsets = np.cumsum([0, *self.sizes[:-1]])[:, None]
        self.rows = np.concatenate(rows)
        self.labels = task.samples.y_train[self.rows].astype(np.int64, copy=False)
        self.scale = 1 / task.samples.peak
        self.descents = [job.descents() for job in jobs]
        self.steps = [self._draw(streams) for _ in self.descents[0]]

    def part(self, first: int, end: int) -> Group:
        """The same for some of the clients, up to the last step that one of them takes."""
        found = copy.copy(self)
        found.jobs, found.sizes = self.jobs[first:end], self.sizes[first:end]
        found.offsets = self.offsets[first:end]
        longest = max(map(self.task.training.num_batches, found.sizes))
        found.descents = self.descents[first:end]
        found.steps = [[step.part(first, end) for step in steps[:longest]] for steps in self.steps]
        return found

    def _draw(self, streams: Sequence[np.random.Generator]) -> list[Step]:
        """Every step of a descent, in the order that each client's stream gives."""
        training, size = self.task.training, self.sizes[0]
        if self.sizes.count(size) < len(self.sizes):
            plans = [list(training.batches(own, rng)) for own, rng in zip(self.sizes, streams, strict=True)]
            return [
                self._padded([p[i] if i < len(p) else p[0][:0] for p in plans]) for i in range(max(map(len, plans)))
            ]
        found: list[Step] = []
        while (left := training.num_batches(size) - len(found)) > 0:
            order = np.tile(np.arange(size), (len(streams), 1))
            for own, rng in zip(order, streams, strict=True):
                rng.shuffle(own)  # rng.permutation(size), in place
            batches = [order[:, first : first + training.batch] for first in range(0, size, training.batch)]
            found += [self._step(batch, np.full((1, batch.shape[1]), 1 / batch.shape[1])) for batch in batches[:left]]
        return found

    def _padded(self, chosen: list[Ids]) -> Step:
        width = max(map(len, chosen))
        places, share = np.zeros((len(chosen), width), dtype=np.int64), np.zeros((len(chosen), width))
        for i, own in enumerate(chosen):
            places[i, : len(own)] = own
            share[i, : len(own)] = 1 / max(len(own), 1)
        return self._step(places, share)

    def _step(self, places: Ids, share: FloatArray) -> Step:
        places = places + self.offsets
        y = torch.from_numpy(self.labels[places]).unsqueeze(1)
        shares = torch.from_numpy(share).to(self.task.flat.dtype).unsqueeze(1)
        return Step(self.rows[places], y, shares.expand(y.shape))

    def take(self, rows: Ids) -> Tensor:
        """Samples as floats, not yet scaled."""
        return torch.from_numpy(self.task.samples.x_train.take(rows, axis=0)).to(self.task.flat.dtype)

    def losses(self, models: Stacked, stack: Stack) -> FloatArray:
        """Clients x samples: the loss of each; NaN beyond a client's last sample."""
        width = max(self.sizes)
        places = np.minimum(np.arange(width), np.array(self.sizes)[:, None] - 1) + self.offsets
        logits = models.forward(stack, self.take(self.rows[places]), self.scale)
        each = nn.functional.cross_entropy(logits, torch.from_numpy(self.labels[places]), reduction="none")
        found = each.double().numpy().copy()
        found[np.arange(width) >= np.array(self.sizes)[:, None]] = np.nan
        return np.asarray(found)

    def means(self, values: FloatArray) -> list[float]:
        """The mean over each client's own samples."""
        return [float(row[:size].mean()) for row, size in zip(values, self.sizes, strict=True)]


def streams_of(jobs: Sequence[Job]) -> list[np.random.Generator]:
    """The random numbers of every job; jobs are most often those of one round."""
    if len({(job.seed, job.round) for job in jobs}) == 1:
        return streams(jobs[0].seed, "train", jobs[0].round, [job.client for job in jobs])
    return [job.rng() for job in jobs]
