"""How a plan is carried out: three answers to the same three methods."""

from fedparity.engines.inprocess import InProcess
from fedparity.engines.intermittent import Intermittent
from fedparity.engines.rollcall import NoTraining

__all__ = ["InProcess", "Intermittent", "NoTraining"]
