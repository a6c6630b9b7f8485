"""The working `BoltPort`: what checkpoints and transactions may ask of a bolt task."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from engine.api import Tuple as AnyTuple
from engine.api import Values
from engine.errors import Failure
from engine.kernel import BatchFeed, Layers, Tuple, reply
from engine.names import DEFAULT_STREAM
from engine.topology.task_port import RunPort

if TYPE_CHECKING:
    from engine.runtime.bolt_executor import BoltExecutor

SETTLES_PER_BURST: Final = 4096


class ExecutorBoltPort:
    """The port of one bolt task; it outlives the task's instances."""

    def __init__(self, executor: "BoltExecutor") -> None:
        self._executor = executor

    @property
    def run(self) -> RunPort:
        return self._executor.around.port

    @property
    def is_ending(self) -> bool:
        return self._executor.is_ending

    def hold(self, source_task: int) -> None:
        self._executor.core.hold(source_task)

    def release(self, source_task: int) -> None:
        self._executor.core.release(source_task)
        self._executor.doorbell.ring()

    def close_gate(self) -> None:
        self._executor.core.gate(True)

    def open_gate(self) -> None:
        self._executor.has_worked = True
        self._executor.core.gate(False)
        self._executor.doorbell.ring()

    def emit_control(self, values: Values, anchor: AnyTuple | None = None, stream: str = DEFAULT_STREAM) -> None:
        assert anchor is None or isinstance(anchor, Tuple)
        self._executor.core.emit_control(values, stream, anchor)

    def refresh_control(self, tup: AnyTuple) -> None:
        assert isinstance(tup, Tuple)
        self._executor.core.reset_timeout(tup)

    def settle_control(self, tup: AnyTuple, failure: Failure | None = None) -> None:
        assert isinstance(tup, Tuple)
        self._executor.core.settle_control(tup, failure)

    def reply(self, tup: AnyTuple, answer: object) -> None:
        assert isinstance(tup, Tuple)
        reply(self._executor.core, tup, answer)

    def batch_feed(self, runner: object, sources: Iterable[int], *, emits_results: bool = False) -> BatchFeed:
        return BatchFeed(self._executor.core, runner, sources, emits_results=emits_results)

    def report(self, error: BaseException, next_step: str, tup: AnyTuple | None = None) -> None:
        self._executor.reporter.report(error, tup=tup, next_step=next_step)

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        await self._executor.call(hook, *args)

    async def returned(self) -> None:
        await self._executor.calls.returned()

    def guard_state(self, state: Layers) -> None:
        self._executor.core.guard_state(state)

    def defer_settles(self, *, on: bool = True) -> None:
        self._executor.core.defer_settles(on)

    @property
    def deferred_settles(self) -> int:
        return len(self._executor.core.deferred_acks)

    def prepare_settles(self) -> int:
        return self._executor.core.deferred_acks.prepare()

    async def release_settles(self) -> None:
        await self._in_bursts(self._executor.core.deferred_acks.release_prepared)

    async def fail_settles(self, failure: Failure, *, prepared: bool) -> None:
        kept = self._executor.core.deferred_acks
        await self._in_bursts(lambda limit: kept.fail_deferred(limit, failure))
        if prepared:
            await self._in_bursts(lambda limit: kept.fail_prepared(limit, failure))

    async def _in_bursts(self, settle: Callable[[int], int]) -> None:
        while settle(SETTLES_PER_BURST):
            await asyncio.sleep(0)

    def fail_taken(self, failure: Failure) -> int:
        return self._executor.core.fail_taken(failure)

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        return self._executor.core.count_sent(on)
