"""How a client trains, and what it keeps from round to round."""

from fedparity.local.rules import LOCALS, Difference, Ditto, PhpFl, Plain, Prox

__all__ = ["LOCALS", "Difference", "Ditto", "PhpFl", "Plain", "Prox"]
