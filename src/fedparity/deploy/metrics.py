"""An OpenMetrics page of a running deployment, for Prometheus and the like: on loopback, and only if asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fedparity.core.errors import ConfigError, FedparityError
from fedparity.deploy.flower import LOOPBACK
from fedparity.deploy.rounds import Round, mean_scores, name_of, read_rounds

CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PER_CLIENT = {
    "selected": "Rounds in which a client was asked.",
    "completed": "Rounds in which a client answered in time.",
    "failed": "Rounds in which a client said that it could not, or its node was gone.",
    "timed_out": "Rounds in which a client had not answered by the deadline.",
    "late": "Answers that came after their round.",
}


def openmetrics(rounds: Sequence[Round]) -> str:
    """Rounds as an OpenMetrics page."""
    return "\n".join([*_families(rounds), "# EOF", ""])


def _families(rounds: Sequence[Round]) -> Iterator[str]:
    yield from _head("rounds", "counter", "Rounds done.")
    yield f"fedparity_rounds_total {len(rounds)}"
    last: Round = rounds[-1] if rounds else {"available": [], "busy": [], "seconds": 0.0}
    yield from _head("clients", "gauge", "Clients in the last round, by state.")
    for state in ("available", "busy"):
        yield f'fedparity_clients{{state="{state}"}} {len(last[state])}'
    yield from _head("round_seconds", "gauge", "Length of the last round.", "seconds")
    yield f"fedparity_round_seconds {last['seconds']}"
    scored: Round = next((one for one in reversed(rounds) if one.get("scores")), {})
    for name, (value, clients) in mean_scores(scored).items():
        yield from _head(name, "gauge", f"Mean {name} of the model at the clients that were last asked and answered.")
        yield f"fedparity_{name} {value}"
        yield from _head(f"{name}_clients", "gauge", f"Clients that the mean {name} is of.")
        yield f"fedparity_{name}_clients {clients}"
    everybody = sorted({name_of(one) for r in rounds for key in ("available", *PER_CLIENT) for one in r[key]})
    for key, text in PER_CLIENT.items():
        counts = Counter(name_of(one) for r in rounds for one in r[key])
        yield from _head(f"client_{key}", "counter", text)
        for name in everybody:
            yield f'fedparity_client_{key}_total{{client="{_escaped(name)}"}} {counts[name]}'


def _head(name: str, kind: str, text: str, unit: str = "") -> Iterator[str]:
    yield f"# TYPE fedparity_{name} {kind}"
    if unit:
        yield f"# UNIT fedparity_{name} {unit}"
    yield f"# HELP fedparity_{name} {text}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics_server(path: Path, port: int) -> ThreadingHTTPServer:
    """A server of `/metrics` on loopback, bound and not yet serving; port 0: any that is free."""

    class Page(BaseHTTPRequestHandler):
        """GET /metrics, and nothing else."""

        def do_GET(self) -> None:
            """Answer with the rounds by now."""
            status, text = HTTPStatus.OK, ""
            try:
                text = openmetrics(read_rounds(path) if path.exists() else [])
            except FedparityError as error:
                status, text = HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n"
            if self.path != "/metrics":
                status, text = HTTPStatus.NOT_FOUND, "only /metrics is here\n"
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT if status is HTTPStatus.OK else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: who asks every few seconds need not be told of."""

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Page)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"port {port} cannot be used ({getattr(error, 'strerror', None) or error}); give another port"
        ) from error
