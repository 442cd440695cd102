"""A disk that fails or fills up, at every single call: one typed line, the last commit intact, and the same end."""

import errno
import os
from collections import Counter

import pytest

from crash_lab import acknowledged_rounds_are_there, carry_out, chains, ends_the_same, size
from fedparity.core.errors import OutputError
from fedparity.testing import FaultyDisk

ROUNDS = 2
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""apsw prints errors that SQLite swallows while it closes; the module sqlite3 never hears of them."""


def fails(folder, said, **how):
    """The run ends with one line that names a path in it."""
    folder.mkdir()
    with FaultyDisk(folder, keep=False, **how) as disk, pytest.raises(OutputError) as caught:
        carry_out(folder / "run", ROUNDS, acknowledged=lambda _, method, __: said.update([method]))
    assert str(caught.value).startswith(f"{folder}/run"), how
    assert "\n" not in str(caught.value)
    return disk, str(caught.value)


def total_of(folder):
    folder.mkdir()
    with FaultyDisk(folder) as disk:
        carry_out(folder / "run", ROUNDS)
    return disk


@pytest.mark.parametrize(
    ("first", "code", "for_good"),
    [(0, errno.ENOSPC, False), (1, errno.EIO, False), (2, errno.ENOSPC, True), (3, errno.EIO, True)],
)
def test_any_call_may_fail(tmp_path, first, code, for_good):
    """Usually every call fails in one of the four ways, nightly in all of them."""
    reference, whole = chains(ROUNDS), total_of(tmp_path / "counted")
    total, log = whole.count, next(n for n, one in enumerate(whole.calls) if one.path.endswith("-wal"))
    assert total > 200
    swallowed = []
    for call in range(size(first, 0), total, size(4, 1)):
        said, folder = Counter(), tmp_path / str(call)
        try:
            _, says = fails(folder, said, fail_at=call, code=code, for_good=for_good)
        except pytest.fail.Exception:
            swallowed.append(call)  # SQLite may do without: then the run must be whole
            assert said.total() == ROUNDS * len(reference)
        else:
            assert any(text in says for text in (os.strerror(code), "database or disk is full", "disk I/O error")), says
        acknowledged_rounds_are_there(folder / "run", said, ROUNDS, reference)
        ends_the_same(folder / "run", ROUNDS)
    # While the database is empty SQLite tries again, or goes on with a journal instead of a log, as durable.
    assert len([call for call in swallowed if call >= log]) <= 3, swallowed


def test_a_disk_of_any_size_that_is_too_small(tmp_path):
    reference, whole = chains(ROUNDS), total_of(tmp_path / "counted")
    written = sum(len(call.data) for call in whole.calls if call.kind == "write")
    # Times in what is written have more or fewer digits from run to run: a hair below the size counted may do.
    for room in range(0, written - written // 100, written // size(40, 400)):
        said, folder = Counter(), tmp_path / str(room)
        fails(folder, said, room=room)
        acknowledged_rounds_are_there(folder / "run", said, ROUNDS, reference)
        ends_the_same(folder / "run", ROUNDS)
