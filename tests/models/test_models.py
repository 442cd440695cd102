"""Models: sizes, names, first weights, and cutting off a frozen beginning."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.models import MODELS
from fedparity.models.chain import Chain, chain, prefix_of, trained
from fedparity.models.normalise import Normalise
from fedparity.tasks.flat import Flat, pieces

GRAY, COLOUR = (1, 28, 28), (3, 32, 32)
SIZES = [
    ("logistic", GRAY, 10, 7_850),
    ("mlp", (784,), 10, 199_210),
    ("mlp:hidden=32", (64,), 10, 2_410),
    ("mlp:hidden=8/4/2", (3, 4), 5, 104 + 36 + 10 + 15),
    ("cnn", COLOUR, 10, 878_538),
    ("cnn", GRAY, 10, 582_026),
    ("resnet18", COLOUR, 10, 11_173_962),
    ("resnet18:norm=batch,stem=imagenet", (3, 64, 64), 1000, 11_689_512),
    ("resnet34:norm=batch,stem=imagenet", (3, 64, 64), 1000, 21_797_672),
]
SMALL = [(name, (1, 16, 16) if name == "cnn" else (2, 8, 9)) for name in ("logistic", "mlp", "cnn", "resnet18")]


def images(shape, count=2):
    return torch.from_numpy(np.random.default_rng(0).normal(size=(count, *shape)).astype(np.float32))


@pytest.mark.parametrize(("text", "shape", "classes", "size"), SIZES)
def test_sizes(text, shape, classes, size):
    module = MODELS.build(text).build(shape, classes)
    assert isinstance(module, Chain)
    assert sum(p.numel() for p in module.parameters()) == size
    with torch.no_grad():
        assert module.eval()(images(shape)).shape == (2, classes)


@pytest.mark.parametrize(("name", "shape"), SMALL)
def test_building_is_repeatable_and_leaves_the_generator_alone(name, shape):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (MODELS.build(name).build(shape, 4).state_dict() for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_described(name):
    found = MODELS.describe(name)
    assert found["summary"].endswith(".")
    assert found["reference"] or name == "logistic"


def test_resnets_are_named_as_torchvision_names_them():
    names = list(MODELS.build("resnet18:norm=batch,stem=imagenet").build((3, 32, 32), 1000).state_dict())
    assert len(names) == 122
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert names[:6] == ["conv1.weight", *(f"bn1.{n}" for n in norm)]
    assert names[-2:] == ["fc.weight", "fc.bias"]
    block = [name.removeprefix("layer2.0.") for name in names if name.startswith("layer2.0.")]
    assert block == [
        "conv1.weight", *(f"bn1.{n}" for n in norm), "conv2.weight", *(f"bn2.{n}" for n in norm),
        "downsample.0.weight", *(f"downsample.1.{n}" for n in norm),
    ]  # fmt: skip
    assert not any(name.startswith("layer1.0.downsample") for name in names)
    assert len(MODELS.build("resnet34:norm=batch").build(COLOUR, 10).state_dict()) == 218


def test_group_norm_keeps_the_names():
    group = MODELS.build("resnet18").build(COLOUR, 10)
    batch = MODELS.build("resnet18:norm=batch").build(COLOUR, 10)
    assert [n for n, _ in group.named_parameters()] == [n for n, _ in batch.named_parameters()]
    assert list(group.buffers()) == []
    assert {m.num_groups for m in group.modules() if isinstance(m, nn.GroupNorm)} == {32}


def test_stems():
    x = images((3, 32, 32))
    with torch.no_grad():
        for stem, side in (("cifar", 32), ("imagenet", 8)):
            prefix, _ = prefix_of(MODELS.build(f"resnet18:stem={stem}").build(COLOUR, 10), ["layer1"])
            assert prefix(x).shape == (2, 64, side, side)


@pytest.mark.parametrize(
    ("text", "shape", "classes", "said"),
    [
        ("cnn", (3, 15, 32), 10, "cnn needs images of at least 16 x 16 pixels, these are 15 x 32; use mlp or logistic"),
        ("cnn", (784,), 10, r"shape=\(784,\) must be \(channels, height, width\) for cnn"),
        ("resnet18", (32, 32), 10, r"for resnet18, such as \(1, 28, 28\)"),
        ("logistic", (), 10, r"shape=\(\) must name at least one size"),
        ("mlp", (3, 0), 10, r"a size in shape=\(3, 0\)=0 must be a whole number of at least 1"),
        ("mlp", (3,), 0, "classes=0 must be a whole number of at least 1"),
    ],
)
def test_shapes_that_do_not_fit(text, shape, classes, said):
    with pytest.raises(ConfigError, match=said):
        MODELS.build(text).build(shape, classes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resnet", "did you mean 'resnet"),
        ("mlp:hidden=20/x", "numbers written a/b/c"),
        ("mlp:hidden=20/0", "hidden=0 must be a whole number of at least 1"),
        ("resnet18:norm=layer", "must be group or batch"),
        ("resnet18:stem=large", "must be cifar or imagenet"),
    ],
)
def test_parameters_that_do_not_fit(text, said):
    with pytest.raises(ConfigError, match=said):
        MODELS.build(text)


def test_parameters_that_the_table_did_not_see():
    for given, said in (({"norm": "layer"}, "norm='layer' must be"), ({"stem": "large"}, "stem='large' must be")):
        with pytest.raises(ConfigError, match=said):
            MODELS["resnet18"](**given).build(COLOUR, 10)


# Cutting off a frozen beginning.


@pytest.mark.parametrize(("name", "shape"), [*SMALL, ("resnet18:norm=batch,stem=imagenet", (2, 17, 9))])
def test_every_cut_gives_the_same_bits(name, shape):
    module = MODELS.build(name).build(shape, 4).eval()
    x = images(shape, 3)
    stages = module.stages()
    with torch.no_grad():
        y = module(x)
        for i, (part, stage) in enumerate(stages):
            if any(True for _ in stage.parameters()):
                prefix, rest = prefix_of(module, [part])
                assert [n for n, _ in prefix.stages()] == [n for n, _ in stages[:i]]
                assert rest.stages()[0][0] == part
                assert torch.equal(rest(prefix(x)), y)
    assert [n for n, _ in stages] == [n for n, _ in module.named_children()]


def test_an_empty_prefix_gives_back_what_it_gets():
    module = MODELS.build("cnn").build(COLOUR, 10)
    prefix, rest = prefix_of(module, ["fc2", "conv1"])
    x = images(COLOUR)
    assert prefix.stages() == []
    assert prefix(x) is x
    assert torch.equal(rest(x), module(x))


def test_both_parts_share_the_tensors_of_the_module():
    module = MODELS.build("cnn").build(COLOUR, 10)
    prefix, rest = prefix_of(module, ["fc*"])
    assert [*map(id, prefix.parameters()), *map(id, rest.parameters())] == [*map(id, module.parameters())]
    assert list(rest.state_dict()) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]


@pytest.mark.parametrize(
    ("parts", "first", "count"),
    [
        (["layer4", "fc"], "layer4", 15 + 2),
        (["layer[34]"], "layer3", 30),
        (["layer4.1"], "layer4", 6),
        (["layer4.0.conv1.weight"], "layer4", 1),
        (["fc", "fc.bias"], "fc", 2),
        (["*.bias"], "bn1", 21),
        (["*"], "conv1", 62),
    ],
)
def test_what_a_part_may_be(parts, first, count):
    module = MODELS.build("resnet18").build((3, 8, 8), 10)
    assert prefix_of(module, parts)[1].stages()[0][0] == first
    names = trained(module, parts)
    everything = [n for n, _ in module.named_parameters()]
    assert len(names) == count
    assert sorted(names, key=everything.index) == names


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (["layer5"], "unknown part 'layer5'; did you mean 'layer4'.*known: bn1, conv1, fc, layer1"),
        (["fc", "haed"], "unknown part 'haed'"),
        (["layer4.2"], "unknown part 'layer4.2'; did you mean 'layer4.[01]"),
        (["relu"], "part 'relu' has no parameters to train; known: conv1, bn1"),
        ([], r"trainable=\(\) trains nothing; name a part, such as 'fc'"),
    ],
)
def test_parts_that_are_not_there(parts, said):
    module = MODELS.build("resnet18").build((3, 8, 8), 10)
    with pytest.raises(ConfigError, match=said):
        prefix_of(module, parts)


def test_what_is_no_chain_cannot_be_cut():
    with pytest.raises(ConfigError, match="a Linear is no chain of stages"):
        prefix_of(nn.Linear(2, 2), ["weight"])


def test_pixels_in_front_leave_the_names_as_they_are():
    module = MODELS.build("cnn").build(COLOUR, 10)
    whole = chain(("normalise", Normalise(0.5, 0.25)), *module.stages())
    assert list(whole.state_dict()) == list(module.state_dict())
    assert layout(whole) == layout(module)
    prefix, rest = prefix_of(copy.deepcopy(whole), ["conv1"])
    x = torch.arange(3 * 32 * 32).remainder(256).to(torch.uint8).reshape(1, 3, 32, 32)
    assert [name for name, _ in prefix.stages()] == ["normalise"]
    assert torch.equal(rest(prefix(x)), whole(x))
    torch.testing.assert_close(whole(x), module((x / 255 - 0.5) / 0.25))


# The vector.


def layout(module):
    return [
        (name, tuple(t.shape), "parameter" if isinstance(t, nn.Parameter) else "buffer") for name, t in pieces(module)
    ]


def first_weights(module, rng):
    return Flat(module).init(rng)


def test_parameters_come_first_then_buffers_of_batch_norm():
    module = MODELS.build("resnet18:norm=batch").build(COLOUR, 10)
    found = layout(module)
    kinds = [kind for _, _, kind in found]
    assert kinds == ["parameter"] * 62 + ["buffer"] * 40
    assert [name for name, _, _ in found[:62]] == [name for name, _ in module.named_parameters()]
    assert found[62:64] == [("bn1.running_mean", (64,), "buffer"), ("bn1.running_var", (64,), "buffer")]
    assert all(tuple(module.state_dict()[name].shape) == shape for name, shape, _ in found)
    assert not any("num_batches_tracked" in name for name, _, _ in found)


def test_what_a_state_dict_leaves_out_is_not_shared():
    plain = MODELS.build("logistic").build((3, 2, 2), 4)
    whole = nn.Sequential(Normalise((0.5, 0.4, 0.3), (0.2, 0.2, 0.2)), plain)
    assert [(shape, kind) for _, shape, kind in layout(whole)] == [(s, k) for _, s, k in layout(plain)]
    assert list(whole.state_dict()) == ["1.fc.weight", "1.fc.bias"]


def test_a_tied_tensor_comes_once():
    layer = nn.Linear(3, 3)
    assert len(layout(nn.Sequential(layer, nn.ReLU(), layer))) == 2


@pytest.mark.parametrize("text", ["logistic", "mlp", "cnn", "resnet18", "resnet18:norm=batch"])
def test_first_weights(text):
    module = MODELS.build(text).build((3, 16, 16), 10)
    start = first_weights(module, stream(0, "init"))
    assert np.array_equal(start, first_weights(module, stream(0, "init")))
    assert not np.array_equal(start, first_weights(module, stream(1, "init")))
    assert np.array_equal(start, start.astype(np.float32))
    at = 0
    for name, shape, _ in layout(module):
        part = start[at : at + int(np.prod(shape))]
        at += len(part)
        built = module.state_dict()[name].numpy()
        if "bn" in name or "downsample.1" in name:
            assert np.array_equal(part, built.ravel())
        elif part.size > 1000:  # the spread that torch gives them too
            assert part.std() == pytest.approx(built.std(), rel=0.06)
    assert at == len(start)


# Pixels.


def test_normalising():
    x = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.125)
    found = Normalise(mean, std, 16)(x)
    wide = [torch.tensor(v).view(3, 1, 1) for v in (mean, std)]
    torch.testing.assert_close(found, (x / 16 - wide[0]) / wide[1])
    torch.testing.assert_close(Normalise(0.5, 0.5)(x), x / 127.5 - 1)
    assert Normalise(mean, std).state_dict() == {}
    assert torch.equal(copy.deepcopy(Normalise(mean, std, 16))(x), found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0.5, 0), "std=0.0 must be a finite number above 0"),
        ((float("nan"), 1), "mean=nan must be between"),
        ((0.5, 0.5, 0), "peak=0 must be"),
        (((0.5, 0.5), 0.5), "mean has 2 and std 1 channels"),
    ],
)
def test_normalising_with_numbers_that_do_not_fit(given, said):
    with pytest.raises(ConfigError, match=said):
        Normalise(*given)


def test_normalising_images_of_other_channels():
    with pytest.raises(ConfigError, match=r"images of shape \(2, 4, 4\) must be \(batch, 3, ...\)"):
        Normalise((0.5,) * 3, (0.5,) * 3)(torch.zeros(2, 4, 4))


def test_without_torch_there_is_a_sentence():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from fedparity.models import MODELS\nfrom fedparity.core.errors import ConfigError\n"
        "for name in MODELS:\n"
        "    try:\n        MODELS.build(name).build((3, 32, 32), 10)\n"
        "    except ConfigError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {"models are built with PyTorch; pip install 'fedparity[torch]'"}
    assert len(done.stdout.splitlines()) == len(MODELS)
