"""One line per round: exact there and back, and chained."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import Journal, Ledger
from fedparity.core.journal import GENESIS, from_json, to_json
from fedparity.core.types import Credit, LateCredit, RoundRecord, SurrogateCredit

REAL = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.lists(st.integers(0, 2**40), max_size=4, unique=True).map(lambda x: np.array(sorted(x), dtype=np.int64))


def floats(of, size):
    return st.lists(of, min_size=size, max_size=size).map(lambda x: np.array(x, dtype=np.float64))


@st.composite
def records(draw):
    ids = {name: draw(IDS) for name in ("available", "selected", "completed", "row_clients", "stand_in")}
    lossy = st.floats(allow_infinity=False)
    return RoundRecord(
        round=draw(st.integers(0, 10**9)),
        available=ids["available"],
        selected=ids["selected"],
        probs=draw(floats(REAL, len(ids["selected"]))),
        design=draw(st.sampled_from(["exact", "deterministic", "unknown"])),
        wasted=draw(st.integers(0, 9)),
        completed=ids["completed"],
        utility=draw(floats(REAL, len(ids["completed"]))),
        loss=draw(floats(lossy, len(ids["completed"]))),
        failed=tuple(draw(st.lists(st.tuples(st.integers(0, 99), st.text()), max_size=3))),
        abandoned=draw(st.booleans()),
        row_clients=ids["row_clients"],
        row_ages=ids["row_clients"] % 7,
        row_weights=draw(floats(REAL, len(ids["row_clients"]))),
        surrogate=SurrogateCredit(
            ids["stand_in"], draw(floats(REAL, len(ids["stand_in"]))), draw(REAL), draw(st.floats(allow_infinity=False))
        ),
        model_sha256=draw(st.text("0123456789abcdef", min_size=64, max_size=64)),
    )


def flat(record):
    """Every field as bytes, NaN equal to NaN."""
    out = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            out |= {f"{field.name}.{k}": v for k, v in flat(value).items()}
        elif isinstance(value, np.ndarray):
            out[field.name] = (value.dtype.str, np.where(value != value, np.nan, value).tobytes())  # noqa: PLR0124
        else:
            out[field.name] = repr(value)
    return out


@given(records())
def test_a_line_reads_back_exactly(record):
    line = to_json(record)
    assert line.isascii()
    assert "\n" not in line
    assert flat(from_json(line)) == flat(record)
    assert to_json(from_json(line)) == line
    assert list(json.loads(line)) == sorted(json.loads(line))


A_RECORD = RoundRecord(
    round=3,
    available=np.array([0, 1, 2]),
    selected=np.array([0, 2]),
    probs=np.array([0.5, 1.0]),
    design="exact",
    wasted=0,
    completed=np.array([0]),
    utility=np.array([0.25]),
    loss=np.array([np.nan]),
    failed=((2, "zerrissen: ☂\u2028\n"),),
    abandoned=False,
    row_clients=np.array([0]),
    row_ages=np.array([0]),
    row_weights=np.array([1.0]),
    surrogate=SurrogateCredit(np.array([1]), np.array([0.5]), 0.5, 0.125),
    model_sha256="ab" * 32,
)
CHANGES = {
    "round": 4,
    "available": np.array([0, 2]),
    "selected": np.array([1, 2]),
    "probs": np.array([0.5, np.nextafter(1.0, 0)]),
    "design": "unknown",
    "wasted": 1,
    "completed": np.array([2]),
    "utility": np.array([np.nextafter(0.25, 1)]),
    "loss": np.array([0.0]),
    "failed": ((2, "zerrissen"),),
    "abandoned": True,
    "row_clients": np.array([1]),
    "row_ages": np.array([1]),
    "row_weights": np.array([-1.0]),
    "surrogate": SurrogateCredit(np.array([1]), np.array([0.5]), 0.5, np.nan),
    "model_sha256": "ac" * 32,
    "duration": np.array([1.5]),
    "others": Credit(np.array([1]), np.array([-0.25])),
    "joined": np.array([2]),
    "busy": np.array([3]),
    "late": LateCredit(np.array([1]), np.array([2]), np.array([0.5]), np.array([np.nan])),
    "notes": ("1 of 3 weights capped at 3/10",),
    "totals": {},
}


def head(*told):
    journal = Journal()
    for record in told:
        journal.on_round("", record, Ledger.empty(1), np.zeros(1))
    return journal.head()


def test_every_field_is_in_the_chain():
    assert set(CHANGES) == {f.name for f in dataclasses.fields(RoundRecord)}
    heads = {head(dataclasses.replace(A_RECORD, **{name: value})) for name, value in CHANGES.items()}
    heads |= {
        head(dataclasses.replace(A_RECORD, surrogate=dataclasses.replace(A_RECORD.surrogate, **{name: value})))
        for name, value in {"clients": np.array([2]), "utility": np.array([0.0]), "eta_sum": 1.0}.items()
    }
    late = CHANGES["late"]
    heads |= {
        head(dataclasses.replace(A_RECORD, late=dataclasses.replace(late, **{name: value})))
        for name, value in {
            "clients": np.array([2]),
            "origins": np.array([1]),
            "utility": np.zeros(1),
            "loss": np.ones(1),
        }.items()
    }
    assert len(heads | {head(A_RECORD), GENESIS}) == len(CHANGES) + 3 + 4 + 2


def test_the_chain_can_be_recomputed_by_anyone():
    digest = hashlib.sha256(b"fedparity-journal 1").hexdigest()
    for line in [to_json(A_RECORD)] * 2:
        digest = hashlib.sha256((digest + hashlib.sha256(line.encode()).hexdigest()).encode()).hexdigest()
    assert head(A_RECORD, A_RECORD) == digest
    other = dataclasses.replace(A_RECORD, round=4)
    assert head(A_RECORD, other) != head(other, A_RECORD)


def test_methods_have_chains_of_their_own():
    journal = Journal()
    for method in ("fair", "vanilla", "fair"):
        journal.on_round(method, A_RECORD, Ledger.empty(1), np.zeros(1))
    assert journal.head("fair") == head(A_RECORD, A_RECORD)
    assert journal.head("vanilla") == head(A_RECORD)
    assert journal.head("nobody") == GENESIS
    assert len(journal.lines("fair")) == len(list(journal.records("fair"))) == 2
    assert flat(next(journal.records("vanilla"))) == flat(A_RECORD)


def test_a_journal_may_keep_only_its_head():
    journal = Journal(keep=False)
    journal.on_round("", A_RECORD, Ledger.empty(1), np.zeros(1))
    assert journal.lines() == []
    assert journal.head() == head(A_RECORD)


GOOD = to_json(A_RECORD)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "{}",
        "[]",
        "null",
        "7",
        GOOD[:-5],
        GOOD.replace('"round":3', '"round":"three"'),
        GOOD.replace('"round":3,', ""),
        GOOD.replace('"available":[0,1,2]', f'"available":[{10**30}]'),
        GOOD.replace('"utility":[0.25]', '"utility":["much"]'),
        GOOD.replace('"failed":[[2', '"failed":[[2,3'),
        GOOD.replace('"surrogate":{', '"surrogate":7,"x":{'),
    ],
)
def test_a_line_that_is_none_is_refused(line):
    assert line != GOOD
    with pytest.raises((KeyError, OverflowError, TypeError, ValueError)):
        from_json(line)


@pytest.mark.parametrize("change", ["a column is missing", "a column too many", "one is shorter", "no lists"])
def test_totals_that_are_no_ledger_are_refused(change):
    totals = Ledger.empty(3).totals()
    record = dataclasses.replace(A_RECORD, totals=totals)
    assert Ledger.empty(1).then(from_json(to_json(record))) == dataclasses.replace(Ledger.empty(3), rounds=4)
    if change == "a column is missing":
        del totals["loss"]
    elif change == "a column too many":
        totals["more"] = [0, 0, 0]
    elif change == "one is shorter":
        totals["loss"].pop()
    else:
        totals = [1]
    with pytest.raises((TypeError, ValueError)):
        from_json(to_json(dataclasses.replace(A_RECORD, totals=totals)))
