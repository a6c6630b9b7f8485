"""A server of the page that plays made-up samples, with the content security policy of `engine.web`.

    python -m tests.web.page_server twenty --port 8090    plays a scene, one sample a second, until Ctrl-C

Tests say when each sample comes, and see each change that the page asks for.
"""

import argparse
import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.servers.process import HOST
from tests.web.page_scenes import SCENES, Json, Scene

STATIC: Final = Path(__file__).parents[2] / "engine" / "web" / "static"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TOKEN: Final = "a-token-for-tests"


@dataclass(frozen=True)
class Change:
    """One POST that the server got."""

    path: str
    token: str
    body: Any


class PageServer:
    """Serves the page and one scene. `play` sends the sample of the next second."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.second = 0
        self.changes: list[Change] = []
        self.port = 0
        self._end: Json | None = None
        self._is_cut = False
        self._wakeups: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """The address of the page, below a path as in a mounted application."""
        return f"http://{HOST}:{self.port}/engine/"

    def play(self, seconds: int = 1) -> None:
        """Send the sample of a later second to the open pages."""
        self._do(lambda: setattr(self, "second", self.second + seconds))

    def end(self, state: str = "drained") -> None:
        """Send the last sample, and close the streams."""
        self._do(lambda: setattr(self, "_end", {**self.scene.sample(self.second + 1), "state": state}))

    def cut(self) -> None:
        """Close all streams, and refuse everything until `heal`."""
        self._do(lambda: setattr(self, "_is_cut", True))

    def heal(self) -> None:
        """Answer again."""
        self._do(lambda: setattr(self, "_is_cut", False))

    def _do(self, action: Any) -> None:
        assert self._loop is not None
        done = threading.Event()

        def act() -> None:
            action()
            for wakeup in self._wakeups:
                wakeup.set()
            done.set()

        self._loop.call_soon_threadsafe(act)
        done.wait(10)

    async def _events(self) -> AsyncIterator[str]:
        wakeup = asyncio.Event()
        self._wakeups.add(wakeup)
        try:
            yield event("history", self.scene.history(self.second))
            sent = None
            while not self._is_cut:
                if self._end is not None:
                    yield event("end", self._end)
                    return
                if sent != self.second:
                    sent = self.second
                    yield event("sample", self.scene.sample(sent))
                await wakeup.wait()
                wakeup.clear()
        finally:
            self._wakeups.discard(wakeup)

    def app(self) -> ASGIApp:
        """Return the application."""

        def events(request: Request) -> Response:
            return StreamingResponse(self._events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

        async def change(request: Request) -> Response:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            text = await request.body()
            self.changes.append(Change(request.url.path.removeprefix("/engine"), token, json.loads(text) if text else None))
            if token != TOKEN:
                return JSONResponse({"error": "the token is wrong", "hint": "Take it from the first lines of the run."}, 401)
            return JSONResponse({"state": "draining"})

        routes = [
            Route("/", lambda request: FileResponse(STATIC / "index.html")),
            Route("/api/topology", lambda request: JSONResponse(self.scene.topology)),
            Route("/api/events", events),
            Route("/api/{path:path}", change, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        mounted = Starlette(routes=routes, middleware=[Middleware(Guard, server=self)])
        return Starlette(routes=[Mount("/engine", mounted)])

    def refuses(self) -> bool:
        """Tell whether the server is cut off."""
        return self._is_cut

    @contextmanager
    def running(self, port: int = 0) -> Iterator["PageServer"]:
        """Serve on a free port of this machine, in a thread of its own."""
        config = uvicorn.Config(self.app(), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        listening = socket.create_server((HOST, port))
        self.port = listening.getsockname()[1]
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            await server.serve([listening])

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="page server")
        thread.start()
        try:
            ready.wait(10)
            yield self
        finally:
            self.cut()
            server.should_exit = True
            thread.join(10)
            listening.close()


class Guard:
    """Adds the policy to each answer. Refuses everything while the server is cut off."""

    def __init__(self, app: ASGIApp, server: PageServer) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        if self._server.refuses():
            await Response("away", 503)(scope, receive, send)
        else:
            await self._app(scope, receive, with_policy)


def event(name: str, value: Json) -> str:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(value, allow_nan=False)}\n\n"


def main() -> None:
    """Play a scene until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.page_server")
    parser.add_argument("scene", choices=SCENES)
    parser.add_argument("--port", type=int, default=8090)
    arguments = parser.parse_args()
    server = PageServer(SCENES[arguments.scene]())
    with server.running(arguments.port):
        print(f"{server.url}#token={TOKEN}", flush=True)
        pause = threading.Event()
        while not pause.wait(1.0):
            server.play()


if __name__ == "__main__":
    main()
