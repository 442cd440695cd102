"""What a tenth of the clients can gain by lying or by choosing when to be there, under any scheduler."""

from fedparity.testing.attacks.arena import Arena, Result, attack
from fedparity.testing.attacks.kinds import ATTACKS, Attack

__all__ = ["ATTACKS", "Arena", "Attack", "Result", "attack"]
