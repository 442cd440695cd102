"""`fedparity watch`: the terminal, scripts, and what is refused."""

import json
import re
import subprocess
import sys

import pytest

from fedparity.cli import main
from stored_runs import run_into, spec_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    run_into(path, spec_of("rounds=6", methods=("parity", "uniform")))
    return path


def call(capsys, monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["fedparity", "watch", *map(str, args)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_once_says_it_in_a_sentence_and_a_table(folder, capsys, monkeypatch):
    code, out, err = call(capsys, monkeypatch, folder, "--once")
    assert (code, err) == (0, "")
    assert out.startswith("Round 6 of 6. ")
    assert "is ours" in out
    assert {"parity", "uniform"} <= set(out.split())


def test_once_as_json(folder, capsys, monkeypatch):
    code, out, _ = call(capsys, monkeypatch, folder, "--once", "--json", "--method", "uniform")
    now = json.loads(out)
    assert code == 0
    assert (now["state"], now["rounds"], now["method"], now["eta_seconds"]) == ("finished", 6, "uniform", None)
    for one in now["methods"]:
        assert one["gini_limit"] + one["gini_avoidable"] == pytest.approx(one["gini"])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--once", "--method", "nobody"], "method='nobody' is not in this run; it has parity, uniform"),
        (["--once", "--seed", "7"], "seed=7 is not in"),
        (["--json"], "--json prints what there is now; add --once"),
    ],
)
def test_what_is_refused_is_one_line(folder, capsys, monkeypatch, args, says):
    code, out, err = call(capsys, monkeypatch, folder, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_a_folder_without_a_run_is_one_line(tmp_path, capsys, monkeypatch):
    code, out, err = call(capsys, monkeypatch, tmp_path, "--once")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no run here" in err


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_the_fix_is_said(folder, capsys, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = call(capsys, monkeypatch, folder)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'fedparity[watch]'" in err


def test_a_port_in_use_is_one_line(folder, capsys, monkeypatch):
    pytest.importorskip("uvicorn")
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr("os.nice", lambda _: 0)
        code, out, err = call(capsys, monkeypatch, folder, "--port", taken.getsockname()[1])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be used" in err


def test_the_first_line_is_the_address_and_stopping_is_quiet(folder):
    pytest.importorskip("uvicorn")
    import signal
    import urllib.error
    import urllib.request

    with subprocess.Popen(
        [sys.executable, "-m", "fedparity", "watch", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as served:
        try:
            address = served.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address) as answer:
                assert re.search(r"Round \d of 6\.", answer.read().decode())
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(address + "x")
            news = urllib.request.urlopen(address.replace("/?", "/events?"))
            assert news.readline().startswith(b"data: ")
            served.send_signal(signal.SIGINT)
            out, err = served.communicate()
        finally:
            served.kill()
    assert (served.returncode, out, err) == (0, "", "")
