"""The local learning rate of each method, on paired seeds: every rate meets the same traces, data and first models.

All methods at all rates run side by side as one spec, so that a comparison of tuned methods is fair to each of them.
The best rate of a method is the one with the highest mean accuracy over seeds; a tie goes to the smaller rate. A rate
at which a method diverged counts as accuracy 0.

Nothing is chosen by what a run will report: accuracy is taken on training samples that were held back
(`data.scored_on`), and the seeds, with the partitions, first models and traces that they draw, are none of the spec's.
The softmax task (`logistic`) has no test samples, and another seed draws other data. Test samples of all other data
sets are the same for every seed, and none of them is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.types import FloatArray
from fedparity.experiment.run import Run
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_parts import NUMPY

RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
APART = 10_000
"""How far tuning seeds lie from the spec's, of which there are a thousand at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """What came of it."""

    rates: tuple[float, ...]
    methods: tuple[str, ...]
    accuracy: FloatArray
    """Methods x rates x seeds: mean accuracy on held-back samples over the last tenth of the rounds."""
    seeds: tuple[int, ...]
    complete: bool

    @property
    def means(self) -> FloatArray:
        """Methods x rates: over seeds."""
        return np.asarray(self.accuracy.mean(axis=2), dtype=np.float64)

    def best(self, method: str) -> float:
        """The rate of one method."""
        return self.rates[int(self.means[self.methods.index(method)].argmax())]

    def at_the_edge(self, method: str) -> bool:
        """Whether a rate beyond those tried might be better still."""
        return self.best(method) in (self.rates[0], self.rates[-1])


def grid(spec: Spec, rates: Sequence[float], seeds: int | None = None) -> Spec:
    """The spec with every method at every rate, on other seeds (as many, unless told) and held-back samples."""
    if spec.data.set == "quadratic":
        raise ConfigError("data.set='quadratic' has no accuracy to choose a rate by; use another data set")
    if seeds is not None:
        checks.between("seeds", seeds, 1, 1000)
    for rate in rates:
        checks.positive("rate", rate)
    if len(set(rates)) != len(rates):
        raise ConfigError(f"rates {', '.join(map(str, rates))} must be different; leave the repeats out")
    if len(rates) < 2:
        raise ConfigError(f"rates={rates[0] if rates else ''} leaves nothing to choose from; give two or more")
    methods = [
        MethodSpec.model_validate(m.resolved().model_dump() | {"name": _name(m.name, rate), "rate": float(rate)})
        for m in spec.methods
        for rate in sorted(rates)
    ]
    data = spec.data if spec.data.set in NUMPY else spec.data.model_copy(update={"scored_on": "validation"})
    other = {"seed": spec.seed + APART, "seeds": spec.seeds if seeds is None else seeds, "data": data}
    return spec.model_copy(update=other | {"methods": tuple(methods), "name": f"{spec.name[:58]}-tune"})


def _name(method: str, rate: float) -> str:
    return f"{method[:50]}+{rate:g}"


def tuned(spec: Spec, rates: Sequence[float], results: Run) -> Tuned:
    """Read the outcome off the results of `grid(spec, rates)`."""
    rates = tuple(sorted(rates))
    found = [
        [[_end(run.column("accuracy")) for run in results.of(_name(m.name, r))] for r in rates] for m in spec.methods
    ]
    seeds = tuple(sorted({run.seed for run in results.runs}))
    return Tuned(rates, tuple(m.name for m in spec.methods), np.array(found, dtype=np.float64), seeds, results.complete)


def _end(column: FloatArray) -> float:
    """The last tenth of the rounds: a single round's accuracy is mostly noise under intermittent clients."""
    last = np.nan_to_num(column[-max(1, len(column) // 10) :], nan=0.0)
    return float(last.mean()) if len(last) else 0.0


def with_rates(spec: Spec, found: Tuned) -> Spec:
    """The spec as it was given, seeds and all, with every method at its best rate."""
    methods = tuple(m.model_copy(update={"rate": found.best(m.name)}) for m in spec.methods)
    return spec.model_copy(update={"methods": methods})
