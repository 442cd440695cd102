"""Sizes of section 3: CIFAR-10 in float32, and the parameters of ResNet-18 and -34.

220 MB is not the size of CIFAR-10 in float32: 50,000 images of 32 x 32 x 3 take 614 MB. 11.7M and 21.8M parameters are
those with the 1,000-class head of ImageNet; with ten classes there are half a million fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.plot import Bars

IMAGE = 32 * 32 * 3
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}


def resnet_parameters(name: str, classes: int) -> int:
    """Weights of a ResNet of basic blocks (He et al. 2016): 7x7 stem, four stages of 64 to 512 channels, one head."""
    total = 3 * 64 * 49 + 2 * 64
    wide = 64
    for stage, blocks in enumerate(BLOCKS[name]):
        out = 64 * 2**stage
        for block in range(blocks):
            into = wide if block == 0 else out
            total += 9 * out * (into + out) + 4 * out
            if into != out:
                total += into * out + 2 * out  # the shortcut that changes the number of channels
        wide = out
    return total + wide * classes + classes


@dataclass(frozen=True, slots=True)
class Sizes(Claim):
    """Arithmetic."""

    id = "sizes"
    where = "Section 3, workload characteristics"
    statement = "CIFAR-10 takes about 220 MB in float32; ResNet-18 and -34 have 11.7M and 21.8M parameters."
    assumptions = "50,000 training images of 32 × 32 × 3."
    corrected = "614 MB; 11.7M and 21.8M are with a head of 1,000 classes, 11.2M and 21.3M with ten."
    method = "Arithmetic"
    expected = "fails"

    images: int = 50_000
    bytes_per_number: int = 4
    printed_mb: float = 220.0

    def examine(self) -> Finding:
        """Megabytes and parameters."""
        size = self.images * IMAGE * self.bytes_per_number / 1e6
        found = {f"{name}, {n} classes": resnet_parameters(name, n) for name in BLOCKS for n in (1000, 10)}
        as_printed = [round(found[f"{name}, 1000 classes"] / 1e6, 1) for name in BLOCKS]
        return Finding(
            "holds" if abs(size - self.printed_mb) <= 0.1 * self.printed_mb else "fails",
            round(size) == 614 and as_printed == [11.7, 21.8],
            f"{self.images:,} images take {size:.0f} MB. ResNet-18 has {found['resnet18, 1000 classes']:,} parameters"
            f" with 1,000 classes and {found['resnet18, 10 classes']:,} with ten, ResNet-34"
            f" {found['resnet34, 1000 classes']:,} and {found['resnet34, 10 classes']:,}.",
            {"megabytes": size, "parameters": found},
            Bars("Parameters, millions", tuple((name, count / 1e6) for name, count in found.items())),
        )
