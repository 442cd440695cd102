"""Shared by all tests: no time limits (no test asserts a time), the same examples in CI, the command line."""

import functools
import os
import signal
import sys

import pytest
import typer.main
from hypothesis import settings

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # for tables of few rows more threads cost more than they save
# Most properties run once per component: fifty examples of each are hundreds of the property.
settings.register_profile("fedparity", deadline=None, max_examples=50, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fedparity")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs; tests send it to children
    signal.signal(signal.SIGINT, signal.default_int_handler)
typer.main.get_command = functools.cache(typer.main.get_command)  # 40 ms for every command that a test runs


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
