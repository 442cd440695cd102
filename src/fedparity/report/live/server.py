"""The local page of a run: Starlette and uvicorn on 127.0.0.1, read-only, with a key in its address.

Two threads keep the view fresh, one that reads and one that computes limits; requests only look at what is there. The
page asks again when a server-sent event says that there is something new.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from fedparity import report
from fedparity.core.errors import ConfigError, FedparityError
from fedparity.report.live.clients import Query
from fedparity.report.live.follow import Follower
from fedparity.report.live.page import client_page, main_page, policy

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from uvicorn import Server

LOOK, BEAT = 0.5, 15.0
"""Seconds between two looks at the folder, and between two signs of life on a quiet line."""
HOST = "127.0.0.1"


def require() -> None:
    """Refuse now what would fail later."""
    report.require()
    try:
        import starlette  # noqa: F401 - only whether it is there
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "the page needs Starlette and uvicorn; pip install 'fedparity[watch]', or use --once"
        ) from error


class Watcher:
    """What keeps a follower up to date, until it is stopped."""

    def __init__(self, run: Follower) -> None:
        self.run = run
        self.stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(step,), daemon=True) for step in (self.look, self.limit)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join(2.0)  # a limit that is being computed ends with the process

    def _keep(self, step: Callable[[], bool]) -> None:
        pause = 0.0
        while not self.stopped.wait(pause):
            pause = 0.01 if step() else LOOK

    def look(self) -> bool:
        """Read what is new; whether there is more. A folder that cannot be read now may be readable again later."""
        run = self.run
        try:
            more = run.changed() and not run.refresh()
            trouble = ""
        except (FedparityError, OSError) as error:
            more, trouble = False, " ".join(str(error).split())
        if trouble != run.trouble:
            with run.lock:
                run.trouble, run.version = trouble, run.version + 1
        return more

    def limit(self) -> bool:
        """Compute the limit if it is due."""
        with self.run.lock:
            due = self.run.limit_due()
        if due:
            self.run.compute_limit()
        return False


class Pages:
    """What is answered to whoever has the key."""

    def __init__(self, run: Follower, token: str, method: str | None, stopped: threading.Event) -> None:
        self.run = run
        self.token = token
        self.method = method
        self.stopped = stopped
        self.headers = {
            "Content-Security-Policy": policy(),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }

    def page(self, request: Request) -> Response:
        """The run or one of its clients; in a thread, so that nobody waits for it but who asked."""
        from starlette.responses import HTMLResponse, PlainTextResponse

        if not self._allowed(request):
            return self._refused()
        with self.run.lock:
            query = Query.of(self.run, request.query_params, self.method)
            client = request.path_params.get("client")
            if client is None:
                return HTMLResponse(main_page(self.run, query, self.token), headers=self.headers)
            if client >= self.run.methods[query.method].ledger.num_clients:
                return PlainTextResponse(f"there is no client {client} in this run\n", 404)
            return HTMLResponse(client_page(self.run, query, self.token, client), headers=self.headers)

    async def events(self, request: Request) -> Response:
        """A line whenever there is something new."""
        from starlette.responses import StreamingResponse

        if not self._allowed(request):
            return self._refused()
        return StreamingResponse(self._news(), media_type="text/event-stream", headers=self.headers)

    async def _news(self) -> AsyncIterator[str]:
        told, quiet = -1, 0.0
        while not self.stopped.is_set():
            if self.run.version != told:
                told, quiet = self.run.version, 0.0
                yield f"data: {told}\n\n"
            elif quiet > BEAT:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(LOOK / 2)
            quiet += LOOK / 2

    def _allowed(self, request: Request) -> bool:
        return hmac.compare_digest(request.query_params.get("token", "").encode(), self.token.encode())

    def _refused(self) -> Response:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("the key is missing or wrong; use the address that fedparity watch printed\n", 403)


def application(
    run: Follower, token: str, method: str | None = None, stopped: threading.Event | None = None
) -> Starlette:
    """The page of a run, for whoever has the key."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    pages = Pages(run, token, method, stopped or threading.Event())
    return Starlette(
        routes=[
            Route("/", pages.page, methods=["GET"]),
            Route("/client/{client:int}", pages.page, methods=["GET"]),
            Route("/events", pages.events, methods=["GET"]),
        ]
    )


def server_of(app: Starlette) -> Server:
    """What answers requests: nothing is logged, and a page that is open does not keep it from ending."""
    import uvicorn

    options: dict[str, Any] = {"log_level": "error", "access_log": False, "lifespan": "off", "ws": "none"}
    return uvicorn.Server(uvicorn.Config(app, host=HOST, port=0, timeout_graceful_shutdown=1, **options))


def serve(run: Follower, port: int, method: str | None, tell: Callable[[str], Any]) -> None:
    """Show a run until stopped; `tell` is told the address first."""
    with suppress(OSError):
        os.nice(10)  # the run comes first
    token = secrets.token_urlsafe(24)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # before the address is told: whoever asks at once waits, and is not refused
    except OSError as error:
        listener.close()
        raise ConfigError(f"port={port} cannot be used ({error.strerror}); give another, or none") from error
    tell(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
    with listener, Watcher(run) as watcher:
        app = application(run, token, method, watcher.stopped)
        server = server_of(app)

        def ends() -> None:
            while not server.should_exit and not watcher.stopped.wait(LOOK):
                pass
            watcher.stopped.set()  # open event streams end, so that the server can

        threading.Thread(target=ends, daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
