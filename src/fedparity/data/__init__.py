"""Images and weights by name, verified and kept once; other images as `.npz`; and how they are dealt to clients."""

from fedparity.data.cache import cache_folder
from fedparity.data.dataset import DataSet
from fedparity.data.fetch import KNOWN, fetch, find, load
from fedparity.data.npy import load_npz
from fedparity.data.weights import WEIGHTS, fetch_weights, weights_path

__all__ = [
    "KNOWN",
    "WEIGHTS",
    "DataSet",
    "cache_folder",
    "fetch",
    "fetch_weights",
    "find",
    "load",
    "load_npz",
    "weights_path",
]
