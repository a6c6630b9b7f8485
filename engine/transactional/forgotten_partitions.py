"""Asks a source for partitions that it never uses again, and forgets their positions (TX-11)."""

import asyncio
import inspect
from collections.abc import Awaitable

from engine.api import TaskContext
from engine.cancellation import CALL_ERRORS
from engine.errors import FatalError
from engine.topology.task_port import SpoutPort
from engine.transactional.batch_runner import call_timeout
from engine.transactional.open_batches import OpenBatches
from engine.transactional.spout_adapters import CoordinatorAdapter


class ForgottenPartitions:
    """The question of an instance of the coordinator. An error of the user's method does not undo the commit."""

    def __init__(self, adapter: CoordinatorAdapter, batches: OpenBatches, context: TaskContext, port: SpoutPort) -> None:
        self._adapter = adapter
        self._batches = batches
        self._context = context
        self._port = port
        self._aio_task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Ask after a commit, unless the last question is still open."""
        if self._aio_task is not None and not self._aio_task.done():
            return
        try:
            given = self._adapter.forgotten(self._batches.committed_positions)
            if inspect.isawaitable(given):
                self._aio_task = self._context.create_task(self._wait_for(given))
            else:
                self._batches.forget_positions(self._adapter.checked_forgotten(given))
        except FatalError:
            raise
        except CALL_ERRORS as error:  # of user code, even CancelledError: nothing was awaited
            self._report(error)

    async def _wait_for(self, given: Awaitable[object]) -> None:
        try:
            async with call_timeout(self._context.config, "forgotten()"):
                self._batches.forget_positions(self._adapter.checked_forgotten(await given))
        except FatalError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's own
            self._report(error)

    def _report(self, error: BaseException) -> None:
        self._port.report(error, "the batch stays committed, and forgotten() is called again after the next one")
