"""A run as tables: three formats that agree in every cell, and pseudonyms that keep a secret."""

import csv
import json
import math
import sys

import numpy as np
import polars as pl
import pytest

from fedparity import Trace, save_trace
from fedparity.core.errors import ConfigError, OutputError
from fedparity.core.journal import from_json
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.results import CLIENT_COLUMNS
from fedparity.experiment.runner import execute
from fedparity.report.export import PARTICIPATION, export
from stored_runs import contents, run_into, spec_of, unpacked

NAMES = tuple(f"{name}-{i}" for i, name in enumerate(("=cmd", "anna", "böse", "c,d", 'q"t', "+1", "@x", "tab\tbed")))
TABLES = {"rounds": (*COLUMNS, "seed"), "clients": CLIENT_COLUMNS, "participation": PARTICIPATION}
KEY = b"0123456789abcdef"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    rng = np.random.default_rng(1)
    rounds = [np.flatnonzero(rng.random(7) < 0.7) for _ in range(10)]  # the eighth is never there
    save_trace(Trace.from_rounds(8, rounds, names=NAMES), folder / "trace.csv")
    path = f'population.availability="{folder / "trace.csv"}"'
    return execute(spec_of("rounds=10", "seeds=2", "population.clients=8", path))


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return head, rows


def read_jsonl(path):
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text(encoding="utf-8").splitlines()]
    return list(rows[0]), [list(row.values()) for row in rows]


def read_parquet(path):
    frame = pl.read_parquet(path)
    return frame.columns, [list(row) for row in frame.rows()]


