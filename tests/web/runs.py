"""Runs, clients and raw requests for the tests of engine.web."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

import engine
from engine import Config, Inlet, Reply, Run, Topology, TopologyBuilder, bolt, spout
from engine.web import Serving, app, serve

TOKEN = "a-secret-text"
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


@bolt("number", "square")
def square(tup: Any) -> Any:
    if tup["number"] == 13:
        raise ValueError("<b>thirteen</b>")
    return tup["number"], tup["number"] ** 2


def topology(name: str = "squares", *, inlet: str = "in", middle: str = "square") -> Topology:
    """Return a topology that answers calls with squares, and fails 13."""
    builder = TopologyBuilder(name)
    builder.set_spout(inlet, lambda: Inlet("number"))
    builder.set_bolt(middle, square, parallelism=2).shuffle_grouping(inlet)
    builder.set_bolt("reply", Reply).shuffle_grouping(middle)
    return builder.build()


@spout("number")
def few() -> Any:
    yield from ((number,) for number in range(10))


def ending_topology() -> Topology:
    """Return a topology that completes by itself."""
    builder = TopologyBuilder("few")
    builder.set_spout("numbers", few)
    builder.set_bolt("square", square).shuffle_grouping("numbers")
    return builder.build()


@contextlib.asynccontextmanager
async def client_of(run: Run, *, base_url: str = "http://127.0.0.1:8080", **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application in this process, without a socket."""
    transport = httpx.ASGITransport(app(run, **{"token": TOKEN, **options}))
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client


@contextlib.asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Run, httpx.AsyncClient]]:
    """Yield a run that runs, and its client."""
    async with engine.run(topology(), Config(seed=1)) as run:
        async with client_of(run, **options) as client:
            yield run, client


@contextlib.asynccontextmanager
async def served(described: Topology | None = None, **options: Any) -> AsyncIterator[tuple[Run, Serving]]:
    """Yield a run that runs, and its server on a free port of loopback."""
    run = engine.run(described or topology(), Config(seed=1))
    async with serve(run, "127.0.0.1:0", **{"token": TOKEN, **options}) as serving, run:
        yield run, serving


async def connect(serving: Serving) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to a server."""
    return await asyncio.open_connection(serving.address.host, serving.address.port, limit=10_000_000)


async def ask(serving: Serving, request: bytes) -> bytes:
    """Send raw bytes, and return all that the server sends until it closes the connection."""
    reader, writer = await connect(serving)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def open_events(serving: Serving) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for the events of a run, and read the head of the answer."""
    reader, writer = await connect(serving)
    writer.write(b"GET /api/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader, writer


async def next_event(reader: asyncio.StreamReader) -> tuple[str, Any]:
    """Return name and value of the next server-sent event."""
    return parsed_event(await reader.readuntil(b"\n\n"))


def parsed_event(event: bytes) -> tuple[str, Any]:
    """Return name and value of a server-sent event."""
    name, data = event.decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
