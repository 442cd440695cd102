"""A module that is a row of named stages, and how a frozen beginning is cut off it.

Whatever lies before the first stage that is trained is a constant function of the images: its activations can be
computed once. `rest(prefix(x))` runs the same operations as `module(x)`, so it gives the same bits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from fedparity.core.errors import ConfigError, unknown

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ConfigError("models are built with PyTorch; pip install 'fedparity[torch]'") from error


__all__ = ["Chain", "Tensor", "chain", "fixed_start", "nn", "prefix_of", "trained"]


class Chain(nn.Sequential):
    """Named stages, run one after the other."""

    def __init__(self, stages: OrderedDict[str, nn.Module]) -> None:
        """`stages` in the order in which they run."""
        super().__init__(stages)

    def stages(self) -> list[tuple[str, nn.Module]]:
        """(name, stage), in the order in which they run."""
        return list(self._modules.items())


def chain(*stages: tuple[str, nn.Module]) -> Chain:
    """A chain of these (name, stage)."""
    return Chain(OrderedDict(stages))


@contextmanager
def fixed_start() -> Iterator[None]:
    """Modules made inside have the same first weights every time; torch's global generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def prefix_of(module: nn.Module, trainable: Sequence[str]) -> tuple[Chain, Chain]:
    """The stages before the first one with a trained parameter, and the others; they share the module's tensors.

    Nothing frozen comes first: the prefix is empty, and gives back what it gets. A prefix with batch norm in it is
    constant in `eval()` mode only. The rest may hold frozen parts too: `trained` names what is not.
    """
    if not isinstance(module, Chain):
        raise ConfigError(
            f"a {type(module).__name__} is no chain of stages, so nothing can be cut off; train all of it"
        )
    names = trained(module, trainable)
    first = {name.partition(".")[0] for name in names}
    stages = module.stages()
    cut = next(i for i, (name, _) in enumerate(stages) if name in first)
    return chain(*stages[:cut]), chain(*stages[cut:])


def trained(module: nn.Module, trainable: Sequence[str]) -> list[str]:
    """The parameters that `trainable` names, in the module's order.

    A part is a stage (`fc`), anything inside one (`layer4.1`, `layer4.0.conv1.weight`), or a pattern (`layer[34]`,
    `*.bias`).
    """
    everything = [name for name, _ in module.named_parameters()]
    if not trainable:
        raise ConfigError(f"trainable=() trains nothing; name a part, such as {everything[-1].rpartition('.')[0]!r}")
    found = set()
    for part in trainable:
        own = [name for name in everything if any(fnmatchcase(x, part) for x in _lineage(name))]
        if not own:
            raise _not_there(module, part, everything)
        found.update(own)
    return [name for name in everything if name in found]


def _lineage(name: str) -> Iterator[str]:
    """A parameter's name and those of the modules that hold it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _not_there(module: nn.Module, part: str, everything: Sequence[str]) -> ConfigError:
    known = list(dict.fromkeys(name.partition(".")[0] for name in everything))
    if part in dict(module.named_modules()):
        return ConfigError(f"part {part!r} has no parameters to train; known: {', '.join(known)}")
    deep = "." in part
    return unknown("part", part, {x for name in everything for x in _lineage(name)} if deep else known)
