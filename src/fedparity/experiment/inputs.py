"""What a run takes in from outside, by digest: a run goes on only with the data, weights and trace it began with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedparity.availability import looks_like_a_path
from fedparity.core.errors import InputError
from fedparity.data.fetch import KNOWN
from fedparity.data.weights import find_weights
from fedparity.experiment.spec import Spec
from fedparity.models.features import EXTRACTORS


def input_digests(spec: Spec) -> dict[str, str]:
    """The SHA-256 of every input by name; files by their bytes, under their names without folders.

    A data set that is fetched by name is held to the digests of its official files whenever it is read, and published
    weights to theirs: these stand for them. What is generated from the seed is no input.
    """
    task = spec.resolved().task
    found: dict[str, str] = {}
    if task.dataset.endswith(".npz"):
        found |= _file("dataset", task.dataset)
    elif task.dataset in KNOWN:
        official = "".join(f"{name} {digest}\n" for name, digest in sorted(KNOWN[task.dataset].digests.items()))
        found[f"dataset {task.dataset}"] = hashlib.sha256(official.encode()).hexdigest()
    if task.features is not None:
        name = EXTRACTORS.build(task.features).weights
        found[f"weights {name}"] = find_weights(name).contents
    if task.weights is not None:
        found |= _file("weights", task.weights)
    if looks_like_a_path(spec.population.availability):
        found |= _file("trace", spec.population.availability)
    return found


def _file(kind: str, path: str) -> dict[str, str]:
    try:
        with Path(path).open("rb") as file:
            return {f"{kind} {Path(path).name}": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
