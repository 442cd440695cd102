"""One coin per client and round, with rates that differ between clients: A_k(t) ~ Bernoulli(pi_k), independent.

The classes differ only in where pi comes from: a uniform or Beta law, a log-normal scaled to 1 (F3AST), the labels a
client holds (MIFA), or the bands counted in the paper's phones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.availability.rates import check_bounds, independent_rounds, uniform_rates
from fedparity.core.checks import at_least, between, positive
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray


def _check_length(name: str, values: tuple[float, ...], num_clients: int) -> None:
    if len(values) != num_clients:
        raise ConfigError(f"{name} has {len(values)} values for {num_clients} clients; give one per client")


class Independent(ABC):
    """One coin per client and round."""

    __slots__ = ()

    @abstractmethod
    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        rates = self.client_rates(num_clients, seed)
        return independent_rounds(len(rates), rounds, seed, lambda _: rates)


@dataclass(frozen=True, slots=True)
class Bernoulli(Independent):
    """Independent rounds, rates uniform between two bounds or given."""

    low: float = 0.2
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    rates: tuple[float, ...] | None = None
    """Rates (shares of rounds online), one per client; none: drawn between `low` and `high`."""

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high)
        for rate in self.rates or ():
            between("rates", rate, 0, 1)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""
        if self.rates is None:
            return uniform_rates(num_clients, self.low, self.high, seed)
        _check_length("rates", self.rates, num_clients)
        return np.array(self.rates, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class BetaRates(Independent):
    """Independent rounds, rates from a Beta law: by default one in ten on average, most far below."""

    a: float = 0.4
    """First shape of the Beta law of rates, whose mean is a / (a + b); higher makes clients more available."""
    b: float = 3.6
    """Second shape of the Beta law; higher makes clients rarer."""

    def __post_init__(self) -> None:
        positive("a", self.a)
        positive("b", self.b)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""
        at_least("clients", num_clients, 1)
        return stream(seed, "rates").beta(self.a, self.b, num_clients)


@dataclass(frozen=True, slots=True)
class LogNormalRates(Independent):
    """Independent rounds, log-normal rates divided by the largest of them."""

    sigma: float = 0.5
    """Standard deviation of the log of a rate; 0 is everybody always online, higher tells clients apart more."""
    reference: ClassVar[str] = "F3AST: Ribero, Vikalo, de Veciana, IEEE JSTSP 2023, arXiv 2205.06730"

    def __post_init__(self) -> None:
        between("sigma", self.sigma, 0, 100)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run: X_k / max X, X ~ LogN(0, sigma)."""
        at_least("clients", num_clients, 1)
        log = self.sigma * stream(seed, "rates").standard_normal(num_clients)
        return np.asarray(np.exp(log - log.max()), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LabelSkewed(Independent):
    """Independent rounds, clients that hold small labels are rare: availability tells the data."""

    p_min: float = 0.1
    """Rate of clients that hold label 0; higher makes availability depend less on labels."""
    classes: int = 10
    """Number of labels; clients whose smallest label is the last one are always online."""
    labels: tuple[int, ...] | None = None
    """The smallest label of each client; none: client k's is k mod `classes`."""
    reference: ClassVar[str] = "MIFA: Gu, Huang, Zhang, Huang, NeurIPS 2021, arXiv 2106.04159"

    def __post_init__(self) -> None:
        between("p_min", self.p_min, 0, 1)
        at_least("classes", self.classes, 2)
        for label in self.labels or ():
            between("labels", label, 0, self.classes - 1)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run: p_min + (1 - p_min) min(label) / (classes - 1)."""
        at_least("clients", num_clients, 1)
        if self.labels is None:
            label = np.arange(num_clients) % self.classes
        else:
            _check_length("labels", self.labels, num_clients)
            label = np.array(self.labels)
        return np.asarray(self.p_min + (1 - self.p_min) * label / (self.classes - 1), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PaperLike(Independent):
    """Independent rounds, 21 % of clients below .05, 42 % up to .5 and 37 % above, as the paper's phones."""

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""
        at_least("clients", num_clients, 1)
        rng = stream(seed, "rates")
        sizes = np.diff(np.rint(num_clients * np.array([0, 0.21, 0.63, 1])).astype(np.int64))
        low, high = np.repeat([0.005, 0.05, 0.5], sizes), np.repeat([0.05, 0.5, 1.0], sizes)
        # Shuffled: in band order, a rule that breaks ties by id would favour the rare.
        return rng.permutation(rng.uniform(low, high))