def as_cell(value):
    """What CSV writes for a value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return repr(value)


@pytest.mark.parametrize("key", [None, KEY])
def test_three_formats_agree_cell_by_cell(results, tmp_path, key):
    found = {}
    for form, read in (("csv", read_csv), ("jsonl", read_jsonl), ("parquet", read_parquet)):
        files = export(results, tmp_path / form, form, key)
        assert [path.name for path in files] == [f"{name}.{form}" for name in TABLES]
        found[form] = {path.stem: read(path) for path in files}
    for name, columns in TABLES.items():
        (head, plain), (keys, lines), (titles, frame) = (found[form][name] for form in ("csv", "jsonl", "parquet"))
        assert tuple(head) == tuple(keys) == tuple(titles) == columns
        assert len(plain) == len(lines) == len(frame) > 0
        for a, b, c in zip(plain, lines, frame, strict=True):
            assert [as_cell(x) for x in b] == a
            assert c == b
            assert not any(isinstance(x, float) and not math.isfinite(x) for x in (*b, *c))


def test_the_tables_say_what_the_run_did(results, tmp_path):
    export(results, tmp_path, "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "participation.jsonl").read_text(encoding="utf-8").splitlines()]
    at = 0
    for run in results.runs:
        for line in run.journal:
            record = from_json(line)
            part = rows[at : at + len(record.available)]
            at += len(part)
            assert {(row["method"], row["seed"], row["round"]) for row in part} <= {
                (run.method, run.seed, record.round)
            }
            assert [row["client"] for row in part] == [NAMES[k] for k in record.available]
            assert [row["client"] for row in part if row["selected"]] == [NAMES[k] for k in record.selected]
            assert [row["client"] for row in part if row["completed"]] == [NAMES[k] for k in record.completed]
            assert [row["probability"] for row in part if row["selected"]] == record.probs.tolist()
            assert [row["utility"] for row in part if row["completed"]] == record.utility.tolist()
            assert {row["client"]: row["failed"] for row in part if row["failed"]} == {
                NAMES[k]: why for k, why in record.failed
            }
            assert math.fsum(row["weight"] or 0 for row in part) == pytest.approx(record.row_weights.sum())
    assert at == len(rows)
    clients = [json.loads(line) for line in (tmp_path / "clients.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["client"] for row in clients] == list(NAMES) * len(results.runs)
    assert [row["selected"] for row in clients] == [n for run in results.runs for n in run.ledger.selected.tolist()]
    assert clients[7]["online"] == 0
    assert clients[7]["normalised_utility"] is None


def pseudonyms(folder):
    rows = [json.loads(line) for line in (folder / "clients.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row["client"] for row in rows[: len(NAMES)]]


def test_pseudonyms_are_stable_per_key_and_differ_by_key(results, tmp_path):
    for name, key in (("a", KEY), ("b", KEY), ("c", KEY[::-1])):
        export(results, tmp_path / name, "jsonl", key)
    a, b, c = (pseudonyms(tmp_path / name) for name in "abc")
    assert a == b
    assert len(set(a) | set(c)) == 2 * len(NAMES)
    assert all(len(name) == 20 and set(name) <= set("0123456789abcdef") for name in a + c)
    for one in ("clients", "rounds", "participation"):
        assert (tmp_path / "a" / f"{one}.jsonl").read_bytes() == (tmp_path / "b" / f"{one}.jsonl").read_bytes()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_with_a_key_no_real_name_is_in_any_file(results, tmp_path, form):
    export(results, tmp_path / "open", form)
    export(results, tmp_path / "secret", form, KEY)
    for name in ("anna-1", "cmd-0", "se-2", "d-3"):
        said = [name.encode() in unpacked(tmp_path / f) for f in ("open", "secret")]
        assert said == [True, False], name


@pytest.mark.parametrize("length", [0, 1, 15])
def test_a_short_key_is_refused(results, tmp_path, length):
    with pytest.raises(ConfigError, match=f"the key has {length} bytes but must have at least 16; make a longer one"):
        export(results, tmp_path, "csv", KEY[:length])
    assert contents(tmp_path) == {}


def test_without_polars_parquet_says_what_to_do(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match=r"parquet needs polars: pip install 'fedparity\[report\]', or choose csv"):
        export(results, tmp_path, "parquet")
    assert len(export(results, tmp_path, "csv")) == 3


def test_a_folder_that_cannot_be_made(results, tmp_path):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(OutputError):
            export(results, target, "csv")


def test_the_command(fedparity, tmp_path):
    run_into(tmp_path / "run", spec_of())
    before = contents(tmp_path / "run")
    code, out, err = fedparity("export", "run")
    assert (code, err) == (0, "")
    assert out.split() == [f"run-export/{name}.csv" for name in TABLES]
    (tmp_path / "key").write_bytes(KEY)
    code, out, _ = fedparity("export", "run", "--format", "jsonl", "--key", "key", "--out", "secret", "--json")
    assert code == 0
    assert json.loads(out) == {
        "run": "run",
        "files": [f"secret/{name}.jsonl" for name in TABLES],
        "pseudonyms": True,
    }
    (tmp_path / "key").write_bytes(KEY[:5])
    for words in (["--key", "key"], ["--key", "gone"], ["--key", "."], ["--format", "xml"]):
        code, out, err = fedparity("export", "run", *words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
    code, out, err = fedparity("export", "nothing")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert contents(tmp_path / "run") == before


def test_the_order_of_rows_does_not_undo_pseudonyms(results, tmp_path):
    export(results, tmp_path / "plain")
    export(results, tmp_path / "secret", key=KEY)
    for name, unit in (("clients", ("method", "seed")), ("participation", ("method", "seed", "round"))):
        texts = {k: (tmp_path / k / f"{name}.csv").read_text().splitlines() for k in ("plain", "secret")}
        rows = {k: list(csv.DictReader(text)) for k, text in texts.items()}
        assert len(rows["plain"]) == len(rows["secret"])
        groups = {}
        for row in rows["secret"]:
            groups.setdefault(tuple(row[key] for key in unit), []).append(row["client"])
        assert all(names == sorted(names) for names in groups.values())
        assert any(len(names) > 2 for names in groups.values())


def test_tables_are_not_written_over_what_a_run_wrote(results, tmp_path):
    """With a key clients.csv is another file than the run's own."""
    run_into(tmp_path / "run", spec_of("rounds=1"), save=True)
    with pytest.raises(ConfigError, match="run holds a run, whose files are sealed; give another --out"):
        export(results, tmp_path / "run", key=KEY)


def test_no_file_but_the_spec_tells_where_a_trace_lies(tmp_path):
    """Folders tell whose machine it was."""
    from fedparity import execute, write_report
    from fedparity.experiment.compare import ComparedRun, compare
    from fedparity.experiment.spec_file import parse
    from fedparity.report.export import export
    from fedparity.report.latex import to_latex

    where = tmp_path / "secret-folder"
    where.mkdir()
    save_trace(Trace.from_matrix(np.ones((3, 4))), where / "t.csv")
    spec = f'version = 2\nrounds = 3\ncohort = 2\n[population]\nclients = 4\navailability = "{where}/t.csv"\n'
    run = execute(parse(f'{spec}[data]\nset = "quadratic"\n[[methods]]\nname = "uniform"\n', "paths"))
    out = tmp_path / "out"
    out.mkdir()
    run.save(out)
    write_report(run, out / "report.html")
    export(run, out / "tables", "csv")
    found = compare([ComparedRun("run", run)])
    assert "secret-folder" not in json.dumps(found.to_json()) + to_latex(found)
    told = {p.name for p in out.rglob("*") if p.is_file() and "secret-folder" in p.read_text(encoding="utf-8")}
    assert told == {"spec.toml", "spec.resolved.toml"}
