"""Data sets and weights by name, verified and kept once; others as `.npz` or tables; and how they are dealt out."""

from fedparity.data.cache import cache_folder
from fedparity.data.dataset import DataSet
from fedparity.data.fetch import KNOWN, fetch, find, load, open_data
from fedparity.data.npy import load_npz
from fedparity.data.table import from_frame, load_table
from fedparity.data.weights import WEIGHTS, fetch_weights, weights_path

__all__ = [
    "KNOWN",
    "WEIGHTS",
    "DataSet",
    "cache_folder",
    "fetch",
    "fetch_weights",
    "find",
    "from_frame",
    "load",
    "load_npz",
    "load_table",
    "open_data",
    "weights_path",
]
