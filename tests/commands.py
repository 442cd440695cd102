"""The command line without a process: starting Python and importing PyTorch costs more than most commands do."""

from __future__ import annotations

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest import mock

import pytest

from fedparity.cli.main import main


def command(*words, cwd=".", columns=80):
    """Run `fedparity WORDS` in a folder, within this process: exit code, stdout and stderr as of a process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        mock.patch.object(sys, "argv", ["fedparity", *map(str, words)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return CompletedProcess(words, ended.value.code, out.getvalue(), err.getvalue())
