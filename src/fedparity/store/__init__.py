"""A run as a folder that survives anything: commit, resume, verify, erase."""

from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk
from fedparity.store.erase import erase, finish_erasure
from fedparity.store.facts import Facts
from fedparity.store.rounds import Committed
from fedparity.store.store import Store
from fedparity.store.verify import Verdict, verify

__all__ = ["Committed", "DamagedError", "Disk", "Facts", "Store", "Verdict", "erase", "finish_erasure", "verify"]
