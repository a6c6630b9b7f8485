"""Cost of open pages: a word count with readers of its events, beside the same run without a server (WEB-3).

Watched and unwatched times alternate in one run, so that the drift of the machine meets both. The readers are a process of their own.
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


async def measure(pages: int, pairs: int, measured_secs: float) -> dict[str, float]:
    """Return the cost of watching in per cent of the throughput, and the rates with and without `pages` readers."""
    builder = TopologyBuilder("watched")
    done = WORKS["word-count"](builder)
    plain, watched = [], []
    async with engine.run(builder.build(), Config(max_spout_pending=MAX_SPOUT_PENDING)) as run:
        await asyncio.sleep(1.0)
        for _ in range(pairs):
            plain.append(await _rate(done, measured_secs))
            async with web.serve(run, "127.0.0.1:0") as server, _readers(server.address.port, pages):
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
async def _readers(port: int, pages: int) -> AsyncIterator[None]:
    """Run the process of the readers, from the moment when all of them have got a first event."""
    command = (sys.executable, "-m", "bench.service.watching", str(port), str(pages))
    process = await asyncio.create_subprocess_exec(*command, cwd=PROJECT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        if (await process.stdout.readline()).decode().strip() != READY:
            raise SystemExit("the readers of the events could not connect")
        yield
    finally:
        process.terminate()
        await process.wait()


async def read_events(port: int, pages: int) -> None:
    """Read the events of `pages` pages until the process is terminated. Prints a line when all have begun."""
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(pages)]
    for _, writer in connections:
        writer.write(f"GET /api/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
    for reader, _ in connections:
        await reader.readuntil(b"event: ")
    print(READY, flush=True)
    await asyncio.gather(*(_drain(reader) for reader, _ in connections))


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


if __name__ == "__main__":
    asyncio.run(read_events(int(sys.argv[1]), int(sys.argv[2])))
