"""A served run in another thread, for tests of the commands that reach a run elsewhere."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import engine
from engine import Config, Run, Topology
from engine.web import serve
from tests.patience import PATIENCE_SECS

TOKEN = "a-secret-text"


@dataclass
class Served:
    """A run on the loop of another thread."""

    url: str
    run: Run
    loop: asyncio.AbstractEventLoop

    def ask(self, work: Callable[[], Any]) -> Any:
        """Call a coroutine function on the loop of the run, and return its result."""
        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(PATIENCE_SECS)


@contextmanager
def served_run(topology: Topology, **options: Any) -> Iterator[Served]:
    """Serve a run in a thread. At the end, stop it."""
    begun: Future[Served] = Future()
    over = asyncio.Event()

    async def main() -> None:
        run = engine.run(topology, Config(seed=1))
        try:
            async with serve(run, "0", token=TOKEN, **options) as serving, run:
                begun.set_result(Served(serving.url, run, asyncio.get_running_loop()))
                ended = asyncio.ensure_future(run.completed())
                await asyncio.wait((ended, asyncio.ensure_future(over.wait())), return_when=asyncio.FIRST_COMPLETED)
        except Exception as error:
            if not begun.done():
                begun.set_exception(error)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        served = begun.result(PATIENCE_SECS)
        yield served
    finally:
        if begun.done() and begun.exception() is None:
            try:
                begun.result().loop.call_soon_threadsafe(over.set)
            except RuntimeError:
                assert not thread.is_alive(), "the loop is closed, so the run has ended"
        thread.join(PATIENCE_SECS)
        assert not thread.is_alive()
