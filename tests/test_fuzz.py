"""Mutated files, hostile names and live text: only errors of our own, nothing outside the folder, nothing that runs."""

import contextlib
import csv
import gzip
import io
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedparity import ClientReport, Cohort, RoundPlan, Trace, load_trace, save_trace
from fedparity.core.errors import FedparityError, InputError, OutputError
from fedparity.core.files import csv_text, write_text
from fedparity.core.gate import Gate
from fedparity.core.journal import from_json, to_json
from fedparity.core.tree import classes_in, flatten, rebuild
from fedparity.experiment.results import open_store
from fedparity.experiment.run import Run, record_of
from fedparity.experiment.runner import execute, state_classes
from fedparity.experiment.spec_file import load, parse, starter, to_toml
from fedparity.report.export import export
from fedparity.store import Committed, Disk, Store, checkpoints, verify
from fedparity.store.arrays import unpacked
from fedparity.traces import Intervals
from fuzz import PARSERS, bounded, fuzz_ours
from mutations import mutate
from stored_runs import unclose

COUNT = 5000


def fuzz(count, seeds, read_one, header=lambda _: 0, seed=0):
    """Read `count` mutations, all but a quarter past the header: how many were valid, how many were refused."""
    rng = np.random.default_rng(seed)
    fine = refused = 0
    for n in range(count):
        original = seeds[n % len(seeds)]
        mutated = mutate(original, rng, seeds, header(original) if n % 4 else 0)
        try:
            read_one(mutated, n)
            fine += 1
        except FedparityError as error:
            refused += 1
            assert str(error)  # noqa: PT017 - a valid file is right, too
    return fine, refused


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_of_the_fuzz_target(name, monkeypatch, tmp_path):
    """What `make fuzz` runs, small; parsers that have their 5,000 below or are slow have fewer here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedparity"])
    assert fuzz_ours(
        name,
        {"spec": 300, "plain": 1000, "flash": 2000, "tables": 2000, "fedscale": 2000}.get(name, 5000),
    )


def zip_of(name):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, b"")
    return packed.getvalue()


FOUND = {
    "audit": [
        b'"ou0\n1,a,1\n1,b,1\nent,selected\n0,a,1\n0,b,0\n1,a,1\n1,f,1\n',  # a column's name of four lines
        b"round,clien\r,selectedound,client,selected\n0,a,1\n0,b,0\n1,a,1\n1,b,1\n",  # a raw error of csv
        b"round,client.set.selected\n0,a,1\n0,b,nan\n1,a,1\n",  # a raw error of polars: rows longer than the heading
    ],
    "arguments": [b"verify\n" + b"1" * 400, b"audit\n" + b"1" * 400],  # a name too long for the system
    "images": [b"\x00\x00\x08\x03\x00\x00\x00\x00\xd6ab\xe9\xef\xac\x81d"],  # nothing, of a size beyond any array
    "npz": [zip_of("a\nb.npy")],  # a member's name of two lines
    "samples": [b'y,x1,who\n0,1,"a\nb"\n1,2,c\n'],  # a client's name of two lines
    "spec": [b"version = 2\nmethods = ['uniform']\n[execution]\nscore_every = 0x1" + b"f" * 5000],  # read, not writable
}
"""What was found once: each stays one line."""


@pytest.mark.parametrize(("name", "data"), [(name, data) for name in FOUND for data in FOUND[name]])
def test_what_was_found_once_holds(name, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedparity"])
    bounded(PARSERS[name](tmp_path)[1])(data)


# --- specs


METHODS = ("uniform", "parity", "cup_paper", "cup_authors", "least_served")


def specs():
    small = 'version = 2\n[[methods]]\nname = "uniform"\n'
    entries = "".join(f'[[methods]]\nname = "{name}"\n' for name in METHODS)
    own = '[[methods]]\nname = "own"\nscheduler = "with_quota:inner=parity:target=0.5,quota=2"\nlocal = "mixed:a=0.5"\n'
    own += 'estimator = "window:window=3"\n'
    full = to_toml(parse(f"version = 2\nseeds = 2\n{entries}{own}", "seed").resolved())
    return [text.encode() for text in (starter(), small, full)]


def test_mutated_specs():
    def read_one(data, _):
        spec = parse(data.decode("utf-8", "replace"), "fuzzed")
        assert parse(to_toml(spec), "again") == spec

    fine, refused = fuzz(COUNT, specs(), read_one, lambda text: text.index(b"version = 2") + 12)
    assert fine > COUNT // 50
    assert refused > COUNT // 3


def test_mutated_spec_files(tmp_path):
    def read_one(data, _):
        (tmp_path / "spec.toml").write_bytes(data)
        load(tmp_path / "spec.toml", [data[:20].decode("latin-1"), f"name={data[-9:].decode('latin-1')}"])

    _, refused = fuzz(200, specs(), read_one)
    assert refused > 50


# --- traces


def traces():
    rng = np.random.default_rng(1)
    names = ("a", "b-2", "ü", '"q"', "c,d")
    found = []
    for stays in (False, True):
        rounds = [np.flatnonzero(rng.random(5) < 0.6) for _ in range(12)]
        kept = [rng.random(len(row)) < 0.7 for row in rounds] if stays else None
        trace = Trace.from_rounds(5, rounds, kept, names if stays else None)
        with tempfile.TemporaryDirectory() as folder:
            save_trace(trace, Path(folder) / "t.csv", 1800.0)
            found.append((Path(folder) / "t.csv").read_bytes())
    return found


def test_mutated_traces(tmp_path):
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    rng = np.random.default_rng(2)

    def read_one(data, n):
        path = packed if n % 5 == 0 else plain
        if n % 10 == 0:  # the packed bytes themselves
            data = mutate(gzip.compress(data, 1), rng, [data])
        elif n % 5 == 0:
            data = gzip.compress(data, 1)
        path.write_bytes(data)
        trace = load_trace(path, rounds=5)
        assert trace.num_rounds == 5
        Intervals.load(path)

    fine, refused = fuzz(COUNT, traces(), read_one, lambda text: text.index(b"\n") + 1)
    assert fine > COUNT // 50
    assert refused > COUNT // 3


def test_a_gzip_bomb_is_refused_before_it_unfolds(tmp_path):
    """A gigabyte that is packed into a megabyte, with and without the right first line."""
    block = gzip.compress(bytes(1 << 24), 9)
    lines = gzip.compress(b"a,0.0,1.0\n" * ((1 << 24) // 10), 9)
    head = gzip.compress(b"# fedparity-trace 1\nclient,first_seen_s,last_seen_s\n")
    for name, data in (("zeros.csv.gz", block * 64), ("lines.csv.gz", head + lines * 64)):
        (tmp_path / name).write_bytes(data)
        code = (
            "import resource, sys\n"
            "from fedparity import load_trace\n"
            "from fedparity.core.errors import InputError\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "try:\n    load_trace(sys.argv[1])\n"
            "except InputError as error:\n"
            "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        kilobytes, says = done.stdout.split(" ", 1)
        assert int(kilobytes) < 300_000
        assert f"{name}: unpacks to more than" in says
    assert resource.getpagesize() > 0


def test_a_well_packed_trace_is_no_bomb(tmp_path):
    save_trace(Trace.from_matrix(np.ones((10, 20_000), np.bool_)), tmp_path / "t.csv.gz")
    size = (tmp_path / "t.csv.gz").stat().st_size
    assert len(gzip.decompress((tmp_path / "t.csv.gz").read_bytes())) > 5 * size
    assert load_trace(tmp_path / "t.csv.gz").num_clients == 20_000


# --- checkpoints


SPEC = """version = 2
rounds = 4
cohort = 2
[population]
clients = 6
availability = "bernoulli:low=.3,high=.9"
[data]
set = "quadratic"
[[methods]]
name = "cup_authors"
[[methods]]
name = "parity_surrogate"
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A stored run with small arrays, changes and files."""
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    spec = parse(SPEC, "fuzz")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LARGE", 40), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 3)):
            patch.setattr(checkpoints, name, value)
        with open_store(folder, spec) as store:
            results = execute(spec, store=store)
    return folder, results


def past_header(data):
    """Where the numbers of a safetensors file begin, or half of a text."""
    length = int.from_bytes(data[:8], "little")
    return 8 + length if length < len(data) else len(data) // 2


@contextlib.contextmanager
def in_memory(folder):
    """A writable copy of a run's database and a store that reads it; its digests can be put right again."""
    import sqlite3

    with Store.read(folder) as store:
        copy = sqlite3.connect(":memory:", isolation_level=None)
        store.db.connection.backup(copy)
        store.db.connection.close()
        store.db.connection = copy
        yield store


