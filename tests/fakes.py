"""Small data sets of the same make as the real ones, and damaged copies of files."""

import gzip
import io
import json
import struct
import tarfile

import numpy as np
from PIL import Image

from fedparity.data import cifar, mnist
from fedparity.data.dataset import Arrays

EACH = 3
SHAPES = {
    "train-images-idx3-ubyte": (8, 4, 4),
    "train-labels-idx1-ubyte": (8,),
    "t10k-images-idx3-ubyte": (4, 4, 4),
    "t10k-labels-idx1-ubyte": (4,),
}


def cifar_arrays():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (18, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 18, dtype=np.uint8)
    return Arrays(x[:15], y[:15], x[15:], y[15:])


def cifar_set():
    return cifar.cifar10(EACH, dict(cifar.official(cifar_arrays())))


def batches():
    a = cifar_arrays()
    x, y = np.concatenate([a.x_train, a.x_test]), np.concatenate([a.y_train, a.y_test])
    for i, name in enumerate(cifar.BATCHES):
        yield name, x[i * EACH : (i + 1) * EACH], y[i * EACH : (i + 1) * EACH]


def planes(x):
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(len(x), 3072)


def binary_files():
    return {
        f"{n}.bin": b"".join(bytes([l]) + p.tobytes() for l, p in zip(y, planes(x), strict=True))
        for n, x, y in batches()
    }


def old_string(data):
    return b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data


def python_pickle(x, y):
    """As Python 2 and an old NumPy wrote the official files."""
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05("
        + b"".join(b"K" + bytes([l]) for l in y)
        + b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\tU\x01bq\n"
        + b"\x87q\x0bRq\x0c("
        + b"K\x01K"
        + bytes([len(y)])
        + b"M\x00\x0c\x86q\rcnumpy\ndtype\nq\x0eU\x02u1q\x0fK\x00K\x01\x87q\x10Rq\x11(K\x03U\x01|q\x12NNN"
        + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x13b\x89"
        + old_string(planes(x).tobytes())
        + b"q\x14tq\x15bU\tfilenamesq\x16]q\x17("
        + b"".join(old_string(b"x.png") for _ in y)
        + b"eu."
    )


def python_files():
    return {n: python_pickle(x, y) for n, x, y in batches()}


def sheet_files():
    files, labels = {}, {"train": [], "test": []}
    for name, x, y in batches():
        sheet = io.BytesIO()
        Image.fromarray(x.reshape(len(x), 1024, 3)).save(sheet, "PNG")
        files[f"{name}.png"] = sheet.getvalue()
        labels["test" if name == "test_batch" else "train"] += y.tolist()
    return {**files, **{f"{part}_lables.json": json.dumps(found).encode() for part, found in labels.items()}}


def mnist_arrays():
    rng = np.random.default_rng(1)
    return Arrays(*(rng.integers(0, 10, shape, dtype=np.uint8) for shape in SHAPES.values()))


def mnist_set():
    return mnist.mnist(SHAPES, dict(mnist.official(mnist_arrays())))


def idx_files():
    a = mnist_arrays()
    parts = zip(SHAPES, (a.x_train, a.y_train, a.x_test, a.y_test), strict=True)
    return {n: struct.pack(f">HBB{p.ndim}I", 0, 8, p.ndim, *p.shape) + p.tobytes() for n, p in parts}


def tgz(files, folder="package"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def packed(files):
    return {f"{name}.gz": gzip.compress(data) for name, data in files.items()}


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def damaged(data, count, seed=0):
    """Copies with bytes changed, cut, doubled or filled in at random."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        found = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            at, much = int(rng.integers(0, len(found) + 1)), int(rng.integers(1, 9))
            # Half of the damage goes to the beginning, where headers are.
            at = min(at, int(rng.integers(0, 120))) if rng.random() < 0.5 else at
            kind = int(rng.integers(0, 5))
            if kind == 0:
                found[at : at + 1] = rng.bytes(1)
            elif kind == 1:
                found[at : at + much] = rng.bytes(much)
            elif kind == 2:
                del found[at : at + much]
            elif kind == 3:
                found[at:at] = found[at : at + much * 4]
            else:
                del found[at:]
        yield bytes(found) if i % 50 else rng.bytes(int(rng.integers(0, 200)))


def refusal(kind, call, *arguments):
    """What an error of that kind says; None: there is none, any other kind comes through."""
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    return None
