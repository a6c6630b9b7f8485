"""Routes that read a run: the page, health, metrics, snapshots, the topology, and events."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from engine.in_thread import in_thread
from engine.metrics import CONTENT_TYPE
from engine.web.answers import WrongRequest, error_answer, json_answer
from engine.web.encoding import encode_json
from engine.web.event_stream import EventStream
from engine.web.sample import newest_first
from engine.web.sampler import TooManyReaders
from engine.web.site import Site
from engine.web.static_files import INDEX, STATIC_FILES, StaticFile
from engine.web.topology_layout import Layout, describe_topology, lay_out

MOST_WAIT_SECS: Final = 10.0
"""Longest wait of a request for a snapshot."""


class Reading:
    """The reading routes of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._layout: Layout | None = None
        self._laying_out = asyncio.Lock()
        self._described: tuple[object, bytes] = ((), b"")
        """The answer of `/api/topology`, and the part of the snapshot that it is made of."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/", self.page),
            Route("/static/{name}", self.static_file),
            Route("/healthz", self.health),
            Route("/readyz", self.readiness),
            Route("/metrics", self.metrics),
            Route("/api/snapshot", self.snapshot),
            Route("/api/topology", self.topology),
            Route("/api/traces", self.traces),
            Route("/api/events", self.events),
        ]

    async def page(self, request: Request) -> Response:
        """Answer with the page."""
        self._site.sampler.start()  # so that the page finds a history of the time that it takes to load
        return _file_answer(STATIC_FILES[INDEX])

    async def static_file(self, request: Request) -> Response:
        """Answer with a file of the page."""
        file = STATIC_FILES.get(request.path_params["name"])
        if file is None:
            raise WrongRequest(404, "the page has no such file", "Open the page itself.")
        return _file_answer(file)

    async def health(self, request: Request) -> Response:
        """Answer with 200 unless the run has failed."""
        run = self._site.run
        has_failed = run.state == "failed" or run.error is not None
        if has_failed and run.error is not None:
            return json_answer({"state": run.state, "error": run.error.message, "hint": run.error.hint}, 503)
        return json_answer({"state": run.state}, 503 if has_failed else 200)

    async def readiness(self, request: Request) -> Response:
        """Answer with 200 while the run is running, and waits for nothing that takes long (SV-11)."""
        run, state = self._site.run, self._site.run.state
        if state == "running" and run.error is None and not (waits := run.waits):
            return json_answer({"state": state})
        if state == "running" and run.error is None:
            error = f"the run has been waiting for {waits[0].what} for {waits[0].secs:,.0f} s"
            return json_answer({"state": state, "error": error, "hint": "Look at what it waits for. It goes on by itself."}, 503)
        return json_answer({"state": state, "error": f"the run is {state}, not running", "hint": "Wait until it runs."}, 503)

    async def metrics(self, request: Request) -> Response:
        """Answer with the OpenMetrics text."""
        return Response(self._site.sampler.metrics_text(), headers={"content-type": CONTENT_TYPE})

    async def snapshot(self, request: Request) -> Response:
        """Answer with a snapshot. `?wait=SECS` waits first, at most until the end of the run."""
        wait_secs = _wait_secs(request)
        sampler = self._site.sampler
        if wait_secs:
            sampler.start()
            try:
                with sampler.reader():
                    await _wait_for(sampler.has_ended, wait_secs)
            except TooManyReaders as error:
                return error_answer(503, error.message, error.hint, {"retry-after": "5"})
        return Response(sampler.snapshot_json(), media_type="application/json")

    async def topology(self, request: Request) -> Response:
        """Answer with the components, their edges, and a layout."""
        site, layout, now = self._site, await self._laid_out(), self._site.sampler.snapshot()
        basis = (tuple(now.components), len(now.edges))  # the engine's own components are known once the run has begun
        if self._described[0] != basis:
            described = describe_topology(site.run.topology, layout, now, site.inlets, can_steer=site.access.can_steer)
            self._described = basis, encode_json(described)
        return Response(self._described[1], media_type="application/json")

    async def _laid_out(self) -> Layout:
        """Return the layout of the topology. The first reader has it made, in a thread, because a large topology takes long."""
        async with self._laying_out:
            if self._layout is None:
                with ThreadPoolExecutor(1, "layout of a topology") as pool:
                    self._layout = await in_thread(pool, partial(lay_out, self._site.run.topology))
            return self._layout

    async def traces(self, request: Request) -> Response:
        """Answer with the latest traced messages, the newest first."""
        return json_answer({"traces": newest_first(self._site.run.message_traces)})

    async def events(self, request: Request) -> ASGIApp:
        """Answer with server-sent events: the history, a sample per second, and the end."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return EventStream(self._site.sampler, self._site.drop_connection)


def _file_answer(file: StaticFile) -> Response:
    return Response(file.content, headers={"content-type": file.media_type})


def _wait_secs(request: Request) -> float:
    text = request.query_params.get("wait", "0")
    try:
        secs = float(text)
    except ValueError:
        secs = math.nan
    if not 0 <= secs <= MOST_WAIT_SECS:
        raise WrongRequest(400, "wait is not a number of seconds", f"Write ?wait=1, at most {MOST_WAIT_SECS:g}.")
    return secs


async def _wait_for(event: asyncio.Event, secs: float) -> None:
    try:
        async with asyncio.timeout(secs):
            await event.wait()
    except TimeoutError:
        return
