"""Small files that mean to cost minutes or gigabytes: a process that may use little of both reads or refuses each."""

import gzip
import io
import struct
import subprocess
import sys
import tarfile

import pytest

SECONDS, GIGABYTES = 40, 2
"""Of CPU and of address space for a whole process; what is read here cost 150 s and more, or 6 GB."""

READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({gigabytes} << 30, {gigabytes} << 30))
from pathlib import Path
from fedparity.core.errors import FedparityError
path = Path(sys.argv[1])
try:
    {read}
except FedparityError as error:
    print(error)
"""


def says(path, read):
    code = READ.format(seconds=SECONDS, gigabytes=GIGABYTES, read=read)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout


def tar_with_header(kind, body):
    """A tar whose plain member follows an extended header."""
    head = tarfile.TarInfo("extended")
    head.type, head.size = kind, len(body)
    plain = tarfile.TarInfo("package/a")
    plain.size = 3
    parts = [head.tobuf(tarfile.USTAR_FORMAT), body, bytes(-len(body) % 512), plain.tobuf(tarfile.USTAR_FORMAT)]
    return gzip.compress(b"".join([*parts, b"abc", bytes(509 + 1024)]))


TAR = "from fedparity.data.archive import read_tgz; print(read_tgz(path, {'package/a': 3}))"
TRACE = "from fedparity import load_trace; print(load_trace(path))"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE], ids=["pax", "pax for all"])
def test_a_pax_header_of_digits(tmp_path, kind):
    """`tarfile` takes such a header apart in a time that grows with the square of its length."""
    (tmp_path / "a.tgz").write_bytes(tar_with_header(kind, b"1" * 300_000))
    assert says(tmp_path / "a.tgz", TAR) == "{'package/a': b'abc'}\n"


def test_two_equal_keys_among_many(tmp_path):
    keys = [f"k{k}" for k in range(200_000)]
    (tmp_path / "events.json").write_text("{" + ",".join(f'"{key}":{{}}' for key in [*keys, keys[-1]]) + "}")
    assert "key 'k199999' is given twice; keep one" in says(tmp_path / "events.json", TRACE)


def test_a_header_that_asks_for_many_rounds(tmp_path):
    names = [f"{k}" for k in range(24)]
    lines = ["# fedparity-trace 1", "# rounds=1000000", "# round_seconds=1", "client,first_seen_s,last_seen_s"]
    lines += [f"{name},0,9" for name in names] + ["", "client,start_s,end_s"] + [f"{name},0,9" for name in names]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert (tmp_path / "t.csv").stat().st_size < 1000
    assert "bytes ask for 1000000 rounds of 24 devices; correct the file or give rounds" in says(
        tmp_path / "t.csv", TRACE
    )
    given = "from fedparity import load_trace; print(load_trace(path, rounds=50).num_rounds)"
    assert says(tmp_path / "t.csv", given) == "50\n"


def test_a_start_that_asks_for_many_rounds_before(tmp_path):
    names = [f"{k}" for k in range(24)]
    lines = ["# fedparity-trace 1", "# start=900000", "# round_seconds=1", "client,first_seen_s,last_seen_s"]
    lines += [f"{name},0,9" for name in names] + ["", "client,start_s,end_s"] + [f"{name},0,9" for name in names]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert "bytes ask for 900001 rounds of 24 devices" in says(tmp_path / "t.csv", TRACE)


def shared_lists():
    """100,000 times in a list that 3,000 clients share."""
    out = io.BytesIO()
    out.write(b"\x80\x02(" + b"K\x01" * 100_000 + b"lq\x010}(")
    entry = b"}(X\x06\0\0\0activeh\x01X\x08\0\0\0inactiveh\x01X\x0b\0\0\0finish_timeK\x05u"
    for k in range(3_000):
        out.write(b"J" + struct.pack("<i", k) + entry)
    return out.getvalue() + b"u."


def test_a_pickle_whose_clients_share_lists(tmp_path):
    (tmp_path / "a.pkl").write_bytes(shared_lists())
    assert "clients share lists of more times in all than the file can hold" in says(tmp_path / "a.pkl", TRACE)
