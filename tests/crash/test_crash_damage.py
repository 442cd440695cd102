"""Damage after the fact: flipped bits and torn files are found, what is lost is done again, the end is the same."""

import shutil

import pytest

from crash_lab import carry_out, ends_the_same, lab_spec, rng_of, size
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute, state_classes
from fedparity.store import DamagedError, Store, verify
from fedparity.store.manifest import RESULTS, SPECS
from fedparity.testing import FaultyDisk
from stored_runs import contents

ROUNDS = 5


@pytest.fixture
def closed(tmp_path):
    """A run that was closed after most of its rounds, with its result files."""
    spec, calls = lab_spec(ROUNDS), iter(range(ROUNDS - 1))
    with open_store(tmp_path / "closed", spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=lambda: next(calls) == ROUNDS - 2)).save(
            tmp_path / "closed"
        )
    return tmp_path / "closed"


@pytest.fixture
def killed(tmp_path):
    """The same run as a killed process leaves it: no manifest, and everything in the log."""
    (tmp_path / "disk").mkdir()
    said = []
    with FaultyDisk(tmp_path / "disk") as disk:
        carry_out(tmp_path / "disk" / "run", ROUNDS, acknowledged=lambda *_: said.append(len(disk.calls)))
    disk.power_cut(tmp_path / "killed", after=said[-1], seed=None)
    return tmp_path / "killed" / "run"


def flip(path, rng):
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def tear(path, rng):
    data = path.read_bytes()
    path.write_bytes(data[: int(rng.integers(len(data)))])


def is_found(run):
    try:
        return not verify(run, state_classes).ok
    except DamagedError:
        return True


@pytest.mark.parametrize("harm", [flip, tear])
def test_damage_to_any_file_of_a_closed_run_is_found(tmp_path, closed, harm):
    rng, names = rng_of(7), [name for name in contents(closed) if name != "lock"]
    assert len(names) > 15
    for at in range(size(100, 1000)):
        copy = shutil.copytree(closed, tmp_path / "copy")
        harm(copy / names[at % len(names)], rng)
        assert is_found(copy), names[at % len(names)]
        shutil.rmtree(copy)


@pytest.mark.parametrize("harm", [flip, tear])
@pytest.mark.parametrize("state", ["closed", "killed"])
def test_a_damaged_array_costs_a_round_or_is_computed_anew(tmp_path, request, harm, state):
    run, rng = request.getfixturevalue(state), rng_of(8)
    names = [name for name in contents(run) if name.startswith("arrays/")]
    assert len(names) > 10
    for at in range(size(40, 400)):
        copy = shutil.copytree(run, tmp_path / "copy")
        harm(copy / names[at % len(names)], rng)
        assert is_found(copy)
        ends_the_same(copy, ROUNDS)
        shutil.rmtree(copy)


def test_a_bad_byte_in_the_log_is_never_silent(tmp_path, killed):
    rng = rng_of(9)
    with Store.read(killed) as store:
        committed = {key: len([*store.rounds(*key)]) for key in store.contenders()}
    assert sum(committed.values()) == 2 * ROUNDS
    silent = refused = 0
    for _ in range(size(60, 600)):
        copy = shutil.copytree(killed, tmp_path / "copy")
        flip(copy / "run.db-wal", rng)
        verdict_ok = not is_found(copy)
        if verdict_ok:  # the byte was of no use any more: then nothing is missing
            silent += 1
            with Store.read(copy) as store:
                assert {key: len([*store.rounds(*key)]) for key in store.contenders()} == committed
        else:
            refused += 1
        shutil.rmtree(copy)
    assert refused > silent


def test_result_files_that_a_power_cut_emptied_are_written_anew(tmp_path, closed):
    copy = shutil.copytree(closed, tmp_path / "copy")
    emptied = [name for name in (*RESULTS, *SPECS) if (copy / name).exists()]
    assert len(emptied) >= 6
    for name in emptied:
        (copy / name).write_bytes(b"")
    ends_the_same(copy, ROUNDS)
    carry_out(tmp_path / "whole", ROUNDS)
    for name in set(emptied) - {"metrics_log.csv"}:  # which has times in it
        assert (copy / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
