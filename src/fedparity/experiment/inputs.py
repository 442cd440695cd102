"""What a run takes in from outside, by digest: a run goes on only with the data, weights and trace it began with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedparity.core.errors import InputError
from fedparity.data.fetch import KNOWN
from fedparity.data.table import SUFFIXES
from fedparity.data.weights import find_weights
from fedparity.experiment.spec import Spec


def input_digests(spec: Spec) -> dict[str, str]:
    """The SHA-256 of every input by name; files by their bytes, under their names without folders.

    A data set that is fetched by name is held to the digests of its official files whenever it is read, and published
    weights to theirs: these stand for them. What is generated from the seed is no input.
    """
    full = spec.resolved()
    data, weights = full.data, full.model.weights
    found: dict[str, str] = {}
    if data.set.endswith((".npz", *SUFFIXES)):
        found |= _file("dataset", data.set)
    elif data.set in KNOWN:
        official = "".join(f"{name} {digest}\n" for name, digest in sorted(KNOWN[data.set].digests.items()))
        found[f"dataset {data.set}"] = hashlib.sha256(official.encode()).hexdigest()
    if data.extractor is not None:
        name = data.extractor.weights
        found[f"weights {name}"] = find_weights(name).contents
    if weights is not None:
        found |= _file("weights", weights)
    if spec.population.path is not None:
        found |= _file("trace", spec.population.path)
    return found


def _file(kind: str, path: str) -> dict[str, str]:
    try:
        with Path(path).open("rb") as file:
            return {f"{kind} {Path(path).name}": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
