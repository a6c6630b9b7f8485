"""Executors in a child process: `ChildExecutor`, and `OnlyInstance` for a stateful bolt."""

from collections.abc import Callable
from typing import Any

from engine.api import Tuple as AnyTuple
from engine.errors import ComponentError
from engine.kernel import Tuple
from engine.raised import PROGRAMS_END_HINT, add_note, raised_text
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.error_report import error_text
from engine.runtime.executor import TooManyFailures
from engine.runtime.task_ports import ExecutorBoltPort
from engine.safe_text import safe_repr
from engine.topology.task_port import BoltPortUser


class ChildExecutor(BoltExecutor):
    """Executor whose run is in another process."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.core.most_calls_per_lap = 1  # so that it tells its life and its verdicts behind each slow call
        if self.run_context.config.forgotten_ack == "wait":
            self.core.fails_forgotten = True  # the run must hear of a dropped input, to drop it too
            self.settle_warnings.warned_of_forgotten = True  # the run warns

    @property
    def is_empty(self) -> bool:
        """True while nothing waits or runs here."""
        return super().is_empty and not (isinstance(self.component, BoltPortUser) and self.component.is_busy)

    def _program_end_error(self, error: BaseException) -> ComponentError:
        """Return the ComponentError for any BaseException. A Ctrl-C never arrives here, because the process ignores it."""
        message = f"raised {raised_text(error)}, which is not an Exception"
        return ComponentError(self.info.component_id, self.info.task_id, error, message=message, hint=PROGRAMS_END_HINT)


class OnlyInstance(ChildExecutor):
    """Executor whose instance is never replaced, because its state dies with it. The run starts another process."""

    def __init__(self, *arguments: Any) -> None:
        *arguments_of_executor, send_death, request_renewal = arguments
        super().__init__(*arguments_of_executor)
        self._send_death: Callable[[BaseException], None] = send_death
        self._request_renewal: Callable[[BaseException], None] = request_renewal

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        if tup is not None:
            add_note(error, f"input: {safe_repr(tup)}")
        self._send_death(error)
        await self.run_context.loop.create_future()

    async def _replace_after_streak(self, error: BaseException) -> None:
        """Ask the run for a fresh instance, and continue, because the run decides when it is due (SV-1)."""
        self._request_renewal(TooManyFailures(f"{self.streak.length:,} calls in a row failed, the last one with {error_text(error)}"))
        self.streak.length = 0


class ChildPort(ExecutorBoltPort):
    """The port of a task of transactions in a child process."""

    def __init__(self, task: BoltExecutor, send_reply: Callable[[int, object], object]) -> None:
        super().__init__(task)
        self._send_reply = send_reply

    def reply(self, tup: AnyTuple, answer: object) -> None:
        """Send the answer to the run, in front of the verdict of the control tuple. Its only root is its number."""
        assert isinstance(tup, Tuple)
        self._send_reply(tup.roots[0], answer)
