"""Imports point one way, and `import fedparity` stays light."""

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "fedparity"
CORE = (
    "errors", "checks", "rng", "types", "ledger", "trace", "described", "registry", "protocols", "system", "files",
    "journal", "rows", "shapley", "spill", "imports", "reprs", "selection", "tree", "marks", "grow", "safe_pickle",
    "state", "credit",
)  # fmt: skip
"""Modules of `core` on which everything stands."""
ROUND = ("core.gate", "core.fit", "core.intake", "core.coordinator", "core.loop")
"""Modules of `core` that put components together: they stand above them."""
WHO = (
    "availability", "estimators", "schedulers", "utility", "surrogates", "memory", "weightings", "metrics", "tasks",
    "data", "servers", "models",
)  # fmt: skip
LAYERS = (
    tuple(f"core.{name}" for name in CORE),
    ("core", "local"),
    WHO,
    ("traces",),
    ROUND[:4],
    ROUND[4:],
    ("engines", "store"),
    ("testing",),
    ("experiment",),
    ("audit",),
    ("report",),
    ("paper",),
    ("deploy",),
    ("__init__", "cli"),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
HEAVY = ("torch", "flwr", "matplotlib", "polars", "scipy", "pydantic", "sklearn", "jinja2")
FILES = sorted(SRC.rglob("*.py"))


def part(path):
    """The package of the first level that a file belongs to; of `core` its modules, each by itself."""
    return name_of([*path.relative_to(SRC).parts[:-1], path.stem])


def name_of(names):
    if names[0] == "core":
        return "core" if names[1:] in ([], ["__init__"]) else f"core.{names[1]}"
    return names[0]


def for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk(node):
    """Every node but those that only a type checker sees."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not for_types_only(child):
            yield from walk(child)


def imported(tree):
    """The parts of fedparity that a module imports, anywhere in it."""
    for node in walk(tree):
        if isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            yield from (name_of(found[1:]) for found in names if found[0] == "fedparity" and found[1:])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = (node.module or "").split(".")
            if names == ["fedparity"]:
                yield from (alias.name if alias.name in LEVEL else "__init__" for alias in node.names)
            elif names == ["fedparity", "core"]:
                yield from (f"core.{alias.name}" for alias in node.names)
            elif names[0] == "fedparity":
                yield name_of(names[1:])


def edges(path):
    return set(imported(ast.parse(path.read_text(encoding="utf-8"))))


def test_every_module_has_its_layer():
    assert {part(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path):
    here = part(path)
    for name in edges(path) - {here}:
        assert LEVEL[name] <= LEVEL[here], f"{here} imports {name}, which stands above it"
        if here in WHO:
            assert name not in WHO, f"{here} imports {name}: these packages know nothing of each other"


def test_modules_of_a_layer_do_not_import_in_circles():
    graph = {}
    for path in FILES:
        graph.setdefault(part(path), set()).update(edges(path) - {part(path)})
    done, order = set(), []
    while len(done) < len(graph):
        free = sorted(name for name, needs in graph.items() if name not in done and needs & set(graph) <= done)
        assert free, f"a circle among {sorted(set(graph) - done)}"
        done |= set(free)
        order.append(free)
    assert order[0]
    assert all(set(a).isdisjoint(b) for a, b in pairwise(order))


def test_the_parser_sees_what_it_should():
    tree = ast.parse(
        "import fedparity.core.loop\nfrom fedparity import run, store\nfrom fedparity.core import checks\n"
        "from fedparity.core.gate import Gate\nif TYPE_CHECKING:\n    from fedparity.cli.main import app\n"
        "def f():\n    from fedparity.engines.rollcall import x"
    )
    assert list(imported(tree)) == ["core.loop", "__init__", "store", "core.checks", "core.gate", "engines"]


@pytest.mark.parametrize("module", ["fedparity", "fedparity.cli.main", "fedparity.tasks", "fedparity.models"])
def test_importing_is_light(module):
    code = f"import sys, {module}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_stored_run_is_opened_without_torch(tmp_path):
    """Nor with what made its data: nothing in a `Run` can train."""
    from stored_runs import run_into, spec_of

    folder = tmp_path / "run"
    run_into(folder, spec_of("rounds=2", "population.clients=5", "data.set=digits", methods=["parity"]))
    code = (
        "import sys; sys.modules |= dict.fromkeys(('torch', 'sklearn', 'flwr'))\n"
        f"import fedparity; run = fedparity.Run.open({str(folder)!r}); print(run.table)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "parity" in done.stdout


def test_importing_does_not_look_at_what_is_installed():
    code = (
        "import importlib.metadata as m\n"
        "def found(group):\n"
        "    assert group == 'pydantic', group\n"
        "    return ()\n"
        "m.entry_points = found\n"
        "import fedparity, fedparity.cli.main, fedparity.cli.catalogue\n"
        "fedparity.Coordinator(5, scheduler='parity:target=opportunity', weighting='qfair')"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
