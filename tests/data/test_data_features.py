"""Features: every row is computed once, whatever stops or damages a run is mended by the next."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedparity.core.errors import ConfigError, OutputError
from fedparity.data import cache_folder, features
from fedparity.data.features import FeatureCache

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 3, 3), dtype=np.uint8)
WIDTH = 5


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(features, "CHUNK", 4)


def truth(images):
    flat = images.reshape(len(images), -1).astype(np.float32)
    return flat[:, :WIDTH] / 7 + flat.sum(1, keepdims=True)


class Extract:
    """Counts, and can be told to stop."""

    def __init__(self, most=10**9):
        self.seen, self.most = 0, most

    def __call__(self, images):
        if self.seen >= self.most:
            raise KeyboardInterrupt
        self.seen += len(images)
        return truth(images)


def open_cache(extract, images=IMAGES, digest="d"):
    return FeatureCache(images, extract, digest, WIDTH)


def test_rows_are_computed_once():
    extract = Extract()
    cache = open_cache(extract)
    order = [7, 3, 3, 39, 0]
    assert cache.missing(order) == 4
    assert np.array_equal(cache.rows(order), truth(IMAGES[order]))
    assert extract.seen == 4
    assert cache.missing(order) == 0
    assert np.array_equal(cache.rows(order), truth(IMAGES[order]))
    assert extract.seen == 4
    assert np.array_equal(cache.rows(np.arange(10)), truth(IMAGES[:10]))
    assert extract.seen == 4 + 7
    again = Extract()
    assert np.array_equal(open_cache(again).rows(range(10)), truth(IMAGES[:10]))
    assert again.seen == 0


def test_rows_in_order_are_a_map_that_cannot_be_written():
    cache = open_cache(Extract())
    found = cache.rows(range(5, 25))
    assert isinstance(found, np.memmap)
    assert not found.flags.writeable
    assert found.dtype == np.float32
    assert cache.rows([]).shape == (0, WIDTH)
    assert FeatureCache(IMAGES[:0], Extract(), "d", WIDTH).rows([]).shape == (0, WIDTH)


def test_progress_tells_the_missing_rows():
    cache = open_cache(Extract())
    cache.rows(range(3))
    told = []
    cache.rows(range(12), lambda *what: told.append(what))
    assert told == [("computing features", n, 9) for n in (0, 4, 8, 9)]
    told.clear()
    cache.rows(range(12), lambda *what: told.append(what))
    assert told == []


def test_other_images_or_another_extractor_are_another_cache():
    other = IMAGES.copy()
    other[39, 2, 2] ^= 1
    paths = {
        open_cache(Extract()).path,
        open_cache(Extract(), other).path,
        open_cache(Extract(), IMAGES[:39]).path,
        open_cache(Extract(), IMAGES.reshape(40, 9)).path,
        open_cache(Extract(), digest="e").path,
        FeatureCache(IMAGES, Extract(), "d", WIDTH + 1).path,
    }
    assert len(paths) == 6
    assert open_cache(Extract(), np.asfortranarray(IMAGES)).path in paths


def test_an_interrupted_run_goes_on_where_it_was():
    with pytest.raises(KeyboardInterrupt):
        open_cache(Extract(most=12)).rows(range(40))
    extract = Extract()
    assert np.array_equal(open_cache(extract).rows(range(40)), truth(IMAGES))
    assert extract.seen == 40 - 12


def test_rows_are_on_disk_before_their_marks(monkeypatch):
    """At every write the disk may be the last thing that works: nothing marked is wrong."""
    real, writes = os.fsync, []

    def sync(number):
        real(number)
        writes.append(Path(f"/proc/self/fd/{number}").readlink().name)

    monkeypatch.setattr(features.os, "fsync", sync)
    open_cache(Extract()).rows(range(8))
    assert writes == ["features.f32", "marks.u32"] * 2


def start(code):
    """Another process that runs `code` with this module as `t`."""
    code = f"import test_data_features as t\nt.features.CHUNK = 4\n{code}"
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def die_at(write):
    """SIGKILL after so many writes."""
    real, count = os.fsync, iter(range(100))

    def sync(number):
        real(number)
        if next(count) == write:
            os.kill(os.getpid(), signal.SIGKILL)

    features.os.fsync = sync


def test_a_process_killed_between_the_numbers_and_their_marks():
    assert start("t.die_at(4)\nt.open_cache(t.Extract()).rows(range(40))").wait() == -signal.SIGKILL
    extract = Extract()
    assert np.array_equal(open_cache(extract).rows(range(40)), truth(IMAGES))
    assert extract.seen == 40 - 8


def test_a_row_that_went_bad_is_computed_again():
    cache = open_cache(Extract())
    cache.rows(range(40))
    data = bytearray((cache.path / "features.f32").read_bytes())
    data[11 * WIDTH * 4 + 3] ^= 4
    (cache.path / "features.f32").write_bytes(data)
    extract = Extract()
    assert np.array_equal(open_cache(extract).rows(range(40)), truth(IMAGES))
    assert extract.seen == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "features.f32").write_bytes(b""),
        lambda f: (f / "marks.u32").unlink(),
        lambda f: (f / "header.json").write_text("{"),
        lambda f: (f / "header.json").write_text("[" * 100_000),
        lambda f: (f / "header.json").write_bytes(b"\xff"),
    ],
)
def test_a_damaged_folder_is_made_anew(damage):
    cache = open_cache(Extract())
    cache.rows(range(40))
    damage(cache.path)
    extract = Extract()
    again = open_cache(extract)
    assert again.missing(range(40)) == 40
    assert np.array_equal(again.rows(range(40)), truth(IMAGES))
    assert extract.seen == 40
    assert sorted(p.name for p in cache_folder().iterdir()) == ["features"]


def test_random_damage_never_gives_wrong_numbers():
    rng = np.random.default_rng(0)
    open_cache(Extract()).rows(range(40))
    path = open_cache(Extract()).path
    for _ in range(100):
        file = path / str(rng.choice(["features.f32", "marks.u32", "header.json"]))
        data = bytearray(file.read_bytes())
        for _ in range(int(rng.integers(1, 20))):
            data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
        file.write_bytes(data)
        assert np.array_equal(open_cache(Extract()).rows(range(40)), truth(IMAGES))


def test_a_full_disk(monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(features.os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left on device.*set FEDPARITY_CACHE"):
        open_cache(Extract()).rows(range(8))
    monkeypatch.undo()


def test_a_cache_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="FEDPARITY_CACHE"):
        open_cache(Extract()).rows(range(8))


def test_files_replaced_by_another_process_meanwhile():
    cache, left = open_cache(Extract()), [1]

    def meddling(images):
        if left:
            left.pop()
            features.cache.shutil.rmtree(cache.path)
            open_cache(Extract()).rows([30])
        return truth(images)

    cache.extract = meddling
    assert np.array_equal(cache.rows(range(40)), truth(IMAGES))


def test_a_disk_that_forgets(monkeypatch):
    monkeypatch.setattr(features, "_write", lambda *_: None)
    with pytest.raises(OutputError, match="rows do not stay as they are written"):
        open_cache(Extract()).rows(range(8))


def test_two_processes_at_once():
    code = "t.open_cache(t.Extract()).rows([*range({0}, 40), *range({0})])"
    assert [p.wait() for p in [start(code.format(first)) for first in (0, 20)]] == [0, 0]
    extract = Extract()
    assert np.array_equal(open_cache(extract).rows(range(40)), truth(IMAGES))
    assert extract.seen == 0


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([40], "index 40 must be one of the 40 images"),
        ([0, -1], "index -1 must be"),
        ([0.5], "must be a list of whole numbers"),
        ([[1]], "must be a list of whole numbers"),
        ([True], "must be a list of whole numbers"),
    ],
)
def test_indices_that_do_not_fit(indices, said):
    with pytest.raises(ConfigError, match=said):
        open_cache(Extract()).rows(indices)


@pytest.mark.parametrize(
    ("extract", "said"),
    [
        (lambda x: truth(x)[:, :-1], r"gave float32 of shape \(2, 4\); float32 of \(2, 5\) expected"),
        (lambda x: truth(x).astype(np.float64), "gave float64"),
        (lambda x: truth(x) * np.float32(np.inf), "feature of image 3 that is not finite"),
    ],
)
def test_extractors_that_give_something_else(extract, said):
    with pytest.raises(ConfigError, match=said):
        open_cache(extract).rows([3, 4])


def test_images_that_are_no_bytes():
    with pytest.raises(ConfigError, match="images are float64"):
        open_cache(Extract(), IMAGES / 2)
    with pytest.raises(ConfigError, match="width=0"):
        FeatureCache(IMAGES, Extract(), "d", 0)


def test_the_header_says_what_the_features_are_of():
    cache = open_cache(Extract())
    cache.rows([0])
    header = json.loads((cache.path / "header.json").read_text())
    assert header["extractor"] == "d"
    assert (header["rows"], header["width"]) == (40, WIDTH)
