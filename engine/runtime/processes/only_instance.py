"""`OnlyInstance` is the executor of a stateful bolt in a child process."""

from collections.abc import Callable
from typing import Any

from engine.kernel import Tuple
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.error_report import error_text, safe_repr
from engine.runtime.executor import TooManyFailures


class OnlyInstance(BoltExecutor):
    """Executor whose instance is never replaced, because its state dies with it. The run starts another process."""

    def __init__(self, *arguments: Any) -> None:
        *arguments_of_executor, send_death = arguments
        super().__init__(*arguments_of_executor)
        self._send_death: Callable[[BaseException], None] = send_death

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        if tup is not None:
            error.add_note(f"input: {safe_repr(tup)}")
        self._send_death(error)
        await self.run_context.loop.create_future()

    async def _replace_after_streak(self, error: BaseException) -> None:
        await self._replace(TooManyFailures(f"{self.streak.length:,} calls in a row failed, the last one with {error_text(error)}"))
