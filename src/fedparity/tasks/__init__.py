"""What a client does with a model."""

from fedparity.tasks.logistic import Logistic
from fedparity.tasks.noised import Noised
from fedparity.tasks.quadratic import Quadratic

__all__ = ["Logistic", "Noised", "Quadratic"]
