"""The names people may rely on: adding or dropping one is a decision, made here."""

import inspect
import re
from pathlib import Path

import fedparity

EXPORTED = [
    "AVAILABILITY",
    "ESTIMATORS",
    "MEMORIES",
    "METRICS",
    "SCHEDULERS",
    "SURROGATES",
    "UTILITIES",
    "WEIGHTINGS",
    "ClientFrame",
    "ClientReport",
    "Cohort",
    "ConfigError",
    "Coordinator",
    "Evals",
    "FedparityError",
    "Frontier",
    "Gains",
    "InProcess",
    "InputError",
    "Intermittent",
    "Journal",
    "Ledger",
    "MetricsLog",
    "NoTraining",
    "OutputError",
    "RoundError",
    "RoundPlan",
    "RoundRecord",
    "RoundView",
    "Rows",
    "Schedule",
    "Setting",
    "State",
    "Trace",
    "fractional_frontier",
    "frontier",
    "load_trace",
    "run",
    "run_side_by_side",
    "save_trace",
    "schedule",
    "stream",
    "weighted_frontier",
]


def kind(name):
    """Constants, classes, functions: the order in which ruff sorts `__all__`."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def test_these_names_are_exported():
    assert fedparity.__all__ == EXPORTED


def test_they_are_sorted():
    assert sorted(EXPORTED, key=lambda name: (kind(name), name)) == EXPORTED
    assert len(set(EXPORTED)) == len(EXPORTED)


def test_every_name_resolves_and_says_what_it_is():
    for name in EXPORTED:
        found = getattr(fedparity, name)
        if callable(found):
            own = found.__dict__.get("__doc__") if isinstance(found, type) else found.__doc__
            assert own, name
            assert not own.startswith(f"{name}("), f"{name} has only the docstring that dataclass writes"
            assert found.__module__.startswith("fedparity."), name
        else:
            assert found, name


def test_nothing_else_looks_public():
    loose = {n for n, v in vars(fedparity).items() if not n.startswith("_") and not hasattr(v, "__path__")}
    modules = {n for n in loose if type(getattr(fedparity, n)).__name__ == "module"}
    assert loose - modules == set(EXPORTED)


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert fedparity.__version__ == version("fedparity")


def test_the_api_page_lists_exactly_what_is_exported():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, flags=re.MULTILINE))
    assert list(listed) == fedparity.__all__
    for name in fedparity.__all__:
        thing = getattr(fedparity, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert listed[name] == inspect.getdoc(thing).split("\n")[0]
