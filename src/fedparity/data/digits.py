"""The 1,797 digits that ship with scikit-learn; every fourth image of each label, from its first on, is for testing."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.data.dataset import Arrays, every_fourth
from fedparity.data.layout import Known


def make() -> Arrays:
    """Images of 8 x 8 pixels with values 0..16, in the order of scikit-learn."""
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise ConfigError("the digits come with scikit-learn; pip install 'fedparity[torch]'") from error
    bunch = datasets.load_digits()
    images, labels = bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)
    test = every_fourth(labels)
    return Arrays(images[~test], labels[~test], images[test], labels[test])


def official(arrays: Arrays) -> Iterator[tuple[str, str]]:
    """The SHA-256 of the pixels and labels of either part."""
    for part, x, y in (("train", arrays.x_train, arrays.y_train), ("test", arrays.x_test, arrays.y_test)):
        digest = hashlib.sha256(np.ascontiguousarray(x).data)
        digest.update(np.ascontiguousarray(y).data)
        yield part, digest.hexdigest()


DIGITS = Known(
    "digits",
    "1,797 handwritten digits of 8 x 8 pixels, from scikit-learn",
    10,
    {"x_train": (1343, 8, 8), "y_train": (1343,), "x_test": (454, 8, 8), "y_test": (454,)},
    {
        "train": "8298781b0f01f663a488ca0082de06f93b3d0314c80ae1c7684764012d24d739",
        "test": "3cd8a3916c288c6fcc048f0dfe0a91b6c7616aa841f0ac3a87a3f5c08cb7ff06",
    },
    official,
    make=make,
    peak=16,
)
