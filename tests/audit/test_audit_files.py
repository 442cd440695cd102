"""Logs in every form give the same audit; bad ones are refused in one line with file, row and fix."""

import gzip
import io
import json
import sys

import numpy as np
import polars as pl
import pytest
from logs import csv_of, jsonl_of, rows_of, uniform_log, write

from fedparity import Trace, save_trace
from fedparity.audit import files, open_audit
from fedparity.audit.summary import summary
from fedparity.core.errors import ConfigError, FedparityError, InputError
from stored_runs import run_into, spec_of

ONLINE, ASKED = uniform_log(np.random.default_rng(8), 12, 25, 3)
ROWS = rows_of(ONLINE, ASKED)
NAMES = [f"c{k}" for k in range(12)]


def measured(*paths, **how):
    found = open_audit([str(path) for path in paths], **how)
    return {key: value.hex() for key, value in found.measures.items()}, found.log


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return measured(write(tmp_path_factory.mktemp("truth") / "log.csv", csv_of(ROWS)))[0]


def by_round():
    for t, (there, asked) in enumerate(zip(ONLINE, ASKED, strict=True)):
        yield {
            "round": t,
            "available": [NAMES[k] for k in np.flatnonzero(there)],
            "selected": [NAMES[k] for k in np.flatnonzero(asked)],
        }


def matrix():
    cells = np.where(ONLINE, ASKED.astype(int).astype(str), "")
    head = ",".join(["round", *NAMES])
    return "\n".join([head, *(",".join([str(t), *row]) for t, row in enumerate(cells))]) + "\n"


def words(rows):
    return [{**row, "selected": ("No", "Yes")[row["selected"]]} for row in rows]


FORMS = {
    "log.jsonl": jsonl_of(ROWS),
    "log.json": json.dumps(ROWS),
    "columns.json": json.dumps({key: [row[key] for row in ROWS] for key in ROWS[0]}),
    "rounds.jsonl": jsonl_of(by_round()),
    "rounds.json": json.dumps({str(one["round"]): one for one in by_round()}),
    "matrix.csv": matrix(),
    "words.csv": csv_of(words(ROWS)),
    "semicolons.csv": csv_of(ROWS).replace(",", ";"),
    "windows.csv": "\ufeff" + csv_of(ROWS).replace("\n", "\r\n"),
    "floats.csv": csv_of([{**row, "round": float(row["round"]), "selected": float(row["selected"])} for row in ROWS]),
    "spaces.csv": csv_of([{**row, "client": f" {row['client']} ", "round": f" {row['round']}"} for row in ROWS]),
    "others.csv": csv_of(
        [{"server_round": r["round"], "client_id": r["client"], "sampled": r["selected"]} for r in ROWS]
    ),
    "log.csv.gz": gzip.compress(csv_of(ROWS).encode()),
    "mixed.jsonl": jsonl_of(
        [{**row, "round": str(row["round"]) if i > 3 else row["round"]} for i, row in enumerate(ROWS)]
    ),
    "flower.json": json.dumps(
        {
            "losses_distributed": [[1, 0.5]],
            "metrics_distributed_fit": {
                "available": [[one["round"], one["available"]] for one in by_round()],
                "selected": [[one["round"], one["selected"]] for one in by_round()],
                "loss": [[1, 0.3]],
            },
        }
    ),
    "mlflow.csv": csv_of(
        [
            {"key": f"client/{row['client']}/{field}", "step": row["round"], "value": float(value)}
            for row in ROWS
            for field, value in (("available", 1), ("selected", row["selected"]))
        ]
        + [{"key": "loss", "step": 0, "value": 0.25}]
    ),
}


def turned():
    cells = np.where(ONLINE, ASKED.astype(int).astype(str), "").T
    head = ",".join(["client", *(f"round_{t}" for t in range(len(ONLINE)))])
    return "\n".join([head, *(",".join([name, *row]) for name, row in zip(NAMES, cells, strict=True))]) + "\n"


