"""A whole deployment on this machine: SuperLink, SuperNodes and a run, with TLS and node keys, and nobody left behind.

Every program has a session of its own; `keeper` starts them and ends them when this process closes its pipe, by
whatever end it comes to. Their numbers are in pids.json, what they print in logs/.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from fedparity.core import checks
from fedparity.core.errors import ConfigError, RoundError
from fedparity.core.files import write_text
from fedparity.deploy import keys
from fedparity.deploy.app import write_app
from fedparity.deploy.cluster import Cluster
from fedparity.deploy.flower import LOOPBACK, answers, check_port, free_ports, programs
from fedparity.deploy.metrics import metrics_server
from fedparity.deploy.rounds import Round, mean_scores, name_of, read_rounds

Say = Callable[[str], None]
LISTENS = 120.0
"""Seconds within which a SuperLink must listen."""


@dataclass
class Up:
    """What to start, and where."""

    app: Path
    """The app's folder; it is written if it is not there."""
    clients: int = 3
    """SuperNodes."""
    rounds: int = 5
    """Rounds of the run."""
    cohort: int | None = None
    """Clients asked per round; None: two thirds of them."""
    port: int | None = None
    """The SuperLink's; None: any that is free."""
    metrics_port: int | None = None
    """Where to serve OpenMetrics; None: nowhere."""
    out: Path | None = None
    """The folder of the run; None: the next number under the app's runs."""
    say: Say = field(default=lambda _: None, repr=False)
    """Hears what happens, line by line."""

    def run(self) -> tuple[Path, list[Round]]:
        """Carry it out: the run's folder, and its rounds."""
        cohort = self._check()
        if not self.app.exists():
            write_app(self.app)
        app = self.app.resolve()
        if not (app / "pyproject.toml").is_file():
            raise ConfigError(f"{self.app} holds no app; write one with: fedparity deploy init FOLDER")
        keys.make(app, self.clients)
        wrong = next((one for one in keys.examine(app / "keys", LOOPBACK) if one.state == "failed"), None)
        if wrong is not None:
            raise ConfigError(f"{wrong.name}: {wrong.found}; {wrong.fix}")
        folder = (self.out or _next(app / "runs")).resolve()
        rounds_file = folder / "rounds.jsonl"
        port, *nodes = free_ports(1 + self.clients)
        port = port if self.port is None else self.port
        with ExitStack() as stack:
            if self.metrics_port is not None:
                server = stack.enter_context(metrics_server(rounds_file, self.metrics_port))
                Thread(target=server.serve_forever, daemon=True).start()
                stack.callback(server.shutdown)
                self.say(f"metrics: http://{LOOPBACK}:{server.server_port}/metrics")
            cluster = stack.enter_context(Cluster(folder))
            self._superlink(cluster, app, port)
            self._register(cluster, app)
            self._nodes(cluster, app, port, nodes)
            self._carry_out(cluster, app, rounds_file, cohort)
        return folder, read_rounds(rounds_file)

    def _check(self) -> int:
        """Everything that can be refused before anything is started; the cohort."""
        checks.at_least("clients", self.clients, 1)
        checks.at_least("rounds", self.rounds, 1)
        cohort = max(1, 2 * self.clients // 3) if self.cohort is None else self.cohort
        checks.at_least("cohort", cohort, 1)
        if cohort > self.clients:
            raise ConfigError(f"cohort={cohort} of {self.clients} clients cannot be asked; lower it or raise --clients")
        programs()
        if self.port is not None:
            check_port(self.port)
        return cohort

    def _superlink(self, cluster: Cluster, app: Path, port: int) -> None:
        made = app / "keys"
        options = {
            "host": LOOPBACK,
            "port": port,
            "ssl-certfile": made / "server.pem",
            "ssl-keyfile": made / "server.key",
            "ssl-ca-certfile": made / "ca.pem",
        }
        switches = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        cluster.start("superlink", ["flower-superlink", *switches, *_words(options)])
        until = time.monotonic() + LISTENS
        # It may answer before the keeper's word of its process was heard.
        while not (answers(LOOPBACK, port) and "superlink" in cluster.pids):
            self._hear(cluster)
            if time.monotonic() > until:
                raise RoundError(f"the SuperLink does not listen on port {port}: {cluster.last_words('superlink')}")
        self.say(f"superlink: {LOOPBACK}:{port}, TLS, node keys; process {cluster.pids['superlink']}")
        home = control(cluster.folder)
        home.mkdir(parents=True, exist_ok=True)
        address = f'address = "{LOOPBACK}:{port}"\nroot-certificates = {json.dumps(f"{made}/ca.pem")}\n'
        write_text(home / "config.toml", f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{address}')

    def _register(self, cluster: Cluster, app: Path) -> None:
        """Enrol the clients' public keys, all at once: each takes a second or two, nearly all of it imports."""
        names = [f"register-{k}" for k in range(self.clients)]
        for k, name in enumerate(names):
            key = str(app / "keys" / f"client-{k}.pub")
            cluster.start(name, ["flwr", "supernode", "register", key, "here"], control(cluster.folder))
        while not all(name in cluster.codes for name in names):
            self._hear(cluster)

    def _nodes(self, cluster: Cluster, app: Path, port: int, ports: list[int]) -> None:
        for k, own in enumerate(ports):
            options = {
                "superlink": f"{LOOPBACK}:{port}",
                "host": LOOPBACK,
                "port": own,
                "root-certificates": app / "keys" / "ca.pem",
                "auth-supernode-private-key": app / "keys" / f"client-{k}",
                "node-config": f'client-id="client-{k}" partition-id={k} num-partitions={self.clients}',
            }
            cluster.start(f"client-{k}", ["flower-supernode", *_words(options)])

    def _carry_out(self, cluster: Cluster, app: Path, rounds_file: Path, cohort: int) -> None:
        said = {
            "rounds": self.rounds,
            "cohort": cohort,
            "min-clients": self.clients,
            "store": str(cluster.folder / "store"),
            "rounds-file": str(rounds_file),
        }
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in said.items())
        words = ["flwr", "run", str(app), "here", "--stream", "--run-config", config]
        cluster.start("run", words, control(cluster.folder))
        self.say(f"run: {cluster.folder}; waiting for {self.clients} clients")
        told = -1
        while "run" not in cluster.codes:
            self._hear(cluster)
            told = self._tell(rounds_file, told)
        told = self._tell(rounds_file, told)
        if told + 1 < self.rounds:
            raise RoundError(f"the run ended after {told + 1} of {self.rounds} rounds: {cluster.last_words('run')}")

    def _hear(self, cluster: Cluster) -> None:
        """Take note of who has ended; some may, others must not."""
        for name, code in cluster.ended():
            if name == "superlink" or (name.startswith("register-") and code):
                raise RoundError(f"{name} {_how(code, cluster.last_words(name))}; {self._go_on(cluster.folder)}")
            if name.startswith("client-"):
                self.say(f"{name} ended with code {code}")
        if all(f"client-{k}" in cluster.codes for k in range(self.clients)):
            how = _how(cluster.codes["client-0"], cluster.last_words("client-0"))
            raise RoundError(f"no client is left, client-0 {how}; {self._go_on(cluster.folder)}")

    def _go_on(self, folder: Path) -> str:
        """The fix of what came from outside: what was committed is kept."""
        words = ["fedparity", "deploy", "up", str(self.app), f"--clients={self.clients}", f"--rounds={self.rounds}"]
        words += [] if self.cohort is None else [f"--cohort={self.cohort}"]
        return f"go on after the last committed round with: {shlex.join([*words, f'--out={folder}'])}"

    def _tell(self, path: Path, told: int) -> int:
        """One line per round that is new; the last round told."""
        for one in read_rounds(path) if path.exists() else []:
            if one["round"] > told:
                told = one["round"]
                self.say(line_of(one))
        return told


def control(folder: Path) -> Path:
    """The FLWR_HOME that knows the SuperLink."""
    return folder / "flwr" / "control"


def _how(code: int, last_words: str) -> str:
    """How a program ended; what one that was killed said last is not why."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}: {last_words}"


def _words(options: dict[str, Any]) -> list[str]:
    return [word for key, value in options.items() for word in (f"--{key}", str(value))]


def line_of(one: Round) -> str:
    """A round in one line."""
    there = f"online {len(one['available']) + len(one['busy'])}: {_names(one['available'])}"
    beside = "; ".join(
        f"{key.replace('_', ' ')} {_names(one[key])}" for key in ("busy", "failed", "timed_out", "late") if one[key]
    )
    asked = f"asked {_names(one['selected'])}; {len(one['completed'])} answered in {one['seconds']:.1f} s"
    scores = "".join(
        f"; {name} {mean:.3g} over {clients} client{'' if clients == 1 else 's'}"
        for name, (mean, clients) in mean_scores(one).items()
    )
    return f"round {one['round']}  {there}; {asked}{'; ' if beside else ''}{beside}{scores}"


def _names(entries: list[Any]) -> str:
    return ", ".join(name_of(one) for one in entries) or "nobody"


def _next(folder: Path) -> Path:
    taken = [int(one.name) for one in folder.glob("*") if one.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)
