"""A PyTorch module as a flat vector and back.

The vector is made of the parameters in the order of `module.parameters()`, then of the floating-point buffers that
`state_dict` holds (running means and variances of batch norm), each row by row. Buffers are averaged like parameters,
by the same weights; counters (`num_batches_tracked`) are each copy's own and are not shared.
"""

from __future__ import annotations

import copy
import ctypes
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.types import Vector
from fedparity.tasks.rule import check_size

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ConfigError("this task trains with PyTorch; pip install 'fedparity[torch]'") from error


def _keep_memory() -> None:
    """Keep freed blocks of up to 32 MB for the next step, which asks for the same sizes again.

    By default glibc gives them back to the system, and every step pays for pages that are zeroed anew: measured, a
    third of the time of small models.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (AttributeError, OSError):  # not glibc
        return
    for parameter, value in ((-3, 32 << 20), (-1, 1 << 30), (-2, 64 << 20)):  # mmap threshold, trim threshold, top pad
        mallopt(parameter, value)


_keep_memory()


def pieces(module: nn.Module) -> list[tuple[str, Tensor]]:
    """The named tensors that make up the vector, in its order."""
    shared = module.state_dict(keep_vars=True)
    buffers = [(name, b) for name, b in module.named_buffers() if name in shared and b.is_floating_point()]
    return [*module.named_parameters(), *buffers]


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A model of one's own, whose parameters, buffers and gradients are windows on flat tensors."""

    module: nn.Module
    weights: Tensor
    """Parameters, then buffers; in the memory format of this replica, which need not be the vector's order."""
    gradient: Tensor
    """Of the parameters alone."""
    windows: tuple[Tensor, ...]
    """Each piece's part of `weights`, in its shape."""
    trained: Tensor | None
    """1 for parameters that are trained and 0 for others; None: all are."""

    @property
    def parameters(self) -> Tensor:
        """The part of `weights` that has gradients."""
        return self.weights[: len(self.gradient)]

    def prepare(self) -> None:
        """Make it ready to be trained; norms that are frozen go on with their running means."""
        self.module.train()
        if self.trained is not None:
            for part in self.module.modules():
                own = list(part.parameters(recurse=False))
                if own and not any(p.requires_grad for p in own):
                    part.eval()

    @torch.no_grad()
    def load(self, vector: Vector) -> None:
        """Take over the values of `vector`, rounded to the model's type."""
        source, at = torch.tensor(vector), 0
        for window in self.windows:
            window.copy_(source[at : at + window.numel()].view(window.shape))
            at += window.numel()

    @torch.no_grad()
    def vector(self) -> Vector:
        """The values, in the vector's order."""
        target, at = torch.empty(len(self.weights), dtype=self.weights.dtype), 0
        for window in self.windows:
            target[at : at + window.numel()].view(window.shape).copy_(window)
            at += window.numel()
        return np.asarray(target.numpy())


class Flat:
    """Lends copies of a module, each with values from a vector.

    Copying a module costs more than a step of training, so copies are lent, one borrower at a time, and lent again.
    """

    __slots__ = ("_lock", "_spare", "channels_last", "device", "dtype", "module", "size")

    def __init__(
        self, module: nn.Module, *, channels_last: bool = False, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        self.module = module
        self.channels_last = channels_last
        self.device = device
        self.dtype = dtype
        self.size = sum(t.numel() for _, t in pieces(module))
        self._spare: list[Replica] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, vector: Vector) -> Iterator[Replica]:
        """A model with these values, nobody else's until it is given back."""
        check_size(vector, self.size)
        with self._lock:
            replica = self._spare.pop() if self._spare else None
        replica = replica or self._copy()
        replica.load(vector)
        yield replica
        with self._lock:
            self._spare.append(replica)

    def _copy(self) -> Replica:
        parts = [t for _, t in pieces(self.module)]
        weights = torch.zeros(self.size, dtype=self.dtype, device=self.device)
        count = sum(p.numel() for p in self.module.parameters())
        gradient = torch.zeros(count, dtype=self.dtype, device=self.device)
        sizes = [t.numel() for t in parts]
        windows = [self._window(w, t) for w, t in zip(torch.split(weights, sizes), parts, strict=True)]
        own: dict[int, object] = {}
        at = 0
        for part, window in zip(parts, windows, strict=True):
            if isinstance(part, nn.Parameter):
                mine = nn.Parameter(window, requires_grad=part.requires_grad)
                mine.grad = self._window(gradient[at : at + part.numel()], part) if part.requires_grad else None
                own[id(part)] = mine
                at += part.numel()
            else:
                own[id(part)] = window
        module = copy.deepcopy(self.module, own).to(self.device)
        marks = [torch.full((p.numel(),), float(p.requires_grad)) for p in self.module.parameters()]
        trained = torch.cat(marks).to(self.device, self.dtype)
        return Replica(module, weights, gradient, tuple(windows), None if bool(trained.all()) else trained)

    def _window(self, flat: Tensor, like: Tensor) -> Tensor:
        if self.channels_last and like.ndim == 4:
            out, channels, height, width = like.shape
            return flat.view(out, height, width, channels).permute(0, 3, 1, 2)
        return flat.view(like.shape)

    def init(self, rng: np.random.Generator) -> Vector:
        """First values, from a NumPy stream so that they do not depend on the build of torch.

        A layer with a bias: uniform within 1 / sqrt(fan in), as PyTorch does. One without: normal with variance
        2 / fan out (He et al., ICCV 2015), since a norm and a ReLU follow it. Everything else as the module has it.
        """
        parts = []
        for name, tensor in pieces(self.module):
            owner = self.module.get_submodule(name.rpartition(".")[0])
            shape = tuple(tensor.shape)
            if not isinstance(owner, nn.Linear | nn.Conv2d):
                parts.append(tensor.detach().double().cpu().numpy().ravel())
            elif owner.bias is not None:
                bound = 1 / math.sqrt(owner.weight[0].numel())
                parts.append(rng.uniform(-bound, bound, math.prod(shape)))
            else:
                fan_out = shape[0] * math.prod(shape[2:]) / getattr(owner, "groups", 1)
                parts.append(rng.normal(0, math.sqrt(2 / fan_out), math.prod(shape)))
        return np.concatenate(parts).astype(np.float64 if self.dtype == torch.float64 else np.float32)

    def current(self) -> Vector:
        """The values the module came with."""
        return vector_of(self.module, self.dtype)


def vector_of(module: nn.Module, dtype: torch.dtype = torch.float32) -> Vector:
    """The vector of a module's present values."""
    flat = torch.cat([t.detach().reshape(-1).to("cpu", dtype) for _, t in pieces(module)])
    return np.asarray(flat.numpy())
