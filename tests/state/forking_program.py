"""A run with state and a page, whose bolt forks a process that outlives it: `python -m tests.state.forking_program WAY FOLDER`."""

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import engine
from engine import Config, StatefulBolt, TopologyBuilder, Tuple, spout
from engine.web import serve

NAME = "forks"
CONNECTED = asyncio.Event()
"""Set when the test has connected to the page."""


class Forks(StatefulBolt):
    """Forks at its first input, in one of three ways, and prints the id of the forked process."""

    def __init__(self, way: str) -> None:
        self.way = way

    def init_state(self, state: Any) -> None:
        self.state = state

    def begin(self) -> None:
        """Fork."""
        if self.way == "pool":
            self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
            print(self.pool.submit(os.getpid).result(), flush=True)
            self.pool.submit(time.sleep, 600)
        elif self.way == "thread":
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
        else:
            fork()

    def execute(self, tup: Tuple) -> None:
        if tup["number"] == 0:
            self.begin()
        self.state.put("all", self.state.get("all", 0) + 1)
        self.collector.ack(tup)


def fork() -> None:
    """Fork a process that prints its id, and sleeps."""
    if os.fork() == 0:
        os.write(1, b"%d\n" % os.getpid())
        os.close(1)
        time.sleep(600)
        os._exit(0)


@spout("number")
async def numbers() -> Any:
    await CONNECTED.wait()
    for number in range(10_000):
        yield (number,)
        await asyncio.sleep(0.01)


async def main(way: str, folder: str) -> None:
    """Run until standard input ends. The bolt forks after the first byte."""
    builder = TopologyBuilder(NAME, Config(state_provider=f"sqlite:///{folder}/state.db", state_checkpoint_interval_ms=20))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("forks", lambda: Forks(way)).global_grouping("numbers")
    run = engine.run(builder.build())
    async with serve(run, "127.0.0.1:0") as serving:
        print(serving.address.port, flush=True)
        async with run:
            await asyncio.to_thread(os.read, 0, 1)
            CONNECTED.set()
            await asyncio.to_thread(os.read, 0, 1)  # sys.stdin would be locked during a fork
    print("ended", flush=True)
    os._exit(0)  # without waiting for the pool


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
