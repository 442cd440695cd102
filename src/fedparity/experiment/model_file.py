"""A trained model as a file: safetensors under the names of its module, and back as the vector that is trained."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

from fedparity.core.errors import ConfigError
from fedparity.core.files import write_bytes
from fedparity.core.protocols import Task
from fedparity.core.types import Vector

if TYPE_CHECKING:
    from torch import nn


def save_model(path: str | os.PathLike[str], model: nn.Module | Task, params: Vector | None = None) -> None:
    """Write a model as safetensors under its names; with `params`, a vector that was trained, as its values."""
    import torch
    from safetensors.torch import save

    from fedparity.tasks.flat import pieces

    module = copy.deepcopy(_module_of(model))
    if params is not None:
        parts = pieces(module)
        if len(params) != (size := sum(t.numel() for _, t in parts)):
            raise ConfigError(
                f"params has {len(params)} entries but the model has {size}; give what this model trained"
            )
        with torch.no_grad():
            at = 0
            for _, tensor in parts:  # in place, so that layers that share a tensor still do
                tensor.copy_(torch.tensor(params[at : at + tensor.numel()]).view(tensor.shape))
                at += tensor.numel()
    write_bytes(path, save({name: t.cpu().contiguous().clone() for name, t in module.state_dict().items()}))


def load_model(path: str | os.PathLike[str], model: nn.Module | Task) -> Vector:
    """The vector of a model that `save_model` wrote; a module is filled with it, a task is left as it is."""
    from torch import nn

    from fedparity.models.weights import load_weights
    from fedparity.tasks.flat import vector_of

    module = model if isinstance(model, nn.Module) else copy.deepcopy(_module_of(model))
    load_weights(module, path)
    return vector_of(module)


def _module_of(model: Any) -> nn.Module:
    from torch import nn

    from fedparity.tasks.torch_task import TorchTask

    task = model
    if not isinstance(task, nn.Module | TorchTask):
        raise ConfigError(f"{type(model).__name__} has no PyTorch module; give one, or a task that trains one")
    return task if isinstance(task, nn.Module) else task.module
