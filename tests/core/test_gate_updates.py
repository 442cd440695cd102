"""A thousand malformed updates: each is refused with a reason, and the round is as if its client had failed."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedparity import ClientReport, Coordinator
from fedparity.core.errors import RefusedError
from fedparity.core.gate import DTYPES, MAX_HEADER, Gate, Tensor, decode, encode, nonce
from fedparity.core.intake import AT_ODDS
from fedparity.core.journal import to_json
from fedparity.local import Mixed

LAYOUT = (Tensor("w", (3, 2)), Tensor("b", (2,), "F32"), Tensor("s", ()))
SIZE = sum(tensor.size for tensor in LAYOUT)
CLIENTS, ROUND = 6, 3


def vector(seed=0):
    return np.random.default_rng(seed).normal(size=SIZE).astype(np.float32).astype(np.float64)


def split(payload):
    length = int.from_bytes(payload[:8], "little")
    return json.loads(payload[8 : 8 + length]), payload[8 + length :]


def packed(header, body, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def changed(name, key, value):
    def make(rng):  # noqa: ARG001 - all makers are called alike
        header, body = split(encode(vector(), LAYOUT))
        header[name][key] = value
        return packed(header, body)

    return make


def header_of(change):
    def make(rng):
        header, body = split(encode(vector(), LAYOUT))
        found = change(header, rng)
        return packed(header if found is None else found, body)

    return make


def text_of(change):
    def make(rng):
        header, body = split(encode(vector(), LAYOUT))
        return packed(change(json.dumps(header).encode(), rng), body)

    return make


def length_of(value):
    def make(rng):  # noqa: ARG001 - all makers are called alike
        header, body = split(encode(vector(), LAYOUT))
        return packed(header, body, value)

    return make


def rename(header, rng):
    key = rng.choice(list(header))
    names = ["W", "w ", "w\0", "../w", "", "__metadata__"]
    header[names[rng.integers(len(names))]] = header.pop(key)


def number(value):
    """A value of float64 in the place of one of the numbers."""

    def make(rng):
        bad = vector()
        bad[rng.integers(SIZE)] = value
        return encode(bad, LAYOUT)

    return make


def swapped(header, rng):  # noqa: ARG001 - all changes are called alike
    header["w"]["data_offsets"], header["s"]["data_offsets"] = header["s"]["data_offsets"], header["w"]["data_offsets"]


BYTES = {
    "nothing": lambda _: b"",
    "less than a length": lambda rng: bytes(rng.integers(0, 256, rng.integers(1, 8), dtype=np.uint8)),
    "noise": lambda rng: bytes(rng.integers(0, 256, rng.integers(8, 300), dtype=np.uint8)),
    "header length zero": length_of(0),
    "header length one": length_of(1),
    "header length huge": length_of(2**40),
    "header length negative": length_of(2**64 - 1),
    "header length beyond the payload": length_of(10_000),
    "header one byte too long": text_of(lambda text, _: text + b" " * (MAX_HEADER + 1 - len(text))),
    "header not JSON": text_of(lambda text, rng: text[: int(rng.integers(1, len(text)))]),
    "header not UTF-8": text_of(lambda text, _: text.replace(b'"w"', b'"\xff"')),
    "header is a list": header_of(lambda header, _: [header]),
    "header is a number": header_of(lambda *_: 5),
    "header is null": text_of(lambda *_: b"null"),
    "header is empty": header_of(lambda *_: {}),
    "nesting bomb": text_of(lambda *_: b"[" * 100_000),
    "nesting bomb that closes": text_of(lambda *_: b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "a number of many digits": text_of(lambda *_: b'{"w":' + b"9" * 10_000 + b"}"),
    "missing key": header_of(lambda header, rng: header.pop(str(rng.choice(list(header)))) and None),
    "extra key": header_of(lambda header, _: header.update(extra=header["w"])),
    "renamed key": header_of(rename),
    "duplicate key": text_of(lambda text, _: text[:-1] + b', "w": ' + json.dumps({}).encode() + b"}"),
    "entry is no object": header_of(lambda header, rng: header.update(w=rng.choice([1, 2]).item())),
    "entry is null": header_of(lambda header, _: header.update(w=None)),
    "entry has more keys": header_of(lambda header, _: header["w"].update(more=1)),
    "wrong dtype": changed("w", "dtype", "F32"),
    "unknown dtype": changed("w", "dtype", "BF16"),
    "dtype is a number": changed("w", "dtype", 64),
    "wrong shape": changed("w", "shape", [2, 3]),
    "flat shape": changed("w", "shape", [6]),
    "broadcastable shape": changed("b", "shape", [1]),
    "negative shape": changed("w", "shape", [-3, -2]),
    "bool shape": changed("b", "shape", [True]),
    "float shape": changed("b", "shape", [2.0]),
    "text shape": changed("w", "shape", "32"),
    "huge shape": changed("w", "shape", [2**40, 2**40]),
    "float offsets": changed("w", "data_offsets", [0.0, 48]),
    "offsets overlap": changed("b", "data_offsets", [40, 48]),
    "offsets reversed": changed("w", "data_offsets", [48, 0]),
    "offsets beyond": changed("w", "data_offsets", [0, 10**9]),
    "offsets negative": changed("w", "data_offsets", [-48, 0]),
    "offsets with a gap": changed("s", "data_offsets", [57, 65]),
    "offsets swapped": header_of(swapped),
    "offsets null": changed("w", "data_offsets", None),
    "truncated payload": lambda rng: encode(vector(), LAYOUT)[: -int(rng.integers(1, 60))],
    "trailing bytes": lambda rng: encode(vector(), LAYOUT) + bytes(int(rng.integers(1, 60))),
}
"""Payloads that `decode` must refuse."""

GOOD = ClientReport(0, vector(), 5, 1.0, 0.5, 0.25)


def delta(value):
    return lambda report, plan, rng: replace(report, delta=value(report.delta.copy(), rng))  # noqa: ARG005


def at(value):
    def put(found, rng):
        found[rng.integers(len(found))] = value
        return found

    return delta(put)


def field(**fields):
    return lambda report, plan, rng: replace(report, **fields)  # noqa: ARG005


REPORTS = {
    "NaN": at(np.nan),
    "Inf": at(np.inf),
    "-Inf": at(-np.inf),
    "norm 1e308": at(1e308),
    "norm -1e308": delta(lambda found, _: np.full_like(found, -1e308)),
    "norm above the bound": at(1.1e9),
    "no update": field(delta=None),
    "a list": delta(lambda found, _: found.tolist()),
    "one number": delta(lambda found, _: found[:1]),
    "no dimensions": delta(lambda found, _: found[0].reshape(())),
    "a column": delta(lambda found, _: found.reshape(-1, 1)),
    "a row": delta(lambda found, _: found.reshape(1, -1)),
    "too short": delta(lambda found, rng: found[: rng.integers(1, SIZE)]),
    "too long": delta(lambda found, rng: np.append(found, np.zeros(rng.integers(1, 9)))),
    "empty": delta(lambda found, _: found[:0]),
    "float32": delta(lambda found, _: found.astype(np.float32)),
    "integers": delta(lambda found, _: found.astype(np.int64)),
    "complex": delta(lambda found, _: found.astype(np.complex128)),
    "booleans": delta(lambda found, _: found > 0),
    "big-endian": delta(lambda found, _: found.astype(">f8")),
    "objects": delta(lambda found, _: found.astype(object)),
    "texts": delta(lambda found, _: found.astype("U8")),
    "num_samples 0": field(num_samples=0),
    "num_samples -1": field(num_samples=-1),
    "num_samples 1e12": field(num_samples=10**12),
    "num_samples 1e400": field(num_samples=10**400),
    "num_samples NaN": field(num_samples=float("nan")),
    "num_samples inf": field(num_samples=float("inf")),
    "num_samples a text": field(num_samples="5"),
    "num_samples nothing": field(num_samples=None),
    "infinite loss before": field(loss_before=float("inf")),
    "infinite loss after": field(loss_after=float("-inf")),
    "infinite accuracy": field(accuracy_before=float("inf")),
    "a loss no float can hold": field(loss_before=10**400),
    "a loss in words": field(loss_before="low"),
    "a nonce of another round": lambda r, plan, _: replace(
        r, nonce=nonce(replace(plan, round=plan.round - 1), r.client)
    ),
    "a nonce of another client": lambda r, plan, _: replace(r, nonce=nonce(plan, r.client + 1)),
    "a nonce of another run": lambda r, plan, _: replace(r, nonce=nonce(replace(plan, run="theirs"), r.client)),
    "a nonce made up": field(nonce="0" * 32),
    "an empty nonce": field(nonce=""),
    "a failure": field(failure="gave up"),
    "a failure that shouts": field(failure="\x1b[31m" + "x" * 10_000),
}
"""Reports that the gate must refuse."""


def test_there_are_enough_kinds():
    assert len(BYTES) + len(REPORTS) >= 25 + 2


def test_a_thousand_malformed_updates_are_refused_with_a_reason():
    rng = np.random.default_rng(4)
    kinds = [*BYTES, *REPORTS]
    coordinator, plan, _ = a_round()
    for n in range(1000):
        kind = kinds[n % len(kinds)]
        if kind in BYTES:
            with pytest.raises(RefusedError) as caught:
                decode(BYTES[kind](rng), LAYOUT)
            reason = str(caught.value)
        else:
            reason = coordinator.gate.admit(REPORTS[kind](GOOD, plan, rng), plan)
        assert isinstance(reason, str), kind
        assert reason, kind
        assert reason.isprintable(), kind
        assert len(reason) <= 300, kind


def a_round():
    """A round in the middle of a run, in which all are asked, and what everybody honestly reports."""
    coordinator = Coordinator(CLIENTS, seed=1, gate=Gate(run="ours"), local=Mixed(0.5))
    state = coordinator.init(CLIENTS, np.zeros(SIZE))
    everybody = np.arange(CLIENTS)
    for _ in range(ROUND):
        plan, state = coordinator.plan(state, everybody)
        _, state = coordinator.absorb(state, plan, honest(plan))
    plan, state = coordinator.plan(state, everybody)
    return coordinator, plan, state


def honest(plan):
    return [ClientReport(k, vector(10 * plan.round + k), 5 + k, 1.0, 0.5, nonce=nonce(plan, k)) for k in range(CLIENTS)]


def absorbed(reports, coordinator, plan, state):
    record, after = coordinator.absorb(state.copy(), plan, reports)
    return record, after


def lines_without_reasons(record):
    line = json.loads(to_json(record))
    line["failed"] = [client for client, _ in line["failed"]]
    return line


def same_state(a, b):
    return (
        a.params.tobytes() == b.params.tobytes()
        and a.ledger == b.ledger
        and a.kept.keys() == b.kept.keys()
        and all(a.kept[k].tobytes() == b.kept[k].tobytes() for k in a.kept)
    )


@pytest.mark.parametrize("kind", REPORTS)
def test_the_round_is_the_one_in_which_that_client_failed(kind):
    coordinator, plan, state = a_round()
    good, rng = honest(plan), np.random.default_rng(1)
    for client in (0, CLIENTS - 1):
        others = [r for r in good if r.client != client]
        failed = absorbed([*others, ClientReport(client, failure="gone")], coordinator, plan, state)
        refused = absorbed([*others, REPORTS[kind](good[client], plan, rng)], coordinator, plan, state)
        assert lines_without_reasons(refused[0]) == lines_without_reasons(failed[0])
        assert refused[0].model_sha256 == failed[0].model_sha256
        assert same_state(refused[1], failed[1])
        assert [k for k, _ in refused[0].failed] == [client]
        assert refused[0].failed[0][1].isprintable()
        assert len(refused[0].failed[0][1]) <= 200
        whole = absorbed(good, coordinator, plan, state)
        assert whole[0].model_sha256 != failed[0].model_sha256


def test_all_clients_malformed_is_an_abandoned_round():
    coordinator, plan, state = a_round()
    good, rng = honest(plan), np.random.default_rng(1)
    kinds = list(REPORTS)
    bad = [REPORTS[kinds[3 * report.client]](report, plan, rng) for report in good]
    record, after = absorbed(bad, coordinator, plan, state)
    assert record.abandoned
    assert after.params.tobytes() == state.params.tobytes()
    assert len(record.failed) == CLIENTS


def test_a_malformed_report_does_not_undo_a_good_one():
    coordinator, plan, state = a_round()
    good, rng = honest(plan), np.random.default_rng(1)
    whole = absorbed(good, coordinator, plan, state)
    for kind, make in REPORTS.items():
        for order in (1, -1):
            got = absorbed([*good, make(good[2], plan, rng)][::order], coordinator, plan, state)
            assert to_json(got[0]) == to_json(whole[0]), kind
            assert same_state(got[1], whole[1]), kind


def test_of_reports_that_differ_none_counts_and_repeats_count_once():
    coordinator, plan, state = a_round()
    good = honest(plan)
    whole = absorbed(good, coordinator, plan, state)
    assert to_json(absorbed(good * 3, coordinator, plan, state)[0]) == to_json(whole[0])
    failed = absorbed([r for r in good if r.client != 2], coordinator, plan, state)
    for other in (
        replace(good[2], delta=good[2].delta + 1),
        replace(good[2], num_samples=99),
        replace(good[2], loss_after=0.0),
    ):
        for reports in ([*good, other], [other, *good], [*good, other, other]):
            got = absorbed(reports, coordinator, plan, state)
            assert lines_without_reasons(got[0]) == lines_without_reasons(failed[0])
            assert got[0].failed == ((2, AT_ODDS),)
            assert same_state(got[1], failed[1])


def test_strangers_are_not_heard():
    coordinator, plan, state = a_round()
    good = honest(plan)
    whole = absorbed(good, coordinator, plan, state)
    strangers = [replace(good[0], client=k) for k in (-1, CLIENTS, 10**9)]
    assert to_json(absorbed([*strangers, *good], coordinator, plan, state)[0]) == to_json(whole[0])


def test_nonces_fit_one_run_round_and_client():
    _, plan, _ = a_round()
    found = {
        nonce(replace(plan, run=run, round=round), client)
        for run in ("a", "b", "a/1")
        for round in range(30)
        for client in range(30)
    }
    assert len(found) == 3 * 30 * 30
    assert isinstance(Gate().admit(replace(GOOD, nonce=nonce(plan, 0)), plan), ClientReport)


@pytest.mark.parametrize("kind", ["huge shape", "header length huge", "offsets beyond", "a number of many digits"])
def test_nothing_is_allocated_for_what_is_only_declared(kind):
    payload = BYTES[kind](np.random.default_rng(0))
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError):
            decode(payload, LAYOUT)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_small_payload_for_a_large_model_allocates_nothing():
    layout = (Tensor("w", (10_000, 10_000)),)
    small = packed({"w": {"dtype": "F64", "shape": [10_000, 10_000], "data_offsets": [0, 8 * 10**8]}}, b"\0" * 64)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError, match="this model needs 800000000 more"):
            decode(small, layout)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(
    st.lists(st.tuples(st.sampled_from(list(DTYPES)), hnp.array_shapes(max_dims=3, max_side=4)), max_size=4),
    st.randoms(use_true_random=False),
)
def test_a_good_payload_comes_back_exactly(parts, random):
    layout = [Tensor(f"t{i}", shape, dtype) for i, (dtype, shape) in enumerate(parts)]
    values = [random.uniform(-1e3, 1e3) for tensor in layout for _ in range(tensor.size)]
    kinds = [tensor.dtype for tensor in layout for _ in range(tensor.size)]
    sent = np.array([float(np.float32(v)) if d == "F32" else v for v, d in zip(values, kinds, strict=True)])
    assert decode(encode(sent, layout), layout).tobytes() == sent.astype(np.float64).tobytes()


@given(hnp.arrays(np.float64, SIZE, elements=st.floats(width=32)))
def test_any_numbers_come_through_the_first_door(sent):
    """Finite or not is the second door's business."""
    got = decode(encode(sent, LAYOUT), LAYOUT)
    assert np.array_equal(got, sent, equal_nan=True)


def test_metadata_and_spaces_are_part_of_the_format():
    header, body = split(encode(vector(), LAYOUT))
    assert decode(packed(header | {"__metadata__": {"from": "them"}}, body), LAYOUT).tolist() == vector().tolist()
    assert decode(packed(json.dumps(header).encode() + b"     ", body), LAYOUT).tolist() == vector().tolist()
    turned = dict(reversed(header.items()))
    assert decode(packed(turned, body), LAYOUT).tolist() == vector().tolist()


@settings(max_examples=300)
@given(st.data())
def test_mutated_payloads_are_decoded_or_refused(data):
    payload = bytearray(encode(vector(), LAYOUT))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(payload) - 1)))
        how = data.draw(st.sampled_from(["flip", "cut", "add"]))
        if how == "flip" and payload:
            payload[place] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del payload[place:]
        else:
            payload[place:place] = data.draw(st.binary(max_size=9))
    try:
        assert decode(bytes(payload), LAYOUT).shape == (SIZE,)
    except RefusedError as error:
        assert str(error)  # noqa: PT017 - both ways out are right
