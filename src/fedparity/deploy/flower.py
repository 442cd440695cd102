"""What is needed to start Flower's programs: where they are, with which environment, on which ports."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib import metadata
from pathlib import Path

from fedparity.core.errors import ConfigError
from fedparity.engines.flower.shim import require

LOOPBACK = "127.0.0.1"
OFF = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""What Flower does unasked, switched off."""
TOOLS = {"openssl": "openssl", "ssh-keygen": "openssh-client"}
"""Programs that make certificates and keys, and the packages that they come with."""


def programs() -> Path:
    """The folder of Flower's programs: beside this interpreter, else where Flower was installed."""
    require()
    beside = Path(sys.executable).parent
    if (beside / "flower-superlink").exists():
        return beside
    flower = metadata.distribution("flwr")
    found = [Path(str(flower.locate_file(one))) for one in flower.files or () if one.name == "flower-superlink"]
    if not found or not found[0].exists():
        raise ConfigError("Flower is installed without its programs; pip install --force-reinstall 'fedparity[flower]'")
    return found[0].resolve().parent


def environment(home: Path) -> dict[str, str]:
    """The environment of a program of Flower: it starts others by name, so their folder comes first on PATH."""
    path = os.pathsep.join([str(programs()), os.environ.get("PATH", os.defpath)])
    quick = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2"}  # seconds; on one machine the wait would be most of a round
    return {**os.environ, **OFF, **quick, "PATH": path, "FLWR_HOME": str(home), "PYTHONUNBUFFERED": "1"}


def missing_tools() -> list[str]:
    """What keys cannot be made without."""
    return [name for name in TOOLS if shutil.which(name) is None]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses; all are held until all are known, so that none is given twice."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def check_port(port: int) -> None:
    """Refuse a port that cannot be listened on."""
    if not 1 <= port < 1 << 16:
        raise ConfigError(f"port {port} must be between 1 and 65535")
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, port))
        except OSError as error:
            raise ConfigError(f"port {port} cannot be used ({error.strerror}); give another --port") from error


def answers(host: str, port: int) -> bool:
    """Whether anybody listens."""
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False
