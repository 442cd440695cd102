"""Laws that every engine keeps, and `check_engine`, which holds one to all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedparity.core.coordinator import Coordinator
from fedparity.core.gate import Gate
from fedparity.core.journal import Journal
from fedparity.core.loop import clients_of, run
from fedparity.core.protocols import Engine
from fedparity.core.selection import ids_of
from fedparity.core.types import ClientReport, Vector
from fedparity.testing.laws import LawError, hold


def says_who_is_there(engine: Engine, rounds: int) -> None:
    """Clients online and busy are sorted numbers below the number of clients; nobody is both."""
    law, count = "who is there is a sorted list of clients", clients_of(engine)
    hold(count is None or count > 0, engine, "an engine has clients", "num_clients", count)
    for t in range(rounds):
        for name, found in (("available", engine.available(t)), ("busy", engine.busy(t))):
            try:
                ids_of(found, name, 2**31 if count is None else count)
            except Exception as error:
                raise LawError(engine, law, f"{name}({t})", str(error)) from error
        both = np.intersect1d(engine.available(t), engine.busy(t))
        hold(not len(both), engine, "nobody is available and busy", f"round {t}", both)


def answers_plans(engine: Engine, params: Vector, rounds: int) -> None:
    """Only who was asked reports; what an update holds passes the gate, or the report says why there is none."""
    count = clients_of(engine) or int(engine.available(0).max()) + 1
    coordinator = Coordinator(min(3, count), scheduler="uniform", min_reports=0)
    state, gate = coordinator.init(count, params), Gate()
    for t in range(rounds):
        plan, state = coordinator.plan(state, engine.available(t), rounds - 1 - t)
        before = plan.params.copy()
        reports = list(engine.train(plan))
        case = f"round {t}, asked {plan.cohort.clients.tolist()}"
        for report in reports:
            hold(isinstance(report, ClientReport), engine, "reports are ClientReports", case, report)
            asked = report.origin is not None or report.client in plan.cohort.clients
            hold(asked, engine, "only who was asked reports", case, f"client {report.client}")
            if report.failure is None and report.origin is None:
                admitted = gate.admit(report, plan)
                hold(isinstance(admitted, ClientReport), engine, "an update passes the gate", case, admitted)
        hold(np.array_equal(before, plan.params), engine, "training leaves the model alone", case)
        _, state = coordinator.absorb(state, plan, reports, engine.evaluate)


def repeats_itself(make: Callable[[], Engine], params: Vector, rounds: int) -> None:
    """The same seed on a fresh engine gives the same journal and model, to the bit."""

    def once() -> tuple[str, bytes]:
        engine, journal = make(), Journal()
        count = clients_of(engine) or int(engine.available(0).max()) + 1
        coordinator = Coordinator(min(3, count), seed=5, scheduler="uniform", min_reports=0)
        done = run(coordinator, engine, rounds, params=params, num_clients=count, observers=[journal])
        return journal.head(), done.params.tobytes()

    hold(once() == once(), make(), "same seed, same run", f"{rounds} rounds")


def check_engine(make: Callable[[], Engine], params: Vector, *, rounds: int = 5) -> None:
    """Hold the engines that `make` gives to every law; LawError names the first that is broken.

    `params` is a first model of theirs.
    """
    says_who_is_there(make(), rounds)
    answers_plans(make(), params, rounds)
    repeats_itself(make, params, rounds)
