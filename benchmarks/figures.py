"""The picture of docs/results.md: the synthetic phones beside the published figures of the trace they are fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedparity.availability import Phones

FLASH_DECILES = (0, 0, 0.001, 0.017, 0.042, 0.085, 0.124, 0.185, 0.275)
"""Availability deciles of FLASH devices 0-99 under `charging & wifi`."""
FLASH_MEDIAN_SESSION, FLASH_BELOW_5 = 922.0, 0.52


def phones(target: Path, clients: int = 4000, days: int = 10) -> dict[str, float]:
    """Draw the fit; the figures in it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    device, start, end = Phones().sessions(clients, days, 0)
    rates = np.bincount(device, end - start, clients) / (days * 86400)
    deciles = np.quantile(rates, np.arange(1, 10) / 10)
    hours = np.arange(24)
    grid = (np.arange(days * 24 * 4) + 0.5) * 900
    online = np.searchsorted(np.sort(start), grid) - np.searchsorted(np.sort(end), grid)
    profile = online.reshape(days, 24, 4).mean((0, 2)) / clients
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    axes[0].plot(np.arange(10, 100, 10), FLASH_DECILES, "o", color="#d55e00", label="FLASH, 100 devices")
    axes[0].plot(np.arange(10, 100, 10), deciles, "-", color="#0072b2", label="phones")
    axes[0].set(title="availability by decile", xlabel="percentile of devices", ylabel="share of time ready")
    axes[0].legend(frameon=False)
    axes[1].plot(hours, profile, "-", color="#0072b2")
    axes[1].set(title="share ready by hour", xlabel="hour of the day", ylim=(0, None))
    length = (end - start) / 60
    axes[2].hist(length, bins=list(np.geomspace(0.5, 1000, 40)), color="#0072b2")
    axes[2].axvline(FLASH_MEDIAN_SESSION / 60, color="#d55e00", ls="--", label="FLASH median")
    axes[2].set(title="session length", xlabel="minutes", xscale="log")
    axes[2].legend(frameon=False)
    figure.savefig(target, dpi=90, metadata={"Software": None})
    plt.close(figure)
    return {
        "worst decile off by": float(np.abs(deciles - FLASH_DECILES).max()),
        "below 5 %": float((rates < 0.05).mean()),
        "median session s": float(np.median(end - start)),
        "busiest over quietest hour": float(profile.max() / profile.min()),
    }
