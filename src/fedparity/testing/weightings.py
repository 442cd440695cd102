"""Laws that every weighting keeps, and `check_weighting`, which holds one to all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray, Rows
from fedparity.testing.laws import hold
from fedparity.weightings import WEIGHTINGS

N = 7
COLUMNS = ("clients", "deltas", "ages", "sizes", "losses", "probs")


def ledger_of(losses: FloatArray) -> Ledger:
    """After four rounds, with these losses."""
    ledger = Ledger.empty(N)
    ledger.loss[:] = losses
    ledger.last_completed[:] = np.arange(N) % 4 - 1
    ledger.rounds = 4
    return ledger


def content(rows: Rows) -> tuple[str, list[bytes]]:
    """Everything that rows hold, so that two can be compared."""
    columns = (rows.clients, rows.ages, rows.sizes, rows.losses, rows.probs)
    return repr([c.tolist() for c in columns]), [np.asarray(d).tobytes() for d in rows.deltas]


def gives_one_weight_per_row(weighting: Weighting[Any], rows: Rows, ledger: Ledger, case: object = "") -> FloatArray:
    """A finite float64 for each row, and neither rows nor ledger are changed; the weights."""
    law = "one finite weight per row"
    kept, as_it_was = ledger.copy(), content(rows)
    weights, _ = weighting.weigh(weighting.init(N), rows, ledger)
    hold(np.shape(weights) == rows.clients.shape, weighting, law, case, weights)
    hold(weights.dtype == np.float64 and np.isfinite(weights).all(), weighting, law, case, weights.tolist())
    hold(ledger == kept and content(rows) == as_it_was, weighting, "rows and ledger are left alone", case)
    return weights


def follows_its_rows(
    weighting: Weighting[Any], rows: Rows, order: list[int], ledger: Ledger, case: object = ""
) -> None:
    """Weights are not negative, and rows in another order have the same weights in that order."""
    weights = gives_one_weight_per_row(weighting, rows, ledger, case)
    hold((weights >= 0).all(), weighting, "no weight is negative", case, weights.tolist())
    turned = Rows(*(np.asarray(getattr(rows, name))[np.array(order)] for name in COLUMNS))
    again, _ = weighting.weigh(weighting.init(N), turned, ledger)
    same = np.allclose(again, weights[order], rtol=1e-12, atol=1e-300)
    hold(same, weighting, "weights follow their rows", case, again.tolist())


def has_none_for_nobody(weighting: Weighting[Any]) -> None:
    """No rows have no weights."""
    none, ids = np.empty(0), np.empty(0, np.int64)
    rows = Rows(ids, [], ids, none, none, none)
    weights, _ = weighting.weigh(weighting.init(N), rows, Ledger.empty(N))
    hold(np.shape(weights) == (0,), weighting, "no rows have no weights", "nobody", weights)


def check_weighting(weighting: Weighting[Any] | str, *, by_geometry: bool = False, cases: int = 60) -> None:
    """Hold a weighting to every law; LawError names the first that it breaks.

    `by_geometry`: it compares rows with each other, so weights may be negative and equal rows are told by their order.
    """
    made = WEIGHTINGS.of(weighting)
    has_none_for_nobody(made)
    for number in range(cases):
        rng = stream(number, "rows")
        k = int(rng.integers(1, N + 1))
        clients = np.sort(rng.permutation(N)[:k]).astype(np.int64)
        losses = np.where(rng.random(k) < 0.2, np.nan, rng.normal(0, 10.0 ** rng.integers(0, 6), k))
        sizes = rng.integers(1, 10 ** int(rng.integers(1, 10)), k).astype(np.float64)
        rows = Rows(clients, list(rng.normal(0, 100, (k, 2))), clients * 0, sizes, losses, rng.uniform(1e-3, 1, k))
        if by_geometry:
            gives_one_weight_per_row(made, rows, ledger_of(np.ones(N)), f"rows {number}")
        else:
            follows_its_rows(made, rows, rng.permutation(k).tolist(), ledger_of(np.ones(N)), f"rows {number}")