def chart():
    """What Weights & Biases writes of a chart: each series with its extremes, the run's name before it."""
    marks = ("", "__MIN", "__MAX")
    head = ["Step", *(f"run-1 - client/{name}/selected{mark}" for name in NAMES for mark in marks)]
    cells = np.where(ONLINE, ASKED.astype(int).astype(str), "").repeat(3, axis=1)
    return "\n".join(['"' + '","'.join(row) + '"' for row in [head, *([str(t), *c] for t, c in enumerate(cells))]])


def history():
    """What it writes of a run: steps, times and whatever was logged."""
    cells = np.where(ONLINE, ASKED.astype(int).astype(str), "")
    head = ["_step", "_runtime", "_timestamp", "accuracy", *(f"client/{name}/selected" for name in NAMES)]
    rows = ([t, t * 2.5, 1.7e9 + t, 0.5, *c] for t, c in enumerate(cells))
    return "\n".join([",".join(head), *(",".join(map(str, row)) for row in rows)]) + "\n"


FORMS |= {"turned.csv": turned(), "chart.csv": chart(), "history.csv": history()}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_log_has_the_same_measures(name, truth, tmp_path):
    assert measured(write(tmp_path / name, FORMS[name]))[0] == truth


def flash(*, level="DEBUG"):
    """The lines that FLASH prints; every third request fails."""
    for t, asked in enumerate(ASKED, start=1):
        yield f"INFO - ===================== Round {t} of 25 ====================="
        names = [NAMES[k] for k in np.flatnonzero(asked)]
        if level == "DEBUG" and names:
            yield f"DEBUG - selected client_ids: {names}"
            for i, name in enumerate(names):
                yield f"DEBUG - client {name} starts training..."
                done = "failed: 'timeout'" if i == 2 else "upload successfully with acc 0.25, loss 1.5e-01"
                yield f"DEBUG - client {name} {done}"


def fedscale():
    for t, asked in enumerate(ASKED, start=1):
        yield f"(11-18) INFO [aggregator.py:410] Wall clock: 9 s, round: {t}, Planned participants: 3, Training loss: 2"
        yield f"(11-18) INFO [aggregator.py:420] Selected participants to run: {np.flatnonzero(asked).tolist()}"


def test_what_simulators_print_is_read_round_by_round(tmp_path):
    assert ASKED.any(axis=1).all()
    plain = summary(open_audit([write(tmp_path / "asked.csv", csv_of([r for r in ROWS if r["selected"]]))]))
    for lines in (flash(), fedscale()):
        found = open_audit([write(tmp_path / "console.log", "\n".join(lines))])
        told = summary(found)
        assert [told[key] for key in ("gini", "gini_limit", "requests")] == [
            plain[key] for key in ("gini", "gini_limit", "requests")
        ]
        assert (told["first_round"], told["rounds"]) == (1, 25)
    found = open_audit([write(tmp_path / "console.log", "\n".join(flash()))]).log
    assert found.ledger.failed.sum() == (ASKED.sum(axis=1) == 3).sum()
    assert found.ledger.completed.sum() == ASKED.sum() - found.ledger.failed.sum()
    assert set(found.accuracy[np.isfinite(found.accuracy)]) == {0.25}
    with pytest.raises(InputError, match="names no client"):
        open_audit([write(tmp_path / "console.log", "\n".join(flash(level="INFO")))])


