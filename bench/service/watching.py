"""Cost of readers: a word count with open pages, or with clients that ask without pause, beside the same run without a server (WEB-3).

Watched and unwatched times alternate in one run, so that the drift of the machine meets both. The readers are a process of their own.
A new server has 30 ms saved up for its first readers, so these read for some seconds before the measurement begins.
"""

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import engine
from bench.environments import PROJECT
from bench.macro.throughput import MAX_SPOUT_PENDING, WORKS
from bench.measuring import count_for
from engine import Config, TopologyBuilder, web

READY = "reading"


async def measure(readers: int, path: str, pairs: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the cost of `readers` of a path in per cent of the throughput, and the rates with and without them."""
    builder = TopologyBuilder("watched")
    done = WORKS["word-count"](builder)
    plain, watched = [], []
    async with engine.run(builder.build(), Config(max_spout_pending=MAX_SPOUT_PENDING)) as run:
        await asyncio.sleep(1.0)
        for _ in range(pairs):
            plain.append(await _rate(done, measured_secs))
            async with web.serve(run, "127.0.0.1:0") as server, _reading(server.address.port, readers, path):
                await asyncio.sleep(warm_secs)
                watched.append(await _rate(done, measured_secs))
        await run.stop()
    costs = [(1 - with_pages / without) * 100 for without, with_pages in zip(plain, watched, strict=True)]
    return {
        "units": sum(watched) * measured_secs,
        "cost_percent": statistics.median(costs),
        "plain_per_second": statistics.median(plain),
        "watched_per_second": statistics.median(watched),
    }


async def _rate(done: Callable[[], int], secs: float) -> float:
    units, took = await count_for(secs, done)
    return units / took


@asynccontextmanager
async def _reading(port: int, readers: int, path: str) -> AsyncIterator[None]:
    """Run the process of the readers, from the moment when all of them have got a first answer."""
    command = (sys.executable, "-m", "bench.service.watching", str(port), str(readers), path)
    process = await asyncio.create_subprocess_exec(*command, cwd=PROJECT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        if (await process.stdout.readline()).decode().strip() != READY:
            raise SystemExit("the readers could not connect")
        yield
    finally:
        process.terminate()
        await process.wait()


async def read(port: int, readers: int, path: str) -> None:
    """Read until the process is terminated: the events of pages, or answers without pause. Prints a line when all have begun."""
    request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(readers)]
    for _, writer in connections:
        writer.write(request)
    heads = [(await reader.readuntil(b"\r\n\r\n")).decode().lower() for reader, _ in connections]
    print(READY, flush=True)
    await asyncio.gather(*(_read_on(*connection, head, request) for connection, head in zip(connections, heads, strict=True)))


async def _read_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, request: bytes) -> None:
    """Take an answer. If it has an end, ask again at once."""
    while "content-length: " in head:
        await reader.readexactly(int(head.split("content-length: ", 1)[1].split("\r\n", 1)[0]))
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    while await reader.read(65_536):
        pass


if __name__ == "__main__":
    asyncio.run(read(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
