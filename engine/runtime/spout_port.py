"""The working `SpoutPort`: what the engine's own spouts may ask of their task."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.api import Values
from engine.names import DEFAULT_STREAM
from engine.topology import ComponentSpec
from engine.topology.task_port import RunPort

if TYPE_CHECKING:
    from engine.runtime.spout_executor import SpoutExecutor


class ExecutorSpoutPort:
    """The port of one spout task; it outlives the task's instances."""

    def __init__(self, executor: "SpoutExecutor") -> None:
        self._executor = executor
        self.listener: Callable[[object, int, float], None] | None = None

    @property
    def run(self) -> RunPort:
        return self._executor.around.port

    def emit_control(
        self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM, *, timeout_secs: float | None = None
    ) -> None:
        self._executor.core.emit_control(values, stream, message_id, timeout_secs)

    def on_settled(self, listener: Callable[[object, int, float], None] | None) -> None:
        self.listener = listener
        self._executor.core.listen(listener)

    def on_reply(self, listener: Callable[[object, int, Any], None] | None) -> None:
        self._executor.core.on_reply = listener

    def subscribers(self, stream: str = DEFAULT_STREAM) -> Sequence[ComponentSpec]:
        executor = self._executor
        return [spec for spec, _ in executor.around.topology.subscribers(executor.place.component_id, stream)]

    def report(self, error: BaseException, next_step: str) -> None:
        self._executor.reporter.report(error, next_step=next_step)

    def poll_again(self) -> None:
        self._executor.poll_again()

    def wait_for_wake(self) -> None:
        self._executor.waits_for_wake = True

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        return self._executor.core.count_sent(on)