@pytest.mark.parametrize(
    ("columns", "asked", "used"),
    [
        ({"completed": (1, 0, 1, 0)}, 4, 2),  # requests and what came of them, not clients that were there
        ({"failed": ("", "timeout", "", "")}, 4, 3),
        ({"completed": (1, 0, 0, 0), "failed": (0, 1, 0, 0)}, 2, 1),
        ({"completed": (1, 0, 1, 0), "available": (1, 1, 1, 1)}, 2, 2),
    ],
)
def test_who_was_asked_follows_from_what_came_of_it(columns, asked, used, tmp_path):
    rows = [{"round": i // 2, "client": "ab"[i % 2], **{k: v[i] for k, v in columns.items()}} for i in range(4)]
    ledger = open_audit([write(tmp_path / "log.csv", csv_of(rows))]).log.ledger
    assert (ledger.selected.sum(), ledger.completed.sum()) == (asked, used)


def test_parquet_parts_and_stdin_too(truth, tmp_path, monkeypatch):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "log.parquet")
    assert measured(tmp_path / "log.parquet")[0] == truth
    parts = [write(tmp_path / f"{i}.csv", csv_of(ROWS[i::2])) for i in range(2)]
    assert measured(*parts)[0] == truth
    for data in (csv_of(ROWS).encode(), jsonl_of(ROWS).encode(), (tmp_path / "log.parquet").read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert measured("-")[0] == truth


def test_columns_of_any_name_a_register_and_a_table_of_presence(truth, tmp_path):
    renamed = [{"wave": r["round"], "device_id": r["client"], "picked": r["selected"]} for r in ROWS]
    path = write(tmp_path / "log.csv", csv_of(renamed))
    assert measured(path, columns=["round=wave", "selected=picked"])[0] == truth
    asked = write(tmp_path / "asked.csv", csv_of([r for r in ROWS if r["selected"]]))
    there = write(tmp_path / "there.csv", csv_of([{"round": r["round"], "client": r["client"]} for r in ROWS]))
    found, log = measured(asked, online=there, rounds="0-24")
    assert found == truth
    assert [origin.role for origin in log.sources] == ["log", "online"]
    people = csv_of([{"client": name, "group": "ab"[k % 2]} for k, name in enumerate([*NAMES, "never there"])])
    found, log = measured(path, columns=["round=wave", "selected=picked"], clients=write(tmp_path / "p.csv", people))
    assert log.num_clients == 13
    assert float.fromhex(found["never_available"]) == float.fromhex(truth["never_available"]) + 1
    assert dict(zip(log.names, log.groups, strict=True))["c1"] == "b"


def test_a_trace_file_says_who_was_there(truth, tmp_path):
    asked = write(tmp_path / "asked.csv", csv_of([r for r in ROWS if r["selected"]]))
    save_trace(Trace.from_rounds(12, (np.flatnonzero(t) for t in ONLINE), names=tuple(NAMES)), tmp_path / "trace.csv")
    found, log = measured(asked, online=tmp_path / "trace.csv", rounds="0-24")
    assert found == truth
    assert log.sources[1].name == "trace.csv"
    packed = write(tmp_path / "trace.csv.gz", gzip.compress((tmp_path / "trace.csv").read_bytes()))
    assert measured(asked, online=packed, rounds="0-24")[0] == truth
    for alone in (tmp_path / "trace.csv", packed):
        with pytest.raises(InputError, match="a trace says who was online, not who was asked"):
            open_audit([alone])


def test_our_own_journal_is_read_as_the_run_it_is(tmp_path):
    run = run_into(tmp_path / "run", spec_of("rounds=9"), save=True)
    for one in run.runs:
        how = {"where": [f"method={one.method}", "seed=0"], "cohort": 3, "rounds": "0-8"}
        people = write(tmp_path / "clients.csv", "client\n" + "".join(f"{k}\n" for k in range(14)))
        found = open_audit([tmp_path / "run" / "journal.jsonl"], clients=people, **how).measures
        stored = run.table
        for key in ("gini", "gini_limit", "selection_gap", "completed_gini", "utility_cv", "influence_gini"):
            assert found[key] == pytest.approx(float(stored.values[key][one.method][0]), rel=1e-12), key


def test_what_is_wrong_with_a_log_is_counted(tmp_path):
    rows = [
        {"round": t, "client": c, "available": 1, "selected": int(c == "a"), "time": 1000 + 60 * t}
        for t in range(40)
        for c in "abc"
        if t not in (7, 8)
    ]
    rows += [rows[0], rows[5]]
    rows[9]["available"], rows[9]["selected"] = 0, 1
    rows[-3]["time"] = 5
    for row in rows:
        row["time"] += 10**6 * (20 <= row["round"] < 39)
    found = open_audit([write(tmp_path / "log.csv", csv_of(rows))]).log
    assert {finding.what: finding.count for finding in found.findings} == {
        "rows of the same client and round": 2,
        "asked while offline": 1,
        "rounds without a row": 2,
        "clock runs backwards": 1,
        "clock jumps ahead": 1,
    }


HEAD = "round,client,selected\n"
BAD = {
    "": "is empty",
    "\n \n": "is empty",
    HEAD: "has no row",
    f"{HEAD}0,a,1\n-3,a,1\n": r"row 2: round='-3' must be a whole number of at least 0",
    f"{HEAD}0,a,1\n1.5,a,1\n": "row 2: round='1.5'",
    f"{HEAD}0,a,1\nnan,a,1\n": "row 2: round='nan'",
    f"{HEAD}0,a,1\n,a,1\n": "row 2: round=empty",
    f"{HEAD}0,a,1\n1,,1\n": "row 2: client=empty must be a name",
    f"{HEAD}0,a,1\n1,{'x' * 501},1\n": "row 2: client='xxx",
    f"{HEAD}0,a,1\n1,b,perhaps\n": "row 2: selected='perhaps' must be 1 or 0",
    f"{HEAD}0,a,1\n1,b,1,7\n": "row 2: 4 cells for 3 columns",
    f"{HEAD}0,a,0\n1,b,0\n": "nobody was ever asked",
    f"{HEAD}0,a,1\n99999999999,b,1\n": "rounds run from 0 to 99999999999",
    "round,client,utility\n0,a,1\n1,a,inf\n": "row 2: utility='inf' must be a finite number",
    "round,client,utility\n0,a,1\n1,a,much\n": "row 2: utility='much'",
    "round,client,time\n0,a,2026-01-31 12:00:00\n1,a,noon\n": "row 2: time='noon'",
    "round,client,available\n0,a,1\n": "not who was asked",
    "round,selected\n0,1\n": "no column is the client",
    "round,phone\n0,a\n": "round 0, client 'phone': 'a' must be 1 or 0",
    "_step,a - client/1/selected,b - client/1/selected\n0,1,0\n": "its columns are of 2 runs ('a', 'b')",
    "round,client/1/client\n0,a\n": "round 0, client 'client/1/client': 'a' must be 1 or 0",
    "client,selected\na,1\n": "no column is the round",
    "round,client,client_id,cid\n0,a,b,c\n": "",
    "round,client_id,cid\n0,b,c\n": "could both be the client",
    "round,client,round\n0,a,0\n": "two columns are called 'round'",
    "round,client,method\n0,a,x\n0,a,y\n": "--where method=x",
    '{"round": 0, "client": "a"}\n{"round": 1, "client":\n': "row 2: not JSON",
    '{"round": 0, "client": "\\ud800"}\n{"round": 1, "client": [1]}\n': "half a character",
    "[1, 2]": "row 1: must be an object",
    "[]": "names no client",
    '{"a": {"b": 1}}': "no column is",
    '{"metrics_distributed_fit": {"loss": [[1, 0.5]]}}': "a history that names no client",
    "[" * 100_000: "not JSON",
    '{"a":' * 100_000: "not JSON",
    "round," + ",".join(map(str, range(10**6))) + "\n": "1000001 columns, more than 20000",
    b"round,client\n0,a\n1,caf\xe9\n": "line 3: not UTF-8 text",
    b"round,client\n0,a\0b\n": "line 2: not text",
    b"\x1f\x8b\x08\x00": "line 1: not UTF-8",
    b"PAR1 but nothing else": "cannot be read as a table",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:32]))
