"""Collectors of batch bolts and emitters, and the errors of invalid emits (TX-1, TX-4)."""

from typing import Any, Final

from engine.api import Fields, wrong_values
from engine.errors import EngineError, UsageError
from engine.kernel import BatchEmitter, DigestingEmitter, TaskBatch
from engine.topology import ComponentSpec
from engine.transactional.attempt import TransactionAttempt

ATTEMPT_FIELD: Final = "attempt"


def wrong_emit(spec: ComponentSpec, stream: str, values: object) -> EngineError:
    """Return the error for values that do not fit a stream. The engine fills its first field."""
    fields = spec.streams[stream].names[1:]
    error = wrong_values(f"{spec.component_id!r} emitted to stream {stream!r}", values, Fields(*fields) if fields else None)
    if isinstance(values, (tuple, list)) and values and isinstance(values[0], TransactionAttempt):
        return UsageError(error.message, hint="The collector puts the attempt in front. Emit only the other values.")
    return error


class _Reports:
    """Methods of a batch collector that the compiled emitter lacks."""

    _outer: Any

    def report_error(self, error: BaseException) -> None:
        self._outer.report_error(error)

    async def ready(self) -> None:
        await self._outer.ready()


class BatchBoltCollector(_Reports, BatchEmitter):
    """`self.collector` of an instance of a batch bolt."""

    def __init__(self, batch: TaskBatch, outer: Any) -> None:
        super().__init__(batch)
        self._outer = outer


class EmitterCollector(_Reports, DigestingEmitter):
    """Collector of an emitter for one batch."""

    def __init__(self, batch: TaskBatch, outer: Any, *, digests: bool) -> None:
        super().__init__(batch, digests=digests)
        self._outer = outer
