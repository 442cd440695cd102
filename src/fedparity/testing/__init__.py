"""What holds somebody else's component to the laws that ours obey: attacks on schedulers."""

from fedparity.testing.attacks import ATTACKS, Arena, Attack, Result, attack

__all__ = ["ATTACKS", "Arena", "Attack", "Result", "attack"]
