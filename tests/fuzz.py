"""Every parser against mutated input: `make fuzz` (SIZE inputs each), or `python tests/fuzz.py SIZE [PARSER...]`.

With atheris installed, inputs are found by coverage (libFuzzer); without it, and with `--own`, by the mutator of the
test suite. Either way an input may end in an answer or in a `FedparityError`; anything else, more than 2 s of CPU or
200 MB more memory for an input under 1 kB, is printed with the input and ends the target with exit code 1.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import pickle  # noqa: TID251 - only to write seeds
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fedparity import ClientReport, Cohort, RoundPlan, load_trace
from fedparity.core.errors import FedparityError, InputError
from fedparity.core.gate import Gate, Tensor, decode, encode
from fedparity.data.archive import read_tgz
from fedparity.data.layout import NotThatError
from fedparity.data.mnist import read_idx
from mutations import mutate

SECONDS, MEGABYTES, SMALL = 2.0, 200, 1000
KEPT = 200
"""How many inputs that were read are mutated further."""
SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Failure(Exception):  # noqa: N818 - what was found
    """An input that a parser does not hold against."""


def spec(_):
    from fedparity.experiment.spec_file import parse, starter, to_toml

    def read(data):
        made = parse(data.decode("utf-8", "replace"), "fuzzed")
        assert parse(to_toml(made), "again") == made

    small = b'version = 2\n[[methods]]\nname = "uniform"\nscheduler = {name = "parity", target = 0.5}\n'
    return [small, starter().encode()], read


def trace_of(suffix, *seeds):
    def make(folder):
        path = folder / f"fuzzed{suffix}"

        def read(data):
            path.write_bytes(data)
            load_trace(path)

        return list(seeds), read

    return make


PLAIN = b"# fedparity-trace 1\n# rounds=3\nclient,first_seen_s,last_seen_s\na,0,9000\nb,1,8000\n"
PLAIN += b"\nclient,start_s,end_s\na,5,900\n"
TABLE = b"client,start_s,end_s\na,3600,7200\nb,0,1800\n"
STAMPS = "2020-01-29 18:42:18\tbattery_charged_on\n2020-01-29 18:50:18\twifi\n2020-01-30 01:00:00\t50.0%\n"
FLASH = json.dumps({"0": {"messages": STAMPS}, "1": {"messages": "2020-01-29 18:42:18\tscreen_off\n"}}).encode()
CLIENT = {"active": [10, 5000], "inactive": [900, 9000], "finish_time": 90000, "duration": 9}
FEDSCALE = [pickle.dumps({1: CLIENT, 2: CLIENT}, protocol=p) for p in (0, 2, 4)]


def update(_):
    layout = [Tensor("w", (2, 2), "F32"), Tensor("b", (3,))]
    return [encode(np.arange(7.0), layout)], lambda data: decode(data, layout)


def arrays(_):
    from safetensors.numpy import save

    from fedparity.store.arrays import unpacked

    return [save({"a": np.arange(4.0), "b": np.zeros((2, 2), np.int32)})], lambda data: unpacked(data, "fuzzed")


def report(_):
    plan = RoundPlan(0, 0, np.arange(2), Cohort(np.arange(2), np.ones(2), "deterministic"), np.zeros(3))
    fields = ("client", "num_samples", "loss_before", "loss_after", "accuracy_before", "loss_rms", "duration", "nonce",
              "failure", "origin", "kept")  # fmt: skip

    def read(data):
        try:
            said = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        if isinstance(said, dict):
            delta = said.get("delta")
            with contextlib.suppress(ValueError, TypeError, OverflowError):
                delta = np.array(delta, dtype=np.float64)
            given = {name: said[name] for name in fields if name in said}
            found = Gate().admit(ClientReport(**({"client": 0} | given), delta=delta), plan)
            assert isinstance(found, (str, ClientReport))

    seed = {"client": 0, "delta": [0.1, 2, -3], "num_samples": 4, "loss_before": 1.5, "duration": 2, "nonce": None}
    return [json.dumps(seed).encode()], read


def journal(_):
    from fedparity.core.journal import to_json
    from fedparity.core.ledger import Ledger
    from fedparity.experiment.run import record_of
    from fedparity.store import Committed
    from fedparity.testing import views

    lines = []

    class Told(Ledger):
        def record(self, record):
            lines.append(to_json(record).encode())

    views.record(Told.empty(12), 3, np.arange(5), np.array([1, 4]), np.random.default_rng(0))
    return lines, lambda data: record_of("m", Committed(3, data.decode("utf-8", "replace"), "", [], 0.0))


def audit(folder):
    from fedparity.audit import open_audit

    path = folder / "log.csv"

    def read(data):
        path.write_bytes(data)
        open_audit([path])

    return [b"round,client,selected\n0,a,1\n0,b,0\n1,a,1\n1,b,1\n"], read


def rule(_):
    from fedparity.traces.rules import parse_rule

    return [b"charging & wifi & (battery>=50 | !locked)"], lambda data: parse_rule(data.decode("utf-8", "replace"))


def condition(_):
    from fedparity.audit.fail_if import holds

    known = {"gini": 0.1, "gap": 2, "missing": None}
    return [b"gini > .05 and gap <= 3 or missing == 1e2"], lambda data: holds(data.decode("utf-8", "replace"), known)


def component(_):
    from fedparity.schedulers import SCHEDULERS

    seeds = [b"with_quota:inner=parity:target=0.5,quota=2", b"parity:target=share,horizon=0", b"oort"]
    return seeds, lambda data: SCHEDULERS.build(data.decode("utf-8", "replace"))


def npz(folder):
    from fedparity.data.npy import load_npz

    path, x, y = folder / "fuzzed.npz", np.zeros((2, 1, 1), np.uint8), np.array([0, 1])
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    seeds = [path.read_bytes()]
    np.savez_compressed(path, x_train=x.astype(np.float32), y_train=y, x_test=x.astype(np.float32), y_test=y)

    def read(data):
        path.write_bytes(data)
        load_npz(path)

    return [*seeds, path.read_bytes()], read


def samples(folder):
    from fedparity.data.table import load_table

    path = folder / "fuzzed.csv"

    def read(data):
        path.write_bytes(data)
        load_table(path, "y", "who")

    rows = b"".join(b"%d,.5,%s,%d\n" % (n % 2, b"ab"[n % 2 :][:1], n) for n in range(12))
    return [b"y,x1,who,x2\n" + rows], read


def refusing(read):
    """Of what a file of a known data set does not hold, whoever calls makes one line with a path."""

    def one(data):
        try:
            read(data)
        except NotThatError as error:
            raise InputError(str(error)) from error

    return one


def archive(folder):
    path, packed = folder / "fuzzed.tgz", io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("a/wanted", "a/other"):
            member = tarfile.TarInfo(name)
            member.size = 9
            tar.addfile(member, io.BytesIO(b"some data"))

    def read(data):
        path.write_bytes(data if data[:2] == b"\x1f\x8b" else gzip.compress(data, 1))
        read_tgz(path, {"a/wanted": 100})

    return [packed.getvalue()[:2560], gzip.compress(packed.getvalue()[:2560])], refusing(read)


def images(_):
    head = b"\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02"
    return [head + b"abcd"], refusing(lambda data: read_idx(data, "fuzzed"))


def pickled(_):
    from fedparity.core.safe_pickle import read_pickle

    value = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [1, 2], "names": ("a", None, 1.5)}
    return [pickle.dumps(value, protocol=p) for p in (0, 2, 4)], lambda data: read_pickle(data, "fuzzed", arrays=True)


def heads(folder):
    from fedparity.store import Disk
    from fedparity.store.heads import HEADS, Heads

    disk = Disk(folder)
    written = Heads(disk)
    written.add(0, "parity", (3, "ab" * 32))
    written.write(closed=True)
    return [disk.read(HEADS)], lambda data: (folder.joinpath(HEADS).write_bytes(data), Heads(disk))


def reply(_):
    """What a client of Flower sends: a line of settings, then the bytes of an array."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    from fedparity.engines.flower import codec

    sent = codec.reply_content(ClientReport(1, np.arange(3.0), num_samples=4, loss_before=1.5), "nonce")
    seed = json.dumps(dict(sent[codec.REPORT])).encode() + b"\n" + sent[codec.DELTA][codec.W].data

    def read(data):
        said, _, array = data.partition(b"\n")
        try:
            settings = ConfigRecord(json.loads(said.decode("utf-8", "replace")))
        except (ValueError, TypeError, AttributeError, RecursionError):
            return  # Flower's own to refuse
        arrays = ArrayRecord({codec.W: Array("float64", (3,), codec.NUMPY, array)})
        content = RecordDict({codec.REPORT: settings, codec.DELTA: arrays})
        assert isinstance(codec.read_reply(content, 1, np.zeros(3)), ClientReport)

    return [seed], read


