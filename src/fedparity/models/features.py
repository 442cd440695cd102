"""Frozen networks whose features stand in for images: one line each in `EXTRACTORS`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from fedparity.core import checks
from fedparity.core.registry import Registry

if TYPE_CHECKING:
    from fedparity.models.extract import Extractor


class Features(Protocol):
    """Which network, and how it sees images."""

    @property
    def weights(self) -> str:
        """The published weights it needs (`data.fetch_weights`)."""
        ...

    def extractor(self, path: str | os.PathLike[str], peak: int) -> Extractor:
        """The network with the weights in `path`, for images whose full pixel has the value `peak`."""
        ...


@dataclass(frozen=True, slots=True)
class EfficientNetLite0Features:
    """1,280 numbers per image from EfficientNet-Lite0, trained on ImageNet; images are enlarged to `size` pixels."""

    size: int = 96
    """Pixels to which an image's sides are enlarged; more give better features at a cost of size^2."""
    weights: ClassVar[str] = "efficientnet_lite0"
    reference: ClassVar[str] = "Tan and Le, EfficientNet, ICML 2019; EfficientNet-Lite, 2020"

    def __post_init__(self) -> None:
        checks.between("size", self.size, 32, 1024)

    def extractor(self, path: str | os.PathLike[str], peak: int) -> Extractor:
        """EfficientNet-Lite0 up to its last layer."""
        from fedparity.models.extract import efficientnet_features

        return efficientnet_features(path, self.size, peak)


EXTRACTORS: Registry[Features] = Registry(
    "features", {"efficientnet_lite0": EfficientNetLite0Features}, group="extractors", needs=Features
)
