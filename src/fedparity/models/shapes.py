"""Rules on the shapes that a model is built for."""

from __future__ import annotations

from fedparity.core import checks
from fedparity.core.errors import ConfigError


def check(shape: tuple[int, ...], classes: int) -> None:
    """Refuse sizes that are not whole numbers of at least 1."""
    checks.at_least("classes", classes, 1)
    if not shape:
        raise ConfigError("shape=() must name at least one size, such as (784,) or (3, 32, 32)")
    for size in shape:
        checks.at_least(f"a size in shape={shape}", size, 1)


def image(model: str, shape: tuple[int, ...], classes: int, least: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of images of at least `least` x `least` pixels."""
    check(shape, classes)
    if len(shape) != 3:
        raise ConfigError(
            f"shape={shape} must be (channels, height, width) for {model}, such as (1, 28, 28); "
            "use mlp or logistic for other shapes"
        )
    channels, height, width = shape
    if min(height, width) < least:
        raise ConfigError(
            f"{model} needs images of at least {least} x {least} pixels, these are {height} x {width}; "
            "use mlp or logistic for smaller ones"
        )
    return channels, height, width
