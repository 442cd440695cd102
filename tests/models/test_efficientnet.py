"""EfficientNet-Lite0: the facts of the architecture, and the published weights where they were fetched."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fedparity.core.errors import ConfigError, InputError
from fedparity.data import weights_path
from fedparity.models import MODELS
from fedparity.models.chain import prefix_of
from fedparity.models.efficientnet_lite import published
from fedparity.models.extract import BATCH, Enlarge, Extractor, efficientnet_features
from fedparity.models.inverted import InvertedBlock, SameConv2d
from fedparity.models.weights import load_weights
from fedparity.tasks.flat import pieces

LITE = MODELS.build("efficientnet_lite0")


@pytest.fixture(scope="module")
def lite():
    return LITE.build((3, 96, 96), 1000).eval()


@pytest.fixture(scope="module")
def own_weights(tmp_path_factory, lite):
    """A file in the published naming, without training."""
    path = tmp_path_factory.mktemp("weights") / "lite0.safetensors"
    names = {"blocks": "_blocks"}
    save_file({".".join(names.get(p, p if p.isdigit() or p in LAST else f"_{p}") for p in n.split(".")): t
               for n, t in lite.state_dict().items()}, path)  # fmt: skip
    return path


LAST = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}


def fetched():
    """The published weights, if somebody fetched them."""
    try:
        return weights_path("efficientnet_lite0")
    except InputError:
        pytest.skip("the published weights are not in the cache; run: fedparity data fetch efficientnet_lite0")


def test_the_architecture(lite):
    assert sum(p.numel() for p in lite.parameters()) == 4_652_008
    assert len(lite.state_dict()) == 296
    assert len(lite.get_submodule("blocks")) == 16
    norms = [m for m in lite.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert {(m.eps, m.momentum) for m in norms} == {(1e-3, 0.01)}
    assert len(norms) == 49
    assert sum(m.adds for m in lite.modules() if isinstance(m, InvertedBlock)) == 9
    assert len(pieces(lite)) == 296 - 49


def test_features_are_what_the_last_layer_sees(lite):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 96, 96)).astype(np.float32))
    with torch.no_grad():
        found = lite.features(x)
        assert found.shape == (2, 1280)
        prefix, rest = prefix_of(lite, ["fc"])
        assert torch.equal(prefix(x), found)
        assert torch.equal(rest(found), lite(x))


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (1, 1)])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9])
def test_padding_is_that_of_tensorflow(kernel, stride, size):
    conv = SameConv2d(1, 1, kernel, stride)
    with torch.no_grad():
        conv.weight.fill_(1)
        found = conv(torch.ones(1, 1, size, size))[0, 0]
    out = -(-size // stride)
    padding = max((out - 1) * stride + kernel - size, 0)
    first = [i * stride - padding // 2 for i in range(out)]
    held = torch.tensor([sum(0 <= at + k < size for k in range(kernel)) for at in first], dtype=torch.float32)
    assert torch.equal(found, held[:, None] * held[None])


def test_published_names():
    assert published("_blocks.0._bn1.running_mean") == "blocks.0.bn1.running_mean"
    assert published("_conv_stem.weight") == "conv_stem.weight"


def test_other_images():
    with torch.no_grad():
        assert LITE.build((1, 32, 32), 10).eval()(torch.zeros(1, 1, 33, 45)).shape == (1, 10)
    with pytest.raises(ConfigError, match="for efficientnet_lite0"):
        LITE.build((784,), 10)


# The extractor.


def test_an_image_has_the_same_bits_in_any_company(own_weights):
    images = np.random.default_rng(1).integers(0, 256, (2 * BATCH + 3, 8, 8, 3), dtype=np.uint8)
    extract = efficientnet_features(own_weights, 32, workers=1)
    threads = torch.get_num_threads()
    found = extract(images)
    assert found.shape == (len(images), 1280)
    assert found.dtype == np.float32
    assert torch.get_num_threads() == threads
    order = np.random.default_rng(2).permutation(len(images))
    assert np.array_equal(efficientnet_features(own_weights, 32, workers=2)(images[order]), found[order])
    assert np.array_equal(extract(images[5:6]), found[5:6])
    assert extract(images[:0]).shape == (0, 1280)


def test_grey_images_are_colour_images_of_equal_channels(own_weights):
    extract = efficientnet_features(own_weights, 32, workers=1)
    grey = np.random.default_rng(1).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    found = extract(grey)
    assert np.array_equal(extract(grey[..., None]), found)
    assert np.array_equal(extract(np.repeat(grey[..., None], 3, axis=3)), found)


def test_the_extractor_is_the_network_on_enlarged_pixels(own_weights, lite):
    images = np.random.default_rng(1).integers(0, 17, (BATCH, 8, 8, 3), dtype=np.uint8)
    found = efficientnet_features(own_weights, 32, peak=16, workers=1)(images)
    x = torch.from_numpy(images).permute(0, 3, 1, 2) * (255 / 16)
    x = torch.nn.functional.interpolate((x - 127) / 128, (32, 32), mode="bilinear")
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), lite.features(x), rtol=1e-4, atol=1e-4)


def test_what_decides_about_the_numbers_is_in_the_digest(own_weights):
    digests = {efficientnet_features(own_weights, *given).digest for given in ((32,), (64,), (32, 16))}
    assert len(digests) == 3
    assert efficientnet_features(own_weights, 32, workers=1).digest in digests


def test_enlarging_and_averaging_down():
    x = torch.arange(64, dtype=torch.float32).reshape(1, 1, 8, 8)
    assert Enlarge(16)(x).shape == (1, 1, 16, 16)
    assert float(Enlarge(2)(x).mean()) == pytest.approx(31.5)
    assert torch.equal(Enlarge(8)(x), x)


@pytest.mark.parametrize(
    "images",
    [np.zeros((2, 8, 8), np.float32), np.zeros((2, 8, 8, 2), np.uint8), np.zeros((8, 8), np.uint8)],
)
def test_images_that_are_no_images(own_weights, images):
    with pytest.raises(ConfigError, match="give uint8 of shape N x H x W"):
        efficientnet_features(own_weights, 32)(images)


def test_numbers_that_do_not_fit(own_weights):
    with pytest.raises(ConfigError, match="size=31 must be a whole number of at least 32"):
        efficientnet_features(own_weights, 31)
    with pytest.raises(ConfigError, match="workers=0 must be"):
        Extractor(torch.nn.Identity(), 3, "d", 0)


# With the published weights.


def test_the_published_weights_load_directly():
    path = fetched()
    module = LITE.build((3, 96, 96), 1000)
    assert len(load_weights(module, path, published)["loaded"]) == 296
    head = LITE.build((3, 96, 96), 10)
    assert len(load_weights(head, path, published, head="skip")["skipped"]) == 2


def test_the_published_weights_give_the_figures_of_the_reference():
    """Of `efficientnet_lite_pytorch` 0.1.0 under torch 2.13, on a fixed image."""
    module = LITE.build((3, 96, 96), 1000).eval()
    load_weights(module, fetched(), published)
    x = torch.linspace(-1, 1, 3 * 96 * 96).reshape(1, 3, 96, 96).sin()
    with torch.no_grad():
        logits = module(x)[0]
    assert int(logits.argmax()) == 782
    expected = torch.tensor([0.0648894, 0.2998202, 0.9021879, 0.8315135, 1.1437275])
    torch.testing.assert_close(logits[:5], expected, rtol=0, atol=1e-4)
