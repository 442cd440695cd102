"""A run as a folder that survives anything: commit, resume, verify, erase."""

from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk
from fedparity.store.erase import erase
from fedparity.store.store import Committed, Store
from fedparity.store.verify import Verdict, verify

__all__ = ["Committed", "DamagedError", "Disk", "Store", "Verdict", "erase", "verify"]
