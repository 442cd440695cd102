"""A trained vector as a file under the names of its module, and back to the bit."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.experiment.model_file import load_model, save_model
from fedparity.experiment.own import torch_task
from fedparity.tasks import Quadratic
from fedparity.tasks.flat import vector_of

X, Y = np.random.default_rng(0).normal(size=(40, 1, 6, 6)).astype(np.float32), np.arange(40) % 4


def module():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4))


@pytest.mark.parametrize("make", [module, lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 4))])
def test_a_vector_becomes_a_state_dict_and_back(tmp_path, make):
    task, path = torch_task(make(), X, Y, clients=4), tmp_path / "m.safetensors"
    trained = np.random.default_rng(1).normal(size=len(vector_of(make()))).astype(np.float32)
    save_model(path, task, trained)
    assert set(load_file(path)) == set(make().state_dict())
    assert load_model(path, task).tobytes() == trained.tobytes()
    other = make()
    assert load_model(path, other).tobytes() == vector_of(other).tobytes() == trained.tobytes()
    other.load_state_dict(load_file(path))  # as PyTorch reads it
    save_model(tmp_path / "again.safetensors", other)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_layers_that_share_their_weights(tmp_path):
    both, path = nn.Linear(3, 3), tmp_path / "m.safetensors"
    twice = nn.Sequential(both, nn.ReLU(), both)
    save_model(path, twice, np.arange(12, dtype=np.float32))
    found = load_file(path)
    assert torch.equal(found["0.weight"], found["2.weight"])
    assert load_model(path, twice).tolist() == list(range(12))


def test_refusals(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(ConfigError, match="params has 3 entries but the model has"):
        save_model(path, module(), np.zeros(3, np.float32))
    with pytest.raises(ConfigError, match="Quadratic has no PyTorch module"):
        save_model(path, Quadratic.random(3))
    with pytest.raises(OutputError, match="cannot be written"):
        save_model(tmp_path / "no" / "m.safetensors", module())
    save_model(path, nn.Linear(2, 2))
    with pytest.raises(InputError, match="no tensor"):
        load_model(path, module())