def reseal(store, key):
    """Digests that fit, as somebody who knows the format would leave them."""
    row = store.db.connection.execute(
        "SELECT whole, tree, small, files FROM states WHERE seed = ? AND method = ? AND round = ?", key
    ).fetchone()
    check = checkpoints.state_digest(key, *row)
    store.db.run("UPDATE states SET digest = ? WHERE seed = ? AND method = ? AND round = ?", (check, *key))


def test_mutated_checkpoints_whose_digests_fit(stored):
    """Skeletons, packed arrays and lists of files: the digests are right, the content is not."""
    folder, _ = stored
    with in_memory(folder) as store:
        keys = store.db.connection.execute("SELECT seed, method, round FROM states").fetchall()
        classes = {method: state_classes(store, method) for _, method, _ in keys}
        cells = {
            (key, column): store.db.connection.execute(
                f"SELECT {column} FROM states WHERE seed = ? AND method = ? AND round = ?", key
            ).fetchone()[0]
            for key in keys
            for column in ("tree", "small", "files")
        }
        places = [place for place, value in cells.items() if len(value) > 2]
        seeds = [v if isinstance(v, bytes) else v.encode() for v in (cells[place] for place in places)]

        def read_one(data, n):
            key, column = places[n % len(places)]
            value = data if column == "small" else data.decode("utf-8", "replace")
            where = "WHERE seed = ? AND method = ? AND round = ?"
            store.db.connection.execute(f"UPDATE states SET {column} = ? {where}", (value, *key))
            reseal(store, key)
            try:
                store.load(key[0], key[1], classes[key[1]])
                store.checkpoints.needed()
            finally:
                store.db.connection.execute(f"UPDATE states SET {column} = ? {where}", (cells[key, column], *key))
                reseal(store, key)

        fine, refused = fuzz(COUNT, seeds, read_one, past_header)
        assert fine > COUNT // 50
        assert refused > COUNT // 10