def test_a_bad_log_is_one_clear_line(text, tmp_path):
    path = write(tmp_path / "log.csv", text)
    if not BAD[text]:
        open_audit([path])
        return
    with pytest.raises(FedparityError) as caught:
        open_audit([path])
    message = str(caught.value)
    assert BAD[text] in message
    assert "\n" not in message
    assert len(message) < 400
    assert message.startswith(("log.csv: ", "the log "))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    packed = gzip.compress(b"round,client\n" + b"0,a\n" * 50_000_000, compresslevel=9)
    with pytest.raises(InputError, match="unpacks to more than"):
        open_audit([write(tmp_path / "log.csv.gz", packed)])
    with pytest.raises(InputError, match="not UTF-8"):
        open_audit([write(tmp_path / "log.csv", packed)])


def test_other_inputs_are_refused_too(tmp_path, monkeypatch):
    good = write(tmp_path / "log.csv", csv_of(ROWS))
    for message, logs, how in (
        ("no log was given", [], {}),
        ("no such file", [tmp_path / "nothing.csv"], {}),
        ("is a folder but not a run", [tmp_path], {}),
        ("must be written NAME=VALUE", [good], {"columns": ["client"]}),
        ("unknown field in --map 'clients'", [good], {"columns": ["clients=a"]}),
        ("unknown column in --map client= 'device'", [good], {"columns": ["client=device"]}),
        ("has no column 'site' for --where", [good], {"where": ["site=a"]}),
        ("has no row with selected=7", [good], {"where": ["selected=7"]}),
        ("must be written FIRST-LAST", [good], {"rounds": "5"}),
        ("outside --rounds 3-9", [good], {"rounds": "3-9"}),
        ("cohort=0 must be", [good], {"cohort": 0}),
        ("only the log itself is read from stdin", [good], {"online": "-"}),
    ):
        with pytest.raises(FedparityError, match=message):
            open_audit(logs, **how)
    monkeypatch.setattr(files, "MOST_JSON", 10)
    with pytest.raises(InputError, match="bytes of JSON in one piece"):
        open_audit([write(tmp_path / "log.json", FORMS["log.json"])])
    run_into(tmp_path / "run", spec_of("rounds=3"))
    with pytest.raises(ConfigError, match="choose one: --where method=cup_authors"):
        open_audit([tmp_path / "run"])
    with pytest.raises(ConfigError, match="--cohort is for tables"):
        open_audit([tmp_path / "run"], cohort=3)
    assert summary(open_audit([tmp_path / "run"], where=["method=uniform"]))["availability_known"]


