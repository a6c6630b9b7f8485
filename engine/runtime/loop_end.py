"""Closes a run whose event loop ends although nobody has left the run, for example in a notebook that has lost it (RUN-5)."""

import warnings
from collections.abc import AsyncGenerator
from typing import Final

from engine.log import EngineLogger
from engine.runtime.supervisor import Supervisor

LOGGER: Final = EngineLogger("engine.runtime")


class LoopEnd:
    """Waits for the end of the event loop, as long as the run is open.

    `asyncio.run` and its like cancel all asyncio tasks first. A host that is inside `async with` leaves it then. After that they close all
    async generators, and wait for them. So this object keeps an async generator that closes a run which is still open. A loop that is only
    closed calls nobody. Then the garbage collector finds the run, whose lock and sockets close with their objects.
    """

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self._name = name
        self._supervisor = supervisor
        self._generator: AsyncGenerator[None] | None = None

    async def watch(self) -> None:
        """Begin to wait for the end of the running loop."""
        self._generator = self._until_loop_ends()
        await anext(self._generator)

    async def forget(self) -> None:
        """Wait no more, because the run is closed."""
        generator, self._generator = self._generator, None
        if generator is not None:
            await generator.aclose()

    async def _until_loop_ends(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._generator = None
            if not self._supervisor.is_closed:
                try:
                    await self._supervisor.close("stopped")
                finally:
                    self._warn("its event loop has ended, so the run was closed")

    def __del__(self) -> None:
        if not self._supervisor.is_closed:
            self._warn("its event loop was closed, and nothing refers to the run any more. Its components were not closed")

    def _warn(self, what: str) -> None:
        text = (
            f"the run of {self._name!r} was entered and never left: {what}. Write `async with engine.run(topology) as run`, "
            "or await run.stop() when you are done."
        )
        LOGGER.warning("%s", text)
        warnings.warn(text, ResourceWarning, stacklevel=2)
