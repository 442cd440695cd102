"""A participation log as another system might write it, on stdout: 100 phones, 10 asked per round, by a random draw.

From round 80 on, old phones are left out of most draws: `fedparity audit` is to find that out.
"""

from __future__ import annotations

import numpy as np

ROUNDS, PHONES, OLD, ASKED = 200, 100, 20, 10


def main() -> None:
    """One row per phone online in a round."""
    rng = np.random.default_rng(7)
    rates = rng.uniform(0.2, 1, PHONES)
    print("round,device_id,model,sampled,returned")
    for t in range(ROUNDS):
        online = np.flatnonzero(rng.random(PHONES) < rates)
        shut = (online < OLD) & (rng.random(len(online)) < 0.8) & (t >= 80)
        asked = set(rng.permutation(online[~shut])[:ASKED].tolist())
        for k in online.tolist():
            returned = k in asked and rng.random() < 0.95
            print(f"{t},phone-{k:02d},{'old' if k < OLD else 'new'},{int(k in asked)},{int(returned)}")


if __name__ == "__main__":
    main()