def arguments(folder):
    """Words of the command line, up to where work would begin."""
    import typer.main

    from fedparity.cli import catalogue
    from fedparity.cli.main import app, main

    os.chdir(folder)
    command, tables = typer.main.get_command(app), catalogue.tables()  # made once: they are most of what a call costs
    once = patch.multiple(typer.main, get_command=lambda _: command), patch.multiple(catalogue, tables=lambda: tables)
    seeds = [b"schedule\n--scheduler\nparity:target=0.5\n--rounds\n-1", b"list\nweightings\nfedavg", b"verify\nnone",
             b"compare\n--methods\nuniform\n--rounds\n0", b"export\nnone\n--format\ncsv", b"audit\nnone.csv\n--json",
             b"erase\nnone\n3\n--totals", b"trace\nstats\nnone.csv\n--rule\nwifi", b"run\nnone.toml\n--set\nseed=1",
             b"attack\n--scheduler\noort\n--clients\n-1", b"simulate\n--seed\n7\n--days\n0"]  # fmt: skip
    safe = {"schedule": ["--rounds", "-1"], "compare": ["--rounds", "0"], "attack": ["--clients", "-1"],
            "simulate": ["--days", "0"], "list": ["none"]}  # fmt: skip
    safe |= {name: [] for name in ("verify", "export", "audit", "erase", "trace", "run")}

    def read(data):
        words = [word.replace("\0", "") for word in data.decode("utf-8", "replace").split("\n")]
        if not words or words[0] not in safe:
            words = ["verify", *words]
        sys.argv = ["fedparity", *words, *safe[words[0]]]
        quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with once[0], once[1], quiet[0], quiet[1]:
            code = 0
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        if code not in (0, 1, 2, None):
            raise ValueError(f"exit code {code}")

    return seeds, read


