"""All that is needed of Flower and is not public, in one place: tried against every minor version that is supported.

A `Message` takes its run, task and source node from `TaskIdentity`, which SuperLink and SuperNode set in the processes
they start; in a process of our own nobody does. A message's id is given by whoever carries it. What an app raises
Flower writes to its log, with the way it came.
"""

from __future__ import annotations

import logging
from importlib import metadata

from fedparity.core.errors import ConfigError, FedparityError

LOWEST, BELOW = (1, 41), (1, 43)
"""Versions of Flower: from the first on, below the second."""
SERVER_NODE = 1
"""The node id of a SuperLink."""
LOGGER = "flwr"


def require() -> str:
    """The version of Flower; ConfigError with the fix if there is none, or one that is not supported."""
    fix = "pip install 'fedparity[flower]'"
    try:
        version = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise ConfigError(f"Flower is not installed; {fix}") from None
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not LOWEST <= numbers < BELOW:
        wanted = " or ".join(f"{LOWEST[0]}.{minor}" for minor in range(LOWEST[1], BELOW[1]))
        raise ConfigError(f"Flower {version} is installed, but {wanted} is needed; {fix}")
    return version


def identify_process(run_id: int) -> None:
    """Messages that are made in this process from now on are the server's, of this run."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = 1
    TaskIdentity.run_id = run_id
    TaskIdentity.node_id = SERVER_NODE


def give_id(message: object, message_id: str) -> None:
    """What a SuperLink does to a message that is pushed."""
    metadata_of = getattr(message, "metadata")  # noqa: B009 - its class keeps the setter to itself
    metadata_of.__dict__["_message_id"] = message_id


def one_line(record: logging.LogRecord) -> bool:
    """An error of ours in Flower's log is the line that it is, with its fix; the way it came tells nobody more."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, FedparityError):
        record.msg, record.args, record.exc_info = f"{type(error).__name__}: %s", (error,), None
    return True


def log_errors_in_one_line() -> None:
    """From now on, in this process."""
    logging.getLogger(LOGGER).addFilter(one_line)  # the same one again is not added
