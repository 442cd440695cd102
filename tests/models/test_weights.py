"""Weights from a file: all of them or none, and an error that names the first tensor that does not fit."""

import hashlib
import io
import json
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file

from fedparity.core.errors import ConfigError, FedparityError, InputError
from fedparity.models import MODELS
from fedparity.models.weights import load_weights

SHAPE = (1, 4, 4)


def mlp(classes=3):
    return MODELS.build("mlp:hidden=5").build(SHAPE, classes)


def moved(module):
    """Other values in every tensor."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator))
            else:
                tensor.fill_(7)
    return module


def write(tmp_path, tensors, name="weights.safetensors"):
    save_file(tensors, tmp_path / name)
    return tmp_path / name


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.parametrize("text", ["mlp:hidden=5", "resnet18:norm=batch", "resnet18:norm=group,stem=imagenet"])
def test_there_and_back(tmp_path, text):
    model = MODELS.build(text)
    source, target = moved(model.build((3, 8, 8), 4)), model.build((3, 8, 8), 4)
    path = write(tmp_path, source.state_dict())
    assert not equal(source, target)
    told = load_weights(target, path)
    assert equal(source, target)
    assert told["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert told["file"] == str(path)
    assert sorted(told["loaded"]) == sorted(source.state_dict())
    assert told["skipped"] == []
    if "batch" in text:
        assert int(target.get_buffer("bn1.num_batches_tracked")) == 7
        assert float(target.get_buffer("bn1.running_var").max()) < 1


def test_old_files_do_not_count_batches(tmp_path):
    model = MODELS.build("resnet18:norm=batch")
    source = moved(model.build((3, 8, 8), 4)).state_dict()
    path = write(tmp_path, {k: v for k, v in source.items() if not k.endswith("num_batches_tracked")})
    target = model.build((3, 8, 8), 4)
    assert len(load_weights(target, path)["loaded"]) == 102
    assert int(target.get_buffer("bn1.num_batches_tracked")) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_rounded(tmp_path, dtype):
    source = {k: v.to(dtype) for k, v in moved(mlp()).state_dict().items()}
    target = mlp()
    load_weights(target, write(tmp_path, source))
    assert all(torch.equal(v, source[k].float()) for k, v in target.state_dict().items())


@pytest.mark.parametrize("keymap", [{"module.": ""}, lambda name: name.removeprefix("module.")])
def test_key_maps(tmp_path, keymap):
    source, target = moved(mlp()), mlp()
    load_weights(target, write(tmp_path, {f"module.{k}": v for k, v in source.state_dict().items()}), keymap)
    assert equal(source, target)


def test_a_key_map_of_whole_names_and_beginnings(tmp_path):
    source, target = moved(mlp()), mlp()
    tensors = source.state_dict()
    tensors = {"in.weight": tensors["fc1.weight"], "odd": tensors["fc1.bias"], "fc2.weight": tensors["fc2.weight"],
               "out.bias": tensors["fc2.bias"]}  # fmt: skip
    load_weights(target, write(tmp_path, tensors), {"in.": "fc1.", "odd": "fc1.bias", "out.": "fc2."})
    assert equal(source, target)


def test_two_names_that_become_one(tmp_path):
    path = write(tmp_path, {"a.fc.weight": torch.zeros(2), "b.fc.weight": torch.zeros(2)})
    with pytest.raises(ConfigError, match=r"turns 'a\.fc\.weight' and 'b\.fc\.weight' into 'fc\.weight'"):
        load_weights(mlp(), path, {"a.": "", "b.": ""})


def test_a_head_of_other_classes(tmp_path):
    path = write(tmp_path, moved(mlp(1000)).state_dict())
    target, fresh = mlp(3), mlp(3)
    said = r"fc2\.weight has shape \(1000, 5\) in the file and \(3, 5\) in the model; pass head=skip"
    with pytest.raises(InputError, match=said):
        load_weights(target, path)
    assert equal(target, fresh)
    told = load_weights(target, path, head="skip")
    assert sorted(told["loaded"]) == ["fc1.bias", "fc1.weight"]
    assert sorted(told["skipped"]) == ["fc2.bias", "fc2.weight"]
    assert torch.equal(target.get_parameter("fc2.weight"), fresh.get_parameter("fc2.weight"))
    assert not torch.equal(target.get_parameter("fc1.weight"), fresh.get_parameter("fc1.weight"))


def test_a_file_without_a_head(tmp_path):
    tensors = {k: v for k, v in moved(mlp()).state_dict().items() if k.startswith("fc1")}
    path = write(tmp_path, tensors)
    with pytest.raises(InputError, match=r"no tensor 'fc2\.weight', which the model has"):
        load_weights(mlp(), path)
    assert load_weights(mlp(), path, head="skip")["skipped"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fc1.weight": torch.zeros(5, 9)}, r"fc1\.weight has shape \(5, 9\) .* \(5, 16\) in the model; build"),
        ({"fc1.bias": torch.zeros(5, dtype=torch.int64)}, r"fc1\.bias has type int64, one of float32, float16"),
        ({"fc1.bias": torch.zeros(5, dtype=torch.complex64)}, r"fc1\.bias has type complex64"),
        ({"fc1.bias": torch.zeros(5, dtype=torch.float8_e5m2)}, r"fc1\.bias has type float8_e5m2"),
        ({"fc2.bias": torch.tensor([0.0, float("nan"), 0.0])}, r"fc2\.bias holds numbers that are not finite"),
        ({"fc2.bias": torch.tensor([0.0, 1e300, 0.0], dtype=torch.float64)}, r"fc2\.bias holds numbers that are not"),
        ({"fc3.bias": torch.zeros(2)}, r"has a tensor 'fc3\.bias', which the model has not; build the model it is of"),
        ({"bn1.running_mean": torch.zeros(2)}, r"'bn1\.running_mean', which the model has not; build .* norm=batch"),
    ],
)  # fmt: skip
def test_the_first_tensor_that_does_not_fit(tmp_path, change, said):
    target = mlp()
    path = write(tmp_path, {**moved(mlp()).state_dict(), **change})
    with pytest.raises(InputError, match=said):
        load_weights(target, path)
    assert equal(target, mlp())


def test_the_first_is_the_first_in_the_model(tmp_path):
    tensors = {k: torch.zeros(1) for k in reversed(mlp().state_dict())}
    with pytest.raises(InputError, match=r"fc1\.weight has shape \(1,\)"):
        load_weights(mlp(), write(tmp_path, tensors))


def test_names_with_a_beginning_are_recognised(tmp_path):
    path = write(tmp_path, {f"module.{k}": v for k, v in mlp().state_dict().items()})
    with pytest.raises(InputError, match=r"the file has 'module\.fc1\.weight'; pass keymap=\{'module\.': ''\}"):
        load_weights(mlp(), path)
    with pytest.raises(InputError, match=r"no tensor 'fc1\.weight', which the model has; the file is empty"):
        load_weights(mlp(), write(tmp_path, {}))
    with pytest.raises(InputError, match="the file begins with 'other'"):
        load_weights(mlp(), write(tmp_path, {"other": torch.zeros(1)}))


def test_another_head_rule():
    with pytest.raises(ConfigError, match="head='loose' must be strict or skip"):
        load_weights(mlp(), "nowhere", head="loose")


# Files that are something else.


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: cannot be read \(No such file or directory\); check the path"):
        load_weights(mlp(), tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be read"):
        load_weights(mlp(), tmp_path)


def header(entries, data=b"", pad=0):
    text = json.dumps(entries).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        bytes(100),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9) + b"{}",
        header([]),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
        header({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 4]}}, bytes(4)),
        header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
        header({"a": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(3)),
        header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(5)),
        header({"a": {"dtype": "F4", "shape": [8], "data_offsets": [0, 4]}}, bytes(4)),
        struct.pack("<Q", 60_000) + b"[" * 60_000,
    ],
)
def test_files_that_are_not_whole(tmp_path, data):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"weights\.safetensors: (not a whole safetensors file|no tensor)"):
        load_weights(mlp(), path)


@pytest.mark.parametrize("old", [False, True])
def test_a_pickle_is_named_and_not_opened(tmp_path, old):
    data = io.BytesIO()
    torch.save(mlp().state_dict(), data, _use_new_zipfile_serialization=not old)
    path = tmp_path / "weights.pth"
    path.write_bytes(data.getvalue())
    with pytest.raises(InputError, match=r"a PyTorch pickle, which could run code.*convert it with safetensors"):
        load_weights(mlp(), path)


def test_damaged_files_end_in_typed_errors_alone(tmp_path):
    whole = save(moved(mlp()).state_dict())
    path = tmp_path / "weights.safetensors"
    rng = np.random.default_rng(0)
    length = 8 + struct.unpack("<Q", whole[:8])[0]
    fine = 0
    for i in range(600):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, length if i % 3 else len(data)))
            kind = int(rng.integers(0, 4))
            if kind == 0:
                data[at] = int(rng.integers(0, 256))
            elif kind == 1:
                data[at] = int(rng.choice(list(b'0123456789[]{}",:-FIBU')))
            elif kind == 2:
                del data[at : at + int(rng.integers(1, 9))]
            else:
                data[at:at] = data[at : at + int(rng.integers(1, 9))]
            if len(data) < length:
                break
        path.write_bytes(data)
        target = mlp()
        try:
            load_weights(target, path)
            fine += 1
        except FedparityError as error:
            told = str(error)
            assert equal(target, mlp())
            assert str(path) in told
            assert "\n" not in told
    assert fine < 300
