"""Shared by all tests: no time limits (no test asserts a time), the same examples in CI, the command line."""

import os
import signal
import sys

import pytest
from hypothesis import settings

settings.register_profile("fedparity", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fedparity")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs; tests send it to children
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fedparity(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder: exit code, stdout, stderr."""
    from fedparity.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fedparity", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return call
