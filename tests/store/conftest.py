"""Fixtures of the store's tests. Their folders are in memory where possible: thousands of fsyncs would take minutes."""

import shutil
import tempfile
from pathlib import Path

import pytest

from fedparity.store import checkpoints

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path():
    folder = tempfile.mkdtemp(prefix="fedparity-tests-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def files_for_all(monkeypatch):
    """Every array gets a file, and states are stored by difference: what a model of a million numbers would do."""
    monkeypatch.setattr(checkpoints, "LARGE", 16)
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    monkeypatch.setattr(checkpoints, "SNAPSHOT_EVERY", 3)
