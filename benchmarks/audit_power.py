"""How surely `fedparity audit` finds suppressed clients, by how hard they are shut out.

    python benchmarks/audit_power.py 200

N = 100 clients, online in 50 to 100 % of T = 200 rounds, m = 10 asked per round, uniformly among those there; five
clients take part in the draw only with the chance given. `told`: logs with p <= .05; `named`: share of the five named,
with Holm's correction alone and as the audit names them; `wrong`: logs in which somebody else is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "audit"))

from logs import uniform_log  # type: ignore[import-not-found]

from fedparity.audit.chance import compare_with_chance, named
from fedparity.core.trace import Trace

RATES = (1.0, 0.0, 0.1, 0.25, 0.4, 0.5)


def main() -> None:
    """One row per strength of suppression."""
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("| let through | told | named, Holm | named | wrong |\n|---|---|---|---|---|")
    for rate in RATES:
        rows = []
        for i in range(logs):
            made = uniform_log(np.random.default_rng([9, i]), 100, 200, 10, 0.5, range(5), rate)
            online, asked = map(Trace.from_matrix, made)
            found = compare_with_chance(online, asked, i)
            plain, who = found.outliers(found.fewer), named(online, asked, found, fewer=True)
            shut = 5 if rate < 1 else 0  # let through always: nobody is suppressed, and whoever is named is wrong
            rows.append((found.p <= 0.05, (plain < shut).sum() / 5, (who < shut).sum() / 5, (who >= shut).any()))
        told, holm, mine, wrong = np.array(rows, np.float64).mean(axis=0)
        print(f"| {100 * rate:.0f} % | {told:.3f} | {holm:.3f} | {mine:.3f} | {wrong:.3f} |")


if __name__ == "__main__":
    main()
