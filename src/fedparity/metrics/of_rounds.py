"""Measures of one round, of what a run cost, and telemetry, which is never part of a result."""

from __future__ import annotations

from functools import partial

from fedparity.metrics.measure import Measure

_round, _cost = partial(Measure, scope="round"), partial(Measure, scope="cost", form="count")

ROUND = (
    _round("available", "clients online in the round", lambda r: len(r.available), "online"),
    _round("selected", "clients asked in the round", lambda r: len(r.selected), "asked"),
    _round("completed", "clients whose update arrived and was accepted", lambda r: len(r.completed), "completed"),
    _round(
        "surrogate_contribution",
        "utility added for missing clients: sum_k eta_k g_k, eta_k = eta0 e^(-lambda delta_k)",
        lambda r: float(r.surrogate.utility.sum()),
        "surrogates",
    ),
    _round(
        "bias_bound",
        "Lemma 3's bound on what surrogates can bias the round by, eps * sum_k eta_k; empty where it is unknown",
        lambda r: r.surrogate.bias_bound,
        "bias",
    ),
)
COST = (
    _cost("asked", "models sent to clients", lambda c: c.asked, "asked"),
    _cost("updates", "updates that came back and were used", lambda c: c.updates, "updates"),
    _cost("parameters", "numbers in the model", lambda c: c.parameters, "parameters"),
    _cost(
        "megabytes",
        "models sent and updates used, times parameters, times 4 bytes",
        lambda c: c.megabytes,
        "MB sent",
        form="brief",
    ),
    _cost(
        "server_words",
        "numbers that the method's rules keep on the server after the first seed's run",
        lambda c: c.server_words,
        "memory",
    ),
    _cost("client_words", "numbers that clients keep of their own", lambda c: c.client_words, "at clients"),
    _cost("local_steps", "mini-batch steps behind the updates that were used", lambda c: c.local_steps, "steps"),
)
TIME = (
    Measure(
        "seconds", "wall-clock time of the round, or of the run", lambda c: c.seconds, "seconds", digits=1, scope="time"
    ),
    Measure(
        "seconds_per_round",
        "time that scheduling one round took",
        lambda o: o.seconds_per_round,
        "s/round",
        form="brief",
        scope="time",
    ),
)
