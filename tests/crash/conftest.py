"""Fixtures of the crash laboratory: folders in memory, and every array a file of its own."""

import shutil
import tempfile
from pathlib import Path

import pytest

from fedparity.store import checkpoints

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path():
    folder = tempfile.mkdtemp(prefix="fedparity-crash-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def files_for_all(monkeypatch):
    """What a model of a million numbers would do: every array gets a file, and states are stored by difference."""
    monkeypatch.setattr(checkpoints, "LARGE", 64)
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    monkeypatch.setattr(checkpoints, "SNAPSHOT_EVERY", 3)
