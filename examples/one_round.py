"""One fair round in plain Python: Algorithms 1 and 2 of the paper with nothing hidden.

Clients pull the model towards centres of their own, F_k(w) = 1/2 sum_d h_kd (w_d - c_kd)^2. The library does the same
with arrays; tests/test_examples.py holds the two equal, number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import pvariance


@dataclass
class Client:
    """What the server knows about a client: counts and utility; what only the client has: data and its own model."""

    centre: list[float]
    curvature: list[float]
    alpha: float = 1.0  # the paper's alpha_k; all different here, so that no two scores tie
    own: list[float] | None = None
    online: int = 0
    selected: int = 0
    completed: int = 0
    utility: float = 0.0

    def loss(self, w: list[float]) -> float:
        """F_k(w)."""
        return 0.5 * sum(h * (x - c) ** 2 for h, x, c in zip(self.curvature, w, self.centre, strict=True))


def local_training(client: Client, w: list[float], a: float = 0.5, rate: float = 0.1, steps: int = 5) -> list[float]:
    """Algorithm 2: mix w_k <- (1-a) w_k + a w, then take gradient steps."""
    mine = list(w) if client.own is None else [(1 - a) * x + a * y for x, y in zip(client.own, w, strict=True)]
    for _ in range(steps):
        mine = [x - rate * h * (x - c) for x, h, c in zip(mine, client.curvature, client.centre, strict=True)]
    return mine


def one_round(
    t: int,
    w: list[float],
    clients: list[Client],
    available: list[int],
    leaving: list[int],
    *,
    m: int,
    lam: float = 0.7,
    eps: float = 1e-3,
    bound: float = 10.0,
) -> tuple[list[float], list[int], float]:
    """Algorithm 1's fair branch: the new model, who was asked, and the fairness variance V_T."""
    score = {}
    for k in available:
        missed = t - clients[k].online  # rounds offline so far (Theorem 2)
        clients[k].online += 1
        pi = (clients[k].online + 1) / (t + 1 + 2)  # share of rounds online, this one included; Beta(1, 1) prior
        score[k] = clients[k].alpha / (pi + eps) * (1 + lam * missed)
    asked = sorted(sorted(available, key=lambda k: -score[k])[:m])

    updates = []
    for k in asked:
        clients[k].selected += 1
        if k in leaving:  # a failure signal instead of weights
            continue
        trained = local_training(clients[k], w)
        updates.append([new - old for new, old in zip(trained, w, strict=True)])
        clients[k].own = trained
        clients[k].completed += 1
        clients[k].utility += min(bound, max(0.0, clients[k].loss(w) - clients[k].loss(trained)))

    if updates:  # an empty round leaves the model as it is
        w = [old + sum(column) / len(updates) for old, column in zip(w, zip(*updates, strict=True), strict=True)]
    normalised = [c.utility / (c.online / (t + 1)) for c in clients if c.online]  # u_k / pi_k
    return w, asked, pvariance(normalised) if normalised else float("nan")


def main() -> None:
    """Three rounds of four clients, two asked per round."""
    clients = [Client([x, -x], [1.0, 2.0], alpha=1 - k / 1000) for k, x in enumerate([0.0, 1.0, 2.0, 5.0])]
    w = [0.0, 0.0]
    for t, (available, leaving) in enumerate([([0, 1, 2], []), ([0, 1, 2, 3], [0]), ([0, 2, 3], [])]):
        w, asked, variance = one_round(t, w, clients, available, leaving, m=2)
        model = ", ".join(f"{x:+.4f}" for x in w)
        print(f"round {t}: online {available}, asked {asked}, left {leaving}; model ({model}), V_T {variance:.4f}")
    for k, c in enumerate(clients):
        print(f"client {k}: online {c.online}, asked {c.selected}, completed {c.completed}, utility {c.utility:.4f}")


if __name__ == "__main__":
    main()
