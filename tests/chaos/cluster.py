"""A SuperLink and SuperNodes as real processes on loopback, with TLS and registered keys; nothing of it stays behind.

Every process has a session of its own and carries the folder of the test in its environment, by which also those are
found that processes of Flower's started.
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

APP = Path(__file__).parent / "app"
BIN = Path(sys.executable).parent
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""As the kernel's tables of sockets write it."""
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
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
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
        """What a service manager does: start a node again until the SuperLink takes it back."""
        if self.started[name].poll() is not None:
            self.supernode(name)

    def run(self, **config):
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self._quietly(BIN / "flwr", "run", str(APP), "chaos", "--run-config", text)

    def kill(self, name):
        """As a power cut would: the process, and all that it started."""
        process = self.started[name]
        for pid in self._family(process.pid):
            _signal(pid)
        process.wait()

    def _family(self, root):
        parents = {}
        for pid in self.pids():
            try:
                parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
        found = [root]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def pids(self):
        """Every process that belongs to this test, by what is in its environment."""
        mark, found = f"FEDPARITY_CHAOS={self.folder}".encode(), []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

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

    def end(self):
        """Nothing stays behind: what is left after a polite end is killed, one by one."""
        for process in self.started.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + 5
        while self.pids() and time.monotonic() < end:
            time.sleep(0.2)
        for _ in range(20):
            left = self.pids()
            for pid in left:
                _signal(pid)
            if not left:
                break
            time.sleep(0.2)
        for process in self.started.values():
            process.wait()
        return self.pids()


def _signal(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
