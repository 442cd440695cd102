"""What holds somebody else's component to the laws that ours obey: attacks on schedulers, disks that fail."""

from fedparity.testing.attacks import ATTACKS, Arena, Attack, Result, attack
from fedparity.testing.disks import FaultyDisk

__all__ = ["ATTACKS", "Arena", "Attack", "FaultyDisk", "Result", "attack"]