PARSERS = {
    "spec": spec,
    "plain": trace_of(".csv", PLAIN),
    "tables": trace_of(".csv", TABLE),
    "flash": trace_of(".json", FLASH),
    "fedscale": trace_of(".pkl", *FEDSCALE),
    "rule": rule,
    "arrays": arrays,
    "update": update,
    "report": report,
    "journal": journal,
    "audit": audit,
    "condition": condition,
    "component": component,
    "npz": npz,
    "samples": samples,
    "archive": archive,
    "images": images,
    "pickled": pickled,
    "heads": heads,
    "reply": reply,
    "arguments": arguments,
}


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def place(error):
    """The line that raised: what tells apart how inputs were refused."""
    trail = error.__traceback__
    while trail.tb_next is not None:
        trail = trail.tb_next
    return trail.tb_frame.f_code.co_filename, trail.tb_lineno


def bounded(read):
    """A reader that complains of what is raised, of time and of memory; it says where an input was refused."""
    most = None

    def one(data):
        nonlocal most
        most, started, refused = memory() if most is None else most, time.process_time(), None
        try:
            read(data)
        except FedparityError as error:
            if not str(error) or "\n" in str(error):
                raise Failure(f"an error of {len(str(error))} characters, not one line: {data!r}") from error
            refused = place(error)
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {error} for {data!r}") from error
        took, grew = time.process_time() - started, memory() - most
        if len(data) >= SMALL:
            most += max(grew, 0)  # a peak is never taken back: later inputs are held to what they add to it
        elif took > SECONDS or grew > MEGABYTES:
            raise Failure(f"{took:.1f} s and {grew} MB for {data!r}")
        return refused

    return one


def fuzz_ours(name, size, seed=0):
    """`size` mutated inputs of our own making; how many were read.

    An input that was refused by a line that refused nothing before, and a few that were read, are mutated further.
    """
    with tempfile.TemporaryDirectory(dir=SHM) as folder:
        seeds, read = PARSERS[name](Path(folder))
        one, rng = bounded(read), np.random.default_rng(seed)
        seen, kept = {one(data) for data in seeds}, [*seeds]
        for n in range(size):
            data = mutate(kept[n // 2 % len(kept)] if n % 2 else seeds[n // 2 % len(seeds)], rng, kept)
            refused = one(data)
            if refused not in seen or (refused is None and n % 1000 == 0 and len(kept) < KEPT):
                seen.add(refused)
                kept += [data] if 0 < len(data) < 2 * SMALL else []
    return size


def fuzz_by_coverage(name, size):
    """`size` inputs that atheris finds, in this process, which it ends."""
    import atheris

    folder = tempfile.mkdtemp(dir=SHM)
    with atheris.instrument_imports(include=["fedparity"]):
        import fedparity.cli.main
        import fedparity.experiment.spec_file
        import fedparity.traces  # noqa: F401 - instrumented where it was not imported yet
    seeds, read = PARSERS[name](Path(folder))
    corpus = Path(folder) / "corpus"
    corpus.mkdir()
    for number, data in enumerate(seeds):
        (corpus / str(number)).write_bytes(data)
    limits = [f"-runs={size}", "-max_len=1000", "-timeout=20", "-rss_limit_mb=4000", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", str(corpus)], bounded(read))
    atheris.Fuzz()


def by_ourselves(name, size):
    """What was found; empty if nothing was."""
    try:
        fuzz_ours(name, size)
    except Failure as found:
        return str(found)
    return ""


def in_a_process(name, size):
    """The same by coverage; atheris ends the process that it runs in."""
    words = [sys.executable, __file__, "--child", str(size), name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode == 0:
        return ""
    return next((line for line in lines if "Failure" in line), done.stderr[-300:] or f"exit code {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", type=int, nargs="?", default=1_000_000, help="inputs per parser")
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help=f"{', '.join(PARSERS)}; all if left out")
    parser.add_argument("--own", action="store_true", help="mutate by ourselves even if atheris is there")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        fuzz_by_coverage(given.parsers[0], given.size)
        return
    coverage = not given.own
    if coverage:
        try:
            import atheris  # noqa: F401
        except ImportError:
            coverage = False
            print("atheris is not installed (pip install atheris): inputs are mutated by ourselves")  # noqa: T201
    failed = 0
    for name in given.parsers or PARSERS:
        started = time.monotonic()
        said = in_a_process(name, given.size) if coverage else by_ourselves(name, given.size)
        how = f"by {'coverage' if coverage else 'our mutator'}, {time.monotonic() - started:.0f} s"
        print(f"{name}: {given.size} inputs {how}, {said or 'held'}", flush=True)  # noqa: T201
        failed += bool(said)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
