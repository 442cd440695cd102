"""fedparity on Flower: the same rules, over real clients, or over simulated ones without Ray.

    serve(grid, coordinator, params, rounds, store=..., ...) -> State    our loop over any Flower `Grid`, with a store
    client_app(factory, ready=..., name=...) -> ClientApp                the client's side, from any fedparity `Task`
    FairStrategy(scheduler="parity", ..., store=...)                     instead of `FedAvg`, for `strategy.start(grid)`
    SecureFairStrategy(cohort, scheduler="parity", ...)                  for Flower's secure aggregation workflow
    WithLosses(app) -> ClientApp                                         a stock client that also reports its losses
    simulate(server_app, client_app, nodes, trace=...)                   any Flower app in this process, without Ray
    GridEngine(grid, roster, ...)                                        the engine inside `serve`
    LocalGrid(client_app, nodes, trace=...)                              the grid inside `simulate`
    Roster, RoundEvents, TraceGate                                       who is who; what happened; a readiness trace

**Identity.** A client is told by a stable name: `identity="query"` asks each node's app for it once (`client_app`
answers with `client-id`, else `partition-id`, of the node's config); `identity="node"` takes Flower's node id, which is
stable where SuperNodes authenticate with registered keys, and in this process. Founders are numbered by sorted name
once `min_clients` are there, later ones as they come. A node without a stable name is never asked.

**A round** ends when all who were asked have answered, or `plan.enough` of them, or at `plan.deadline` on the monotonic
clock. Who has not answered failed in that round; while an answer can still be used (`Gate.max_age`) its client is busy,
and the answer enters a later round as a stale row. Two offers in a row without an answer: the client counts as not
online, and is tried again after twice as many rounds each time.

**Resume.** With `store=FOLDER` every round is committed with the model, ledger, roster and pending offers; the secret
that nonces are keyed with is kept there, too. `serve` and `FairStrategy` go on after the last committed round, whether
the coordinator or the SuperLink was killed; a round that was not committed is done again and counted once.

Nothing here is imported by `import fedparity`; what it needs of Flower that is not public is in `shim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedparity.engines.flower.client import TraceGate, client_app
    from fedparity.engines.flower.grid_engine import GridEngine, RoundEvents
    from fedparity.engines.flower.local_grid import LocalGrid, simulate
    from fedparity.engines.flower.losses import WithLosses
    from fedparity.engines.flower.roster import Roster
    from fedparity.engines.flower.secure import SecureFairStrategy
    from fedparity.engines.flower.serving import serve
    from fedparity.engines.flower.strategy import FairStrategy

_WHERE = {
    "FairStrategy": "strategy",
    "GridEngine": "grid_engine",
    "LocalGrid": "local_grid",
    "Roster": "roster",
    "RoundEvents": "grid_engine",
    "SecureFairStrategy": "secure",
    "TraceGate": "client",
    "WithLosses": "losses",
    "client_app": "client",
    "serve": "serving",
    "simulate": "local_grid",
}


def __getattr__(name: str) -> Any:
    """Flower is imported with the first name that is used, and is asked for in one line if it is missing."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from fedparity.engines.flower.shim import log_errors_in_one_line, require

    require()
    log_errors_in_one_line()
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


__all__ = [
    "FairStrategy",
    "GridEngine",
    "LocalGrid",
    "Roster",
    "RoundEvents",
    "SecureFairStrategy",
    "TraceGate",
    "WithLosses",
    "client_app",
    "serve",
    "simulate",
]
