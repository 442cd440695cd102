"""Valid inputs with a few things wrong with them."""

import re

EXTREMES = [
    *(b"0 -0 -1 1 1e308 1e309 -1e309 5e-324 nan inf -inf 9223372036854775808 -9223372036854775809 0x7f 1_0".split()),
    b"9" * 40,
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"1" + b"0" * 400,
]
UNICODE = ["\u202e", "\ud7ff", "\ufeff", "\u0000", "\u2028", "ﬁ", "İ", "😀", "é", "\x7f", "\x1b"]
NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")


def splice(out, at, end, rng, others):
    other = others[int(rng.integers(len(others)))]
    start = int(rng.integers(len(other)))
    out[at:end] = other[start : start + int(rng.integers(1, 60))]


def extreme(out, at, end, rng, others):  # noqa: ARG001 - all changes are called alike
    found = NUMBER.search(out, at)
    if found:
        out[found.start() : found.end()] = EXTREMES[int(rng.integers(len(EXTREMES)))]


def exchange(out, at, end, rng, others):  # noqa: ARG001 - all changes are called alike
    lines = out[at:].split(b"\n")
    one, two = rng.integers(0, len(lines), 2)
    lines[one], lines[two] = lines[two], lines[one]
    out[at:] = b"\n".join(lines)


CHANGES = (
    lambda out, at, end, rng, others: out.__setitem__(at, out[at] ^ (1 << int(rng.integers(8)))),  # noqa: ARG005
    lambda out, at, end, rng, others: out.__setitem__(at, int(rng.integers(256))),  # noqa: ARG005
    lambda out, at, end, rng, others: out.__delitem__(slice(at, end)),  # noqa: ARG005
    lambda out, at, end, rng, others: out.__setitem__(slice(at, at), out[at:end]),  # noqa: ARG005
    lambda out, at, end, rng, others: out.__setitem__(  # noqa: ARG005
        slice(at, at), UNICODE[int(rng.integers(len(UNICODE)))].encode()
    ),
    splice,
    extreme,
    exchange,
)


def mutate(data, rng, others, after=0):
    """A valid file with a few things wrong with it, from byte `after` on."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if len(out) <= after:
            out += b"x"
        at = int(rng.integers(after, len(out)))
        end = min(len(out), at + int(rng.geometric(0.08)))
        CHANGES[int(rng.integers(len(CHANGES)))](out, at, end, rng, others)
    return bytes(out)
