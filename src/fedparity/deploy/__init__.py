"""Operations: a ready Flower app, a whole deployment on this machine, and checks of one.

    write_app(folder)          the files of an app: settings, both sides, keys, systemd, containers   (deploy init)
    Up(folder, ...).run()      SuperLink, SuperNodes and a run as processes of this machine            (deploy up)
    examine(folder)            what is wrong with an installation, and the fix                         (deploy doctor)
    RoundsFile(path)           one JSON line per round, for `serve(told=)`; `fedparity audit` reads it
    openmetrics(rounds)        the same as an OpenMetrics page                                         (deploy metrics)

Telemetry, update checks and run-time installs of Flower are off in everything that is written or started here, and
everything listens on loopback: the Control API of a SuperLink has no login.
"""

from __future__ import annotations

from fedparity.deploy.app import write_app
from fedparity.deploy.doctor import examine
from fedparity.deploy.metrics import openmetrics
from fedparity.deploy.rounds import RoundsFile, read_rounds
from fedparity.deploy.up import Up

__all__ = ["RoundsFile", "Up", "examine", "openmetrics", "read_rounds", "write_app"]
