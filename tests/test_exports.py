"""The names people may rely on: adding or dropping one is a decision, made here."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedparity

DOCS = Path(__file__).parents[1] / "docs"
EXPORTED = [
    "AVAILABILITY",
    "ESTIMATORS",
    "EXTRACTORS",
    "LOCALS",
    "MEASURES",
    "MEMORIES",
    "METHODS",
    "MODELS",
    "PARTITIONS",
    "RATE_SCHEDULES",
    "SCHEDULERS",
    "SERVERS",
    "SPEEDS",
    "SURROGATES",
    "UTILITIES",
    "WEIGHTINGS",
    "Availability",
    "Callbacks",
    "ClientFrame",
    "ClientReport",
    "Cohort",
    "ConfigError",
    "Coordinator",
    "Descent",
    "Engine",
    "Estimator",
    "Evals",
    "FedparityError",
    "Feedback",
    "Frontier",
    "Gains",
    "Gate",
    "InProcess",
    "InputError",
    "Intermittent",
    "Job",
    "Journal",
    "Ledger",
    "Local",
    "Memory",
    "MetricsLog",
    "NoTraining",
    "Observer",
    "OutputError",
    "Quadratic",
    "RoundError",
    "RoundPlan",
    "RoundRecord",
    "RoundView",
    "Rows",
    "Run",
    "Samples",
    "Schedule",
    "Scheduler",
    "Server",
    "Setting",
    "Spec",
    "State",
    "Surrogate",
    "Table",
    "Task",
    "TorchTask",
    "Trace",
    "Training",
    "Utility",
    "Weighting",
    "execute",
    "fractional_frontier",
    "frame_samples",
    "frontier",
    "load_model",
    "load_trace",
    "open_data",
    "own_samples",
    "run",
    "run_side_by_side",
    "save_model",
    "save_trace",
    "schedule",
    "stream",
    "torch_task",
    "weighted_frontier",
    "write_report",
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
    assert {name for name in dir(fedparity) if not name.startswith("_")} == set(EXPORTED)
    with pytest.raises(AttributeError, match=r"no attribute 'paritty'; docs/api.md lists"):
        fedparity.paritty  # noqa: B018 - the look-up is what is tested


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert fedparity.__version__ == version("fedparity")


MODULES = ("fedparity", "fedparity.testing", "fedparity.engines.flower", "fedparity.store")


def test_the_api_page_names_the_public_modules():
    assert re.findall(r"^\| `(fedparity\.[\w.]+)` \|", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE) == [
        *MODULES[1:]
    ]


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_what_docs_import_is_public(page):
    for module in re.findall(r"^(?:from|import) (fedparity[\w.]*)", page.read_text("utf-8"), re.MULTILINE):
        assert module in MODULES


@pytest.mark.parametrize(
    "name", ["Descent", "Feedback", "Gate", "Samples", "MODELS", "PARTITIONS", "SPEEDS", "EXTRACTORS"]
)
def test_what_a_component_of_one_s_own_needs_brings_no_torch(name):
    code = f"import sys; sys.modules['torch'] = None; import fedparity; fedparity.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_api_page_lists_exactly_what_is_exported():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, flags=re.MULTILINE))
    assert list(listed) == fedparity.__all__
    for name in fedparity.__all__:
        thing = getattr(fedparity, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert listed[name] == inspect.getdoc(thing).split("\n")[0]
