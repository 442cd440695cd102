"""Fixtures of the store's tests. Their folders are in memory where possible: thousands of fsyncs would take minutes."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from fedparity.store import store as store_module

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path():
    folder = tempfile.mkdtemp(prefix="fedparity-tests-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def files_for_all(monkeypatch):
    """Every array gets a file, and states are stored by difference: what a model of a million numbers would do."""
    monkeypatch.setattr(store_module, "LARGE", 16)
    monkeypatch.setattr(store_module, "SMALL_STATE", 0)
    monkeypatch.setattr(store_module, "SNAPSHOT_EVERY", 3)


@pytest.fixture
def fedparity(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder: exit code, stdout, stderr."""
    from fedparity.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fedparity", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return call
