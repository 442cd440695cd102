"""A whole system by seed: clients, network, disk and a coordinator that dies, with invariants after every step."""

from fedparity.testing.simulation.days import Outcome, simulate
from fedparity.testing.simulation.invariants import BrokenInvariantError

__all__ = ["BrokenInvariantError", "Outcome", "simulate"]