def test_mutated_checkpoints_whose_digests_do_not_fit(stored):
    """A row or a file that was changed is refused, whatever the change makes of it."""
    folder, _ = stored
    files = [p.read_bytes() for p in sorted((folder / "arrays").iterdir())]
    with in_memory(folder) as store:

        class Changed:
            """A disk that gives out other bytes than were asked for."""

            root = folder

            def path(self, name):
                return folder / name

            def read(self, _):
                return self.data

        store.arrays.disk = disk = Changed()

        def read_one(data, n):
            disk.data = data
            if data == files[n % len(files)]:
                return
            name = "0" * 64 if n % 2 else sorted(p.stem for p in (folder / "arrays").iterdir())[n % len(files)]
            store.arrays.read(name)
            pytest.fail("a changed file was believed")

        fine, refused = fuzz(COUNT, files, read_one, past_header)
        assert refused > COUNT * 9 // 10
        assert fine + refused == COUNT


def test_mutated_array_files_and_skeletons(stored):
    """Below the digests: the readers themselves."""
    folder, _ = stored
    files = [p.read_bytes() for p in sorted((folder / "arrays").iterdir())]
    with Store.read(folder) as store:
        state = store.load(0, "cup_authors", state_classes(store, "cup_authors"))
    skeleton, arrays = flatten(state)
    text = json.dumps(skeleton).encode()
    classes = classes_in(state)

    def read_one(data, n):
        if n % 2:
            found = unpacked(data, "fuzzed")
            assert all(isinstance(a, np.ndarray) for a in found.values())
            return
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError):
            raise InputError("not JSON") from None
        rebuild(tree, arrays, classes)

    mixed = [text if n % 2 == 0 else files[n // 2 % len(files)] for n in range(2 * len(files))]
    fine, refused = fuzz(COUNT, mixed, read_one, past_header)
    assert fine > COUNT // 50
    assert refused > COUNT // 10


def test_mutated_databases(stored, tmp_path):
    """The file itself: every way to read it ends, in the truth or in an error of ours."""
    import shutil

    folder, results = stored
    shutil.copytree(folder, tmp_path / "run")
    unclose(tmp_path / "run")
    data = (folder / "run.db").read_bytes()
    heads = [run.head for run in results.runs]

    def read_one(mutated, _):
        (tmp_path / "run" / "run.db").write_bytes(mutated)
        verdict = verify(tmp_path / "run", state_classes)
        with Store.read(tmp_path / "run") as store:
            found = Run.stored(store)
        if not verdict.ok:
            raise InputError(verdict.problems[0])
        if found.complete:
            assert [run.head for run in found.runs] == heads

    fine, refused = fuzz(300, [data], read_one, lambda _: 100)
    assert refused > 100
    assert fine + refused == 300


def test_mutated_databases_are_resumed_to_the_same_end_or_refused(stored):
    import shutil

    folder, results = stored
    data = (folder / "run.db").read_bytes()
    heads = [run.head for run in results.runs]
    spec = parse(SPEC, "fuzz")

    def read_one(mutated, _):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            run = Path(place) / "run"
            shutil.copytree(folder, run)
            unclose(run)
            (run / "run.db").write_bytes(mutated)
            with open_store(run, spec, resume=True) as store:
                again = execute(spec, store=store)
            assert [one.head for one in again.runs] == heads

    fine, refused = fuzz(150, [data], read_one, lambda _: 100)
    assert refused > 50
    assert fine + refused == 150


def test_mutated_journal_lines(stored):
    _, results = stored
    lines = [line.encode() for run in results.runs for line in run.journal]

    def read_one(data, _):
        try:
            assert record_of("m", Committed(0, data.decode(), "", [], 0.0)).round >= -math.inf
        except UnicodeDecodeError as error:  # the store holds texts
            raise InputError("not text") from error

    _, refused = fuzz(500, lines, read_one)
    assert refused > 500 // 3


def test_a_deep_journal_line_is_refused():
    with pytest.raises(InputError, match="round 0 of m: not a journal line"):
        record_of("m", Committed(0, "[" * 200_000, "", [], 0.0))


# --- names


def hostile_names():
    """500 names that mean to leave their folder, or to break whoever handles them."""
    fixed = [
        *(
            "",
            ".",
            "..",
            "/",
            "//",
            "./",
            "../",
            "~",
            "~root",
            "-",
            "--",
            "-rf",
            "--out=/tmp",
            "*",
            "?",
            "$HOME",
            "`id`",
        ),
        *("../x", "../../x", "a/../../x", "./../x", "a/b/../../../x", "..\\x", "..\\..\\x", "C:\\x", "\\\\host\\x"),
        *("/etc/passwd", "/tmp/x", "//x", "/dev/null", "/proc/self/mem", "file:///etc/passwd", "http://x/y", "a//b"),
        *("CON", "NUL", "aux.csv", "com1", "lpt1.txt", "con.", "x.", "x ", " x", "x:y", "x|y", "x>y", "x<y", 'x"y'),
        *(
            "\0",
            "x\0",
            "\0x",
            "x\0.csv",
            "../\0",
            "a\nb",
            "\n",
            "\r\n",
            "a\rb",
            "a\tb",
            "\x1b[31m",
            "\x07",
            "\x7f",
            "\x85",
        ),
        *("x" * 255, "x" * 256, "x" * 5000, "x/" * 2000, "../" * 300 + "x", "é" * 200, "😀" * 100, "\u202e", "\ufeff"),
        *("\ud800", "x\udcff", "．．／x", "‥/x", "%2e%2e%2fx", "..%2fx", "..;/x", "lock", "run.db", "manifest.json"),
        *("run.db-wal", "arrays", "arrays/..", ".partial", "x.partial", ".x.0123456789abcdef", "link", "link/x", "a;b"),
    ]
    rng = np.random.default_rng(5)
    parts = [
        "..",
        "/",
        "\\",
        ".",
        "a",
        "-",
        "\0",
        "\n",
        "~",
        "link",
        "é",
        "%2e",
        ":",
        " ",
        "x" * 100,
        "$(id)",
        "'",
        '"',
    ]
    while len(fixed) < 500:
        fixed.append("".join(parts[k] for k in rng.integers(0, len(parts), rng.integers(2, 7))))
    return fixed[:500]


def tree(folder):
    """Everything below a folder: names, kinds and contents."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        found[str(path.relative_to(folder))] = None if path.is_dir() else path.read_bytes()
    return found


@pytest.fixture
def guarded(tmp_path):
    """A folder to work in, in a folder that must not change, beside a file that must not either."""
    (tmp_path / "beside.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    return tmp_path


def outside(guarded):
    return {name: data for name, data in tree(guarded).items() if not name.startswith("inside")}


def test_there_are_500_names():
    assert len(set(hostile_names())) > 450
    assert len(hostile_names()) == 500


def test_no_name_leaves_the_folder_of_a_disk(guarded):
    disk = Disk(guarded / "inside")
    before = outside(guarded)
    root = (guarded / "inside").resolve()
    written = 0
    for name in hostile_names():
        try:
            path = disk.path(name)
        except InputError:
            continue
        assert Path(os.path.normpath(path)).is_relative_to(root), name
        try:
            disk.write(name, b"x")
            written += 1
            assert disk.read(name) == b"x"
            disk.remove(name)
        except (InputError, OutputError):
            continue
    assert written > 50
    assert outside(guarded) == before


def quoted(name):
    """A name as TOML text, if it can be text at all."""
    return json.dumps(name).replace("\x7f", "\\u007f")


def test_no_name_of_a_spec_leaves_the_folder(guarded, monkeypatch):
    monkeypatch.chdir(guarded / "inside")
    before = outside(guarded)
    taken = 0
    for name in hostile_names():
        for text in (
            f'version = 2\nname = {quoted(name)}\n[[methods]]\nname = "uniform"\n',
            f'version = 2\n[[methods]]\nname = {quoted(name)}\nscheduler = "uniform"\n',
        ):
            try:
                spec = parse(text, "hostile")
            except FedparityError:
                continue
            taken += 1
            for given in (spec.name, spec.methods[0].name):
                assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", given)
                assert (Path("runs") / given).resolve().parent == Path("runs").resolve()
    assert 0 < taken < 60
    assert outside(guarded) == before
    assert list((guarded / "inside").iterdir()) == []


def test_no_availability_of_a_spec_is_anything_but_read(guarded, monkeypatch):
    monkeypatch.chdir(guarded / "inside")
    before = tree(guarded)
    for name in hostile_names():
        text = f'version = 2\n[population]\navailability = {quoted(name)}\n[[methods]]\nname = "uniform"\n'
        with pytest.raises(FedparityError):
            execute(parse(text, "hostile"))
    assert tree(guarded) == before


def named_run(names, rounds=3):
    """Results of a run whose clients have these names; some leave in the middle."""
    rng = np.random.default_rng(0)
    count = len(names)
    online = [np.flatnonzero(rng.random(count) < 0.9) for _ in range(rounds)]
    stays = [rng.random(len(row)) < 0.7 for row in online]
    trace = Trace.from_rounds(count, online, stays, tuple(names))
    methods = '[[methods]]\nname = "uniform"\n[[methods]]\nname = "parity_surrogate"\n'
    spec = parse(
        f"version = 2\nrounds = {rounds}\ncohort = 3\n[population]\nclients = {count}\n"
        f'[data]\nset = "quadratic"\n{methods}',
        "names",
    )
    return execute(spec, trace=trace)


def can_be_names(texts):
    """Those that a trace file can hold: text on one line, each once."""
    return [
        text
        for text in dict.fromkeys(texts)
        if text and not set("\0\r\n") & set(text) and text.encode("utf-8", "ignore").decode() == text
    ]


def test_no_client_s_name_leaves_the_folder(guarded):
    names = can_be_names(hostile_names())
    assert len(names) > 300
    before = outside(guarded)
    results = named_run(names)
    work = guarded / "inside" / "run"
    work.mkdir()
    results.save(work)
    for form in ("csv", "jsonl", "parquet"):
        export(results, guarded / "inside" / form, form)
        export(results, guarded / "inside" / f"{form}-secret", form, b"0123456789abcdef")
    save_trace(results.trace, guarded / "inside" / "trace.csv")
    assert load_trace(guarded / "inside" / "trace.csv").names == tuple(names)
    assert outside(guarded) == before
    assert len([p for p in (guarded / "inside").rglob("*") if p.is_file()]) == 6 + 6 * 3 + 1


def test_names_that_are_no_names_are_refused_in_traces(guarded):
    refused = 0
    for name in hostile_names():
        if can_be_names([name]):
            continue
        refused += 1
        with pytest.raises(FedparityError):  # half a character is refused by the trace, the others by the file
            save_trace(Trace.from_rounds(1, [np.array([0])], names=(name,)), guarded / "inside" / "t.csv")
    assert refused > 20
    assert list((guarded / "inside").iterdir()) == []


def test_results_go_where_they_are_told_or_nowhere(guarded, monkeypatch):
    """A path is the caller's to choose; what cannot be one is a typed error, and no leftovers stay behind."""
    monkeypatch.chdir(guarded / "inside")
    for name in hostile_names():
        if name.startswith(("/", "..", "./..", "a/..", "~", "link")) or "/.." in name or "../" in name:
            continue
        with contextlib.suppress(OutputError):
            write_text(name, "x")
    assert outside(guarded) == {"beside.txt": b"mine"}
    left = [p.name for p in (guarded / "inside").iterdir() if re.fullmatch(r"\..*\.[0-9a-f]{16}", p.name)]
    assert set(left) <= set(hostile_names())


# --- live text


def injections():
    """200 strings that are alive in a spreadsheet, a page, a terminal or a parser."""
    fixed = [
        *(
            "=1+1",
            "=cmd|' /C calc'!A0",
            '=HYPERLINK("http://x","y")',
            "+1+1",
            "-2+3",
            "@SUM(A1)",
            "\t=1",
            "=",
            "+",
            "-",
            "@",
        ),
        *(
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            '"><svg onload=alert(1)>',
            "</title><script>x</script>",
        ),
        *(
            "<!--",
            "-->",
            "]]>",
            "<![CDATA[",
            "&lt;script&gt;",
            "&#60;b&#62;",
            "javascript:alert(1)",
            "' onmouseover='x",
            "<b>",
        ),
        *(
            "{{7*7}}",
            "{% raw %}",
            "${7*7}",
            "#{x}",
            "<%= x %>",
            "{{ self }}",
            "%s%n",
            "{0.__class__}",
            "</style><script>",
        ),
        *(
            "\x1b[31mred",
            "\x1b]0;title\x07",
            "\x1b[2J",
            "\x9b31m",
            "\x07",
            "\x08\x08",
            "\x1b[1A",
            "\x1bP$q",
            "a\x1b",
            "\x00x",
        ),
        *("[red]x[/red]", "[bold]", "[/]", "[link=http://x]y[/link]", ":smile:", "[/red]", "[[x", "\\[x"),
        *(
            '","x":"',
            '"}',
            "\\",
            '\\"',
            '{"a":1}',
            "null",
            "NaN",
            "]}",
            "\u2028",
            "\u2029",
            "'",
            "\x7f",
            "\u202egnp.exe",
            "\ufeff",
        ),
        *(",", ";", "a,b", 'a"b', '""', "a;b", "a|b", "a\tb", " =1", "'=1", '"=1"', "%0a", "\\n", "\\u001b[31m", "x\\"),
        *("'; DROP TABLE rounds; --", "1 OR 1=1", "$(id)", "`id`", "| id", "; id", "&& id", "../x", "-rf", "--help"),
    ]
    rng = np.random.default_rng(6)
    parts = [
        "=",
        "+",
        "-",
        "@",
        "<script>",
        "</",
        ">",
        '"',
        "'",
        "\x1b[",
        "31m",
        "{{",
        "}}",
        "[red]",
        "\t",
        ",",
        "\\",
        "&",
        "é",
    ]
    while len(fixed) < 200:
        fixed.append("".join(parts[k] for k in rng.integers(0, len(parts), rng.integers(2, 6))))
    return fixed[:200]


LIVE = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def injected():
    """A run whose clients have live names, and whose journal holds live reasons."""
    names = can_be_names(injections())
    return names, named_run(names, rounds=4)


def test_there_are_200_injections():
    assert len(injections()) == 200
    assert len(set(injections())) > 180


@pytest.mark.parametrize("text", injections(), ids=range(200))
def test_no_cell_is_live(text):
    for row in ([text], ["x", text], [text, 1.5, None]):
        lines = csv_text(["a", "b", "c"][: len(row)], [row])
        *_, got = csv.reader(io.StringIO(lines, newline=""))
        assert len(got) == len(row)
        cell = got[row.index(text)]
        assert not cell.startswith(LIVE)
        assert cell.removeprefix("'") == text.removeprefix("'")


def test_no_cell_of_a_run_s_tables_is_live(injected, tmp_path):
    names, results = injected
    results.save(tmp_path)
    export(results, tmp_path / "tables", "csv")
    seen = 0
    for path in (*tmp_path.glob("*.csv"), *(tmp_path / "tables").iterdir()):
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        assert {len(row) for row in rows} == {len(head)}, path
        for row in rows:
            for column, cell in zip(head, row, strict=True):
                if column in ("client", "method", "failed"):
                    seen += 1
                    assert not cell.startswith(LIVE), (path, cell)
    assert seen > 1000
    with (tmp_path / "clients.csv").open(newline="", encoding="utf-8") as file:
        found = {row["client"] for row in csv.DictReader(file)}
    assert found == {f"'{name}" if name.startswith(LIVE) else name for name in names}


def test_reasons_cannot_break_the_journal():
    plan = RoundPlan(0, 0, np.arange(1), Cohort(np.arange(1), np.ones(1), "deterministic"), np.zeros(2))
    from fedparity import Coordinator

    for text in injections():
        reason = Gate().admit(ClientReport(0, failure=text), plan)
        assert reason.isprintable()
        coordinator = Coordinator(1)
        asked, state = coordinator.plan(coordinator.init(1, np.zeros(2)), np.arange(1))
        record, _ = coordinator.absorb(state, asked, [ClientReport(0, failure=text)])
        line = to_json(record)
        assert line.isascii()
        assert line.isprintable()
        assert json.loads(line)["failed"] == [[0, reason]]
        assert from_json(line).failed == ((0, reason),)


def test_json_files_parse_whatever_the_names_are(injected, tmp_path):
    names, results = injected
    results.save(tmp_path)
    export(results, tmp_path, "jsonl")
    for path in (tmp_path / "journal.jsonl", *tmp_path.glob("[cpr]*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.isascii()
            json.loads(line, parse_constant=pytest.fail)
    found = {json.loads(line)["client"] for line in (tmp_path / "clients.jsonl").read_text().splitlines()}
    assert found == set(names)
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    from fedparity.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["fedparity", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return run


def dead(text):
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize("every", [14, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_on_the_console_is_live(call, every):
    calls = [
        words
        for text in injections()
        for words in (
            ["schedule", f"--scheduler={text}"],
            ["schedule", f"--availability={text}"],
            ["list", "--", text],
            ["verify", "--", text],
            ["run", "--", text],
            ["export", "--", text],
            [text],
        )
    ]
    for words in (words for n, words in enumerate(calls) if n % every == n // 14 % 14 % every):
        code, out, err = call(*(word.replace("\0", "") for word in words))
        assert dead(out + err), (words, out, err)
        assert code in (0, 1, 2)


def test_names_of_folders_and_files_are_dead_on_the_console(call, tmp_path, stored):
    import shutil

    for text in ("\x1b[31mred", "[red]x", "a\x07b", "\x9b1m"):
        folder = tmp_path / f"run{text}"
        shutil.copytree(stored[0], folder)
        (folder / "arrays" / f"more{text}").touch()
        for words in (["verify", str(folder)], ["export", str(folder)], ["erase", str(folder), "99"]):
            code, out, err = call(*words)
            assert dead(out + err), (words, out, err)
            assert code in (0, 1, 2)
        if text == "[red]x":
            assert "more[red]x" in call("verify", str(folder))[1]  # shown, not obeyed


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.handlers, self.text = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        # `data-` holds what our script puts in as text: no browser acts on it.
        named = [(name, value or "") for name, value in attrs if not name.startswith("data-")]
        self.handlers += [name for name, value in named if name.startswith("on") or "javascript:" in value]

    def handle_data(self, data):
        self.text.append(data)


def test_nothing_on_the_page_is_live(injected):
    from fedparity import report

    names, results = injected
    usual = report.render(named_run([f"c{i}" for i in range(40)], rounds=2))
    for start in range(0, len(names), 40):  # each among the clients that the page names
        some = named_run(names[start : start + 40] + ["x"] * 0, rounds=2)
        html = report.render(some)
        page = Page()
        page.feed(html)
        assert html.count("<script") == usual.count("<script")  # our own, allowed by its digest
        assert page.handlers == []
        assert "<img src=x" not in html
    plain = Page()
    plain.feed(usual)
    assert plain.tags >= page.tags - {"b"}
    assert results.complete


def test_the_spec_s_own_text_is_dead_on_the_page():
    from fedparity import report

    ours = report.render(named_run(["a", "b", "c"], rounds=2), SPEC).count("<script")
    for text in ("</pre><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{7*7}}"):
        html = report.render(named_run(["a", "b", "c"], rounds=2), f"# {text}\n{SPEC}")
        page = Page()
        page.feed(html)
        assert html.count("<script") == ours
        assert page.handlers == []
        assert "# 49" not in html
        assert text in "".join(page.text) or text not in html
