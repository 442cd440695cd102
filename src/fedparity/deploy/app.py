"""The files of a Flower app, as they lie in `templates`: nothing is filled in, so what is tested is what is written."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fedparity.core.errors import ConfigError, OutputError
from fedparity.core.files import write_text

NAMES = {"server.py.txt": "server.py", "client.py.txt": "client.py", "gitignore": ".gitignore"}
NAMES |= {"dockerignore": ".dockerignore"}
"""Templates that are called otherwise where they are written."""


def app_files() -> dict[str, str]:
    """Name and text of every file of an app."""
    found = (resources.files("fedparity.deploy") / "templates").iterdir()
    return {NAMES.get(one.name, one.name): one.read_text(encoding="utf-8") for one in found if one.is_file()}


def write_app(folder: str | Path) -> list[Path]:
    """Write an app into a folder that is new or empty; the files, sorted."""
    target = Path(folder)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ConfigError(f"{target} is there and not an empty folder; give another name")
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target}: cannot be made ({error.strerror}); choose a folder you may write to") from error
    files = {target / name: text for name, text in sorted(app_files().items())}
    for path, text in files.items():
        write_text(path, text)
    return list(files)
