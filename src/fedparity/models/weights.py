"""Weights from a file into a module: safetensors alone, which hold numbers and nothing that could run.

Names are torchvision's unless a key map says otherwise:

    {"module.": ""}             names that begin so (a key that ends in a dot) lose it, or get another beginning
    {"classifier.bias": "fc.bias"}      this one name
    str.lower                   any function of the name

Everything a state dict keeps is loaded: parameters, and of batch norm running_mean, running_var and
num_batches_tracked; the last may be missing, as it is in old files. Numbers are rounded to the module's type. Either
all of it is loaded or, with an error that names the first tensor that does not fit, none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from fedparity.core.errors import ConfigError, InputError

Keymap: TypeAlias = Mapping[str, str] | Callable[[str], str]

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
WHOLE = (torch.int64, torch.int32)


def load_weights(
    module: nn.Module,
    path: str | os.PathLike[str],
    keymap: Keymap | None = None,
    head: Literal["strict", "skip"] = "strict",
) -> dict[str, Any]:
    """Fill `module` from a file; with `head="skip"` its last layer stays as it is, whatever the file has there.

    Gives the `file`, its `sha256`, the names `loaded` and the names `skipped`.
    """
    if head not in {"strict", "skip"}:
        raise ConfigError(f"head={head!r} must be strict or skip")
    data = _read(Path(path))
    tensors = _renamed(_parse(data, path), keymap, path)
    last = _last_layer(module)
    skipped = [name for name in tensors if head == "skip" and name.startswith(last)]
    found = {name: t for name, t in tensors.items() if name not in skipped}
    wanted = {name: t for name, t in module.state_dict().items() if head == "strict" or not name.startswith(last)}
    _compare(wanted, found, path, last)
    with torch.no_grad():
        for name, tensor in found.items():
            wanted[name].copy_(tensor)
    digest = hashlib.sha256(data).hexdigest()
    return {"file": str(path), "sha256": digest, "loaded": list(found), "skipped": skipped}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except MemoryError as error:
        raise InputError(f"{path}: too large for this machine's memory; check the path") from error


def _parse(data: bytes, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    try:
        return dict(sorted(load(data).items()))  # safetensors gives them in any order
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, AssertionError, OverflowError) as error:
        # What the header promises is checked by safetensors; types it knows but torch does not end as KeyError, ...
        fix = "convert it with safetensors.torch.save_file"
        if data[:2] in {b"PK", b"\x80\x02"}:
            raise InputError(f"{path}: a PyTorch pickle, which could run code, no safetensors file; {fix}") from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: not a whole safetensors file ({reason}); fetch it again, or {fix}") from error


def _renamed(tensors: Mapping[str, Tensor], keymap: Keymap | None, path: object) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for old, tensor in tensors.items():
        new = old if keymap is None else _rename(old, keymap)
        if new in found:
            raise ConfigError(f"{path}: the key map turns {origin[new]!r} and {old!r} into {new!r}; keep them apart")
        found[new], origin[new] = tensor, old
    return found


def _rename(name: str, keymap: Keymap) -> str:
    if not isinstance(keymap, Mapping):
        return keymap(name)
    if name in keymap:
        return keymap[name]
    for old, new in keymap.items():
        if old.endswith(".") and name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _last_layer(module: nn.Module) -> str:
    """The name of the layer that gives the logits, with a dot."""
    names = [name for name, _ in module.named_parameters()]
    return names[-1].rpartition(".")[0] + "." if names else ""


def _compare(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: object, head: str) -> None:
    """Refuse the first tensor that does not fit, in the module's order, then by name."""
    for name, own in wanted.items():
        if name in found:
            fix = "pass head=skip" if name.startswith(head) else "build the model it is of"
            _check(name, found[name], own, path, fix)
        elif own.is_floating_point():
            raise _missing(name, found, path)
    for name in found:
        if name not in wanted:
            fix = "build the model with norm=batch" if ".running_" in f".{name}" else "build the model it is of"
            raise InputError(f"{path}: has a tensor {name!r}, which the model has not; {fix}")


def _check(name: str, tensor: Tensor, own: Tensor, path: object, fix: str) -> None:
    if tensor.shape != own.shape:
        shapes = f"shape {tuple(tensor.shape)} in the file and {tuple(own.shape)} in the model"
        raise InputError(f"{path}: {name} has {shapes}; {fix}")
    kinds = FLOATS if own.is_floating_point() else WHOLE
    if tensor.dtype not in kinds:
        types = ", ".join(map(_word, kinds))
        raise InputError(f"{path}: {name} has type {_word(tensor.dtype)}, one of {types} expected; convert the file")
    if own.is_floating_point() and not bool(tensor.to(own.dtype).isfinite().all()):
        raise InputError(f"{path}: {name} holds numbers that are not finite; fetch the file again")


def _missing(name: str, found: Mapping[str, Tensor], path: object) -> InputError:
    near = next(
        (
            f"; the file has {key!r}; pass keymap={{{key.removesuffix(name)!r}: ''}}"
            for key in found
            if key.endswith("." + name)
        ),
        f"; the file begins with {next(iter(found))!r}" if found else "; the file is empty",
    )
    return InputError(f"{path}: no tensor {name!r}, which the model has{near}")


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
