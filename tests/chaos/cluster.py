"""A SuperLink and SuperNodes as real processes on loopback, with TLS and registered keys; nothing of it stays behind.

Every process has a session of its own, and Flower detaches some of what it starts. So this process makes itself the one
that orphans are given to: whatever is left is below it, in whatever session, and whatever it did to its environment.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import fedparity
from fedparity.deploy.keeper import SUBREAPER, _prctl, descendants

APP = Path(__file__).parent / "app"
BIN = Path(sys.executable).parent
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""As the kernel's tables of sockets write it."""
POLITE = 60
"""Seconds within which everybody must have ended who was asked to, and all that they started."""
PART = "FEDPARITY_PART"
"""In the environment of a process: as which part of the cluster, such as a node, it was started."""
SAN = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition, seconds, what):
    """Wait for something, or say what did not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Cluster:
    def __init__(self, folder, *, tls=True):
        self.folder, self.port, self.started = folder, free_port(), {}
        _prctl(SUBREAPER, 1)
        self._before = descendants(os.getpid())
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(fedparity.__file__).parents[1]),  # what is tested, whatever is installed
            "FEDPARITY_CHAOS": str(folder),
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "chaos"\n\n[superlink.chaos]\naddress = "127.0.0.1:{self.port}"\n'
            + (f'root-certificates = "{folder}/ca.pem"\n' if tls else "insecure = true\n")
        )
        if tls:
            self._certificates()

    def _certificates(self):
        run = self._quietly
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key",
            "-out", "ca.pem", "-subj", "/CN=chaos")  # fmt: skip
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", "/CN=localhost")  # fmt: skip
        (self.folder / "san").write_text(SAN)
        run("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-out", "server.pem", "-extfile", "san")  # fmt: skip

    def _quietly(self, *command):
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, capture_output=True, text=True, timeout=120
        ).stdout

    def start(self, name, *command):
        with (self.folder / f"{name}.log").open("a") as log:
            self.started[name] = subprocess.Popen(
                command, cwd=self.folder, env={**self.environment, PART: name}, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return self.started[name]

    def superlink(self):
        self.start(
            "superlink", BIN / "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), "--database",
            "link.db", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key", "--ssl-ca-certfile", "ca.pem",
            "--enable-supernode-auth",
        )  # fmt: skip
        until(self._listens, 60, "the SuperLink")

    def simulation(self, nodes):
        """Flower's own simulation on Ray instead of SuperNodes."""
        self.start(
            "superlink", BIN / "flower-superlink", "--simulation", "--insecure", "--host", "127.0.0.1", "--port",
            str(self.port),
        )  # fmt: skip
        until(self._listens, 60, "the SuperLink")
        self._quietly(
            BIN / "flwr", "federation", "simulation-config", "@none/default", "chaos", "--num-supernodes", str(nodes),
            "--client-resources-num-cpus", "1", "--init-args-num-cpus", "2",
        )  # fmt: skip

    def _listens(self):
        with socket.socket() as tried:
            tried.settimeout(1)
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def key(self, name, *, register=True):
        self._quietly("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", name)
        if register:
            self._quietly(BIN / "flwr", "supernode", "register", f"{name}.pub", "chaos")

    def supernode(self, name):
        return self.start(
            name, BIN / "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates", "ca.pem",
            "--auth-supernode-private-key", name, "--port", str(free_port()), "--node-config", f'client-id="{name}"',
        )  # fmt: skip

    def keep_up(self, name):
        """What a service manager does: start a node again until the SuperLink takes it back.

        What is left of it is ended first, as systemd does (KillMode=control-group): a ClientApp of Flower whose
        SuperNode is gone may try to tell it so for ever.
        """
        if self.started[name].poll() is not None:
            for pid in self._parts(name):
                _signal(pid)
            self.supernode(name)

    def run(self, **config):
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self._quietly(BIN / "flwr", "run", str(APP), "chaos", "--run-config", text)

    def kill(self, name):
        """As a power cut would: the process, and all that it started."""
        process = self.started[name]
        for pid in {process.pid, *descendants(process.pid), *self._parts(name)}:
            _signal(pid)
        process.wait()

    def _parts(self, name):
        """Whatever was started as this part of the cluster, or by it, and lives."""
        mark = f"{PART}={name}".encode()
        return [pid for pid in self.pids() if mark in _read(pid, "environ").split(b"\0")]

    def pids(self):
        """Every process that came from this test and lives."""
        return sorted(filter(_lives, descendants(os.getpid()) - self._before))

    def listening(self):
        """Addresses on which processes of this test listen."""
        lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        listen = [cells for cells in map(str.split, lines) if cells[3] == "0A"]
        sockets = {f"socket:[{cells[9]}]": cells[1].partition(":")[0] for cells in listen}
        found = set()
        for pid in self.pids():
            with contextlib.suppress(OSError):
                links = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
                found |= {sockets[link] for link in links if link in sockets}
        return found

    def _take_note(self):
        """Of those who ended: what watches its parent takes one that nobody has taken note of for alive.

        Orphans that were given to this process are nobody else's to take note of; what ran before is left alone.
        """
        for process in self.started.values():
            process.poll()
        for pid in descendants(os.getpid()) - self._before - {process.pid for process in self.started.values()}:
            with contextlib.suppress(ChildProcessError):  # the child of another
                os.waitpid(pid, os.WNOHANG)

    def end(self):
        """Ask everybody to end; the commands of those who are left after that by process, which then are killed.

        Apps of nodes do not count: one whose message a killed SuperLink has lost waits for it as long as its SuperNode
        runs, and a while longer. They are ended with their node, as systemd does (KillMode=control-group).
        """
        for process in self.started.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + POLITE
        while not all(map(_is_app, self.pids())) and time.monotonic() < end:
            self._take_note()
            time.sleep(0.2)
        for pid in [pid for name in self.started for pid in self._parts(name) if _is_app(pid)]:
            _signal(pid)
            until(lambda pid=pid: not _lives(pid), POLITE, f"the end of {pid}")
        orphans = {pid: _command(pid) for pid in self.pids()}
        while left := self.pids():
            for pid in left:
                _signal(pid)
            time.sleep(0.2)
        for process in self.started.values():
            process.wait()
        self.started.clear()
        _prctl(SUBREAPER, 0)
        return orphans


def _lives(pid):
    """Whether a process is there and not one that only waits to be taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _is_app(pid):
    """Whether a process is Flower's for one message to one node."""
    return b"flwr-clientapp" in _read(pid, "cmdline")


def _command(pid):
    return _read(pid, "cmdline").replace(b"\0", b" ").decode() or "it ended meanwhile"


def _read(pid, what):
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _signal(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