def test_columns_that_nothing_is_known_of_are_named(tmp_path):
    text = "round,client,gpu,notes,group\n0,a,x,y,north\n1,a,x,y,south\n1,b,x,y,south\n"
    said = open_audit([write(tmp_path / "log.csv", text)]).log.assumptions
    assert "columns not used: 'gpu', 'notes' (--map FIELD=COLUMN, if one of them is a field)" in said
    assert "1 client is in more than one group: of its groups the last by name is taken" in said


def test_clocks_of_different_zones_are_put_on_one(tmp_path):
    clocks = (("a", 0, "Z"), ("b", 2, "+02:00"), ("c", 1, "+0100"))
    lines = (f"{t},{c},2026-01-31T{t + h:02d}:30:00{z}" for t in range(9) for c, h, z in clocks)
    found = open_audit([write(tmp_path / "log.csv", "\n".join(["round,client,time", *lines]))])
    assert summary(found)["period"] == ["2026-01-31 00:30:00", "2026-01-31 08:30:00"]


def test_groups_can_be_combinations_of_columns(tmp_path):
    head = "round,client,region,model\n"
    cells = [f"{t},c{k},{'ns'[k % 2]},{'old' if k < 6 else 'new'}\n" for t in range(3) for k in range(12)]
    asked = write(tmp_path / "log.csv", head + "".join(cells) + "0,c12,n,\n")
    found = open_audit([asked], columns=["group=region+model"], min_group=1)
    assert {g.name: g.clients for g in found.groups.shown} == {
        **{f"{a} + {b}": 3 for a in "ns" for b in ("old", "new")},
        "(no group given)": 1,
    }
    assert not any("columns not used" in text for text in found.log.assumptions)
    people = "client,region,model\n" + "".join(f"c{k},x,y\n" for k in range(12))
    found = open_audit([asked], columns=["group=region+model"], clients=write(tmp_path / "p.csv", people), min_group=2)
    assert [g.name for g in found.groups.shown] == ["x + y"]
    with pytest.raises(FedparityError, match=r"unknown column in --map group= 'region\+size'"):
        open_audit([asked], columns=["group=region+size"])
