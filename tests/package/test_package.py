"""The built wheel and sdist (`make package`): all of the package is in them, and they work where no checkout is."""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

import fedparity

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
NAME = f"fedparity-{fedparity.__version__}"
WHEEL, SDIST = DIST / f"{NAME}-py3-none-any.whl", DIST / f"{NAME}.tar.gz"
RUN = ("fedparity", "demo", "--set", "rounds=6", "--set", "seeds=1", "--out", "tried")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DIST.exists(), reason="nothing is built (make package)"),
]


def sources():
    """The files of the package, as the checkout has them."""
    found = (path for path in (ROOT / "src" / "fedparity").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT / "src").as_posix() for path in found}


@pytest.fixture(scope="module")
def fresh():
    """A venv with the wheel and what it needs, and a folder that is not the checkout; `call` runs a command there."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "elsewhere"
        folder.mkdir()
        scripts = Path(place) / "venv" / "bin"
        clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}

        def call(command, *words):
            done = subprocess.run(
                [scripts / command, *words], cwd=folder, env=clean, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        subprocess.run([sys.executable, "-m", "venv", scripts.parent], check=True)
        call("pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{WHEEL}[torch,report]")
        yield folder, call


def test_the_wheel_has_the_package_and_nothing_else():
    with zipfile.ZipFile(WHEEL) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    assert names == sources()


def test_the_sdist_has_the_package_its_tests_and_its_pages():
    with tarfile.open(SDIST) as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    here = [path for folder in ("docs", "examples", "tests") for path in (ROOT / folder).rglob("*")]
    pages = {path.relative_to(ROOT).as_posix() for path in here if path.suffix in {".py", ".md", ".png", ".json"}}
    top = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "constraints.txt", "Makefile"}
    assert {name.removeprefix("src/") for name in names if name.startswith("src/fedparity/")} == sources()
    assert not (pages | top) - names
    assert not {name for name in names if name.endswith(".pyc")}


def test_the_wheel_runs_the_demo_from_another_folder(fresh):
    folder, call = fresh
    where = call("python", "-c", "import fedparity; print(fedparity.__file__)")
    assert "site-packages" in where
    call(*RUN)
    page = (folder / "tried" / "report.html").read_text(encoding="utf-8")
    assert "<style>" in page, "the template and its style sheet are in the wheel"
    assert page.rstrip().endswith("</html>")
    call("fedparity", "init", "my.toml")
    call("fedparity", "verify", "tried")


def test_the_sdist_installs_too(fresh):
    _, call = fresh
    call("pip", "install", "--quiet", "--no-deps", "--force-reinstall", SDIST)
    assert call("fedparity", "--version") == f"fedparity {fedparity.__version__}\n"
