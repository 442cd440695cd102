"""Logs for tests: small random ones, written in any form, and what brute force says of them."""

import csv
import io
import itertools
import json

import numpy as np


def random_log(rng, clients=4, rounds=4, slots=2):
    """Who was online and who was asked, as rounds x clients; somebody is asked."""
    while True:
        online = rng.random((rounds, clients)) < rng.uniform(0.3, 1)
        asked = np.zeros_like(online)
        for t in range(rounds):
            there = np.flatnonzero(online[t])
            asked[t, rng.permutation(there)[: rng.integers(0, slots + 1)]] = True
        if asked.any() and online[[0, -1]].any(axis=1).all():
            return online, asked


def uniform_log(rng, clients, rounds, slots, low=0.2, suppressed=(), rate=0.0):
    """Uniform choice among those online; those suppressed take part in the draw with chance `rate`."""
    online = rng.random((rounds, clients)) < rng.uniform(low, 1, clients)
    asked = np.zeros_like(online)
    shut = np.zeros(clients, bool)
    shut[list(suppressed)] = True
    for t in range(rounds):
        open_to = np.flatnonzero(online[t] & ~(shut & (rng.random(clients) >= rate)))
        asked[t, rng.permutation(open_to)[:slots]] = True
    return online, asked


def rows_of(online, asked, names=None):
    """One row per client online in each round."""
    names = [f"c{k}" for k in range(online.shape[1])] if names is None else names
    return [
        {"round": t, "client": names[k], "selected": int(asked[t, k])}
        for t, k in itertools.product(*map(range, online.shape))
        if online[t, k]
    ]


def csv_of(rows):
    text = io.StringIO(newline="")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def jsonl_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def every_schedule(online, slots, total):
    """Counts of every schedule with at most `slots` per round and `total` in all, each once."""
    found = {(0,) * online.shape[1]}
    for row in online:
        there = np.flatnonzero(row).tolist()
        choices = [c for n in range(min(slots, len(there)) + 1) for c in itertools.combinations(there, n)]
        found = {tuple(s + (k in c) for k, s in enumerate(counts)) for counts in found for c in choices}
    return [np.array(counts) for counts in found if sum(counts) == total]


def gini(counts):
    """As it is defined: mean difference of all pairs."""
    total = counts.sum()
    return float(np.abs(counts[:, None] - counts[None]).sum() / (2 * len(counts) * total)) if total else 0.0
