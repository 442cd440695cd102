"""Disks that fail, fill up, kill the process, or forget what was not synced, for tests of whatever writes a run."""

from fedparity.testing.disks.faulty import FaultyDisk
from fedparity.testing.disks.log import Call

__all__ = ["Call", "FaultyDisk"]
