"""Components that do not fit together are refused when a coordinator is built, with the fix."""

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, Intermittent, Trace, run
from fedparity.core.errors import ConfigError
from fedparity.core.fit import TABLES
from fedparity.core.gate import Gate
from fedparity.experiment.methods import METHODS
from fedparity.memory import Decayed
from fedparity.surrogates import UtilitySurrogate
from fedparity.tasks import Quadratic
from fitting import built, partners


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"weighting": "fedvarp"},
            "but memory is 'none'; set memory = \"last_updates:own=keep\", or choose another weighting",
        ),
        ({"weighting": "fedstale", "memory": "last_updates:own=replace"}, "works on memory 'last_updates:own=keep'"),
        ({"weighting": "memory_mean"}, "works on memory 'last_updates', but memory is 'none'"),
        ({"weighting": "fedawe"}, "weighting 'fedawe' works on memory 'echo', but memory is 'none'"),
        ({"weighting": "fedawe", "memory": "echo"}, "works on local 'received', but local is 'plain'"),
        ({"memory": "echo", "local": "received"}, "memory 'echo' works on weighting 'fedawe', but weighting is 'mean'"),
        ({"memory": "running_sum"}, "memory 'running_sum' works on weighting 'fedlaavg'"),
        ({"local": "difference"}, "local 'difference' works on memory 'running_sum', but memory is 'none'"),
        ({"local": "received"}, "local 'received' works on memory 'echo', but memory is 'none'"),
        (
            {"memory": "decayed"},
            "but weighting is 'mean'; set weighting = \"decayed_mean:eta0=1.0,lam=0.5\", or choose another memory",
        ),
        (
            {"memory": "decayed:lam=.5", "weighting": "decayed_mean:lam=.01"},
            "works on weighting 'decayed_mean:eta0=1.0,lam=0.5', but weighting is 'decayed_mean:lam=0.01'; set",
        ),
        (
            {"weighting": "decayed_mean:lam=.01"},
            "on memory 'decayed:eta0=1.0,lam=0.01 or any', but memory is 'none'; set memory = \"decayed:eta0=1.0",
        ),
    ],
)
def test_half_a_method_is_refused_with_the_other_half(given, says):
    with pytest.raises(ConfigError) as error:
        Coordinator(2, **built(**given))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_an_eta_that_is_the_same_number_is_the_same():
    given = built(weighting="decayed_mean:eta0=2,lam=.25") | {"memory": Decayed(eta0=2, lam=1 / 4)}
    Coordinator(2, **given)


def test_late_updates_are_rows_that_decay_too():
    Coordinator(2, weighting="decayed_mean", gate=Gate(max_age=3))


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, table in TABLES.items() for name in table])
def test_what_a_component_asks_for_is_there_and_fits(key, name):
    Coordinator(2, **built(**partners(key, name)))


@pytest.mark.parametrize("name", METHODS)
def test_named_methods_fit(name):
    Coordinator(2, **built(**{key: getattr(METHODS[name], key) for key in TABLES}))


def test_a_surrogate_and_a_memory_together():
    """The one credits utility and never touches the model, the other moves it as if it were alone."""
    rng = np.random.default_rng(0)
    engine = Intermittent(InProcess(Quadratic.random(5)), Trace.from_matrix(rng.random((12, 5)) < 0.6))
    start = {"params": np.zeros(4), "num_clients": 5}
    memory = {"weighting": TABLES["weighting"].build("decayed_mean"), "memory": Decayed(epsilon=1.0)}
    alone = run(Coordinator(2, **memory), engine, 12, **start)
    seen = []
    observer = type("O", (), {"on_round": lambda _, _name, record, *__: seen.append(record.surrogate)})()
    both = run(
        Coordinator(2, **memory, surrogate=UtilitySurrogate(epsilon=1.0)), engine, 12, **start, observers=[observer]
    )
    assert both.params.tobytes() == alone.params.tobytes()
    assert both.ledger.surrogate_utility.sum() > 0 == alone.ledger.surrogate_utility.sum()
    assert any(credit.eta_sum > np.exp(-0.5) * len(credit.clients) for credit in seen)  # those of rows are added
    assert all(credit.bias_bound == pytest.approx(credit.eta_sum) for credit in seen)
