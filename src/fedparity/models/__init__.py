"""What is trained: one file per family, one line each in `MODELS`. Importing this package does not import torch.

`MODELS.build("resnet18:norm=batch").build((3, 32, 32), 10)` is a module for float images of shape (batch, 3, 32, 32),
channels first. Images are kept as bytes: put a `normalise.Normalise` in front. Every module is a `chain.Chain`, so a
frozen beginning can be cut off (`chain.prefix_of`). Building one leaves torch's global generator alone and gives the
same first weights every time.

Buffers. The vector that clients and server exchange holds the parameters, then the floating-point buffers that a state
dict keeps (running_mean and running_var of batch norm): these are averaged like parameters, with the same weights.
Whole-number buffers (num_batches_tracked) are not shared, and only matter to a batch norm whose momentum is None; ours
have none such. Buffers that a state dict leaves out (those of `Normalise`) are constants. `tasks.flat`
makes the vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fedparity.core.registry import Registry
from fedparity.models.cnn import CNN
from fedparity.models.efficientnet_lite import EfficientNetLite0
from fedparity.models.linear import MLP, Logistic
from fedparity.models.resnet import ResNet18, ResNet34

if TYPE_CHECKING:
    from fedparity.models.chain import Chain


class Model(Protocol):
    """An architecture; its sizes follow from the images and the number of classes."""

    def build(self, shape: tuple[int, ...], classes: int) -> Chain:
        """A module from (batch, *shape) floats to (batch, classes) logits."""
        ...


MODELS: Registry[Model] = Registry(
    "model",
    {
        "logistic": Logistic,
        "mlp": MLP,
        "cnn": CNN,
        "resnet18": ResNet18,
        "resnet34": ResNet34,
        "efficientnet_lite0": EfficientNetLite0,
    },
    needs=Model,
)

__all__ = ["MODELS", "Model"]
