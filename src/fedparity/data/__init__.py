"""Images by name, verified by digest and kept once; any others as `.npz`; and how they are dealt to clients."""

from fedparity.data.cache import cache_folder
from fedparity.data.dataset import DataSet
from fedparity.data.fetch import KNOWN, fetch, find, load
from fedparity.data.npy import load_npz

__all__ = ["KNOWN", "DataSet", "cache_folder", "fetch", "find", "load", "load_npz"]
