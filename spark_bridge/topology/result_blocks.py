"""Makes the blocks of results: the rows of a job for components outside of it. Combines rows where their committer allows it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from engine.api import Values
from engine.errors import ERROR, Failure
from engine.kernel import Source
from engine.names import REPORT_STREAM
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_runner import failure_text
from engine.transactional.combining import Combiner, CombiningFailed
from spark_bridge.topology.blocks import BLOCK_BYTES, BLOCK_ROWS, Run, estimated_bytes
from spark_bridge.topology.combining import Combined
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.result_files import ResultBlock

Refuse: TypeAlias = Callable[[int, str, CombiningFailed], None]
"""Gets the source task, the committer, and the reason why its tuples cannot be combined."""


class ResultBlocks:
    """The results of one partition, or of the emitters in the engine's process, for one attempt."""

    def __init__(
        self, loaded: LoadedProgram, attempt: TransactionAttempt, send: Callable[[int, ResultBlock], None], refuse: Refuse
    ) -> None:
        """send: gets the source task, and a block. refuse: called once, and nothing is sent after it."""
        self._loaded = loaded
        self._attempt = attempt
        self._send = send
        self._refuse = refuse
        self._combiners: dict[tuple[int, str], tuple[Combined, Combiner]] = {}
        """By source task and stream of the partial results."""
        self._has_failed = False

    def add(self, source: int, target: int, runs: list[Run]) -> None:
        """Send or combine the rows of a task. The engine's process makes the reports again."""
        is_direct = target in self._loaded.late_tasks
        kept = []
        for stream, rows in runs:
            if stream == REPORT_STREAM or self._has_failed:
                continue
            place = self._loaded.component_of[source], stream
            if not is_direct:
                for combined in self._loaded.combined.get(place, ()):
                    self._combine(source, combined, rows)
            if is_direct or place in self._loaded.raw:
                kept.append((stream, rows))
        if kept and not self._has_failed:
            self._send(source, ResultBlock(target if is_direct else 0, kept))

    def _combine(self, source: int, combined: Combined, rows: list[tuple[Any, ...]]) -> None:
        """Add rows for a committer that needs only partial results."""
        try:
            key = source, combined.partial_stream
            if key not in self._combiners:
                fields = self._loaded.program.described.components[combined.source].streams[combined.stream]
                origin = Source(combined.source, combined.stream, source, fields)
                self._combiners[key] = combined, combined.combining.combiner(origin, self._attempt)
            combiner = self._combiners[key][1]
            combiner.add(rows)
            self._send_partials(source, combined, combiner.complete_rows())
        except Exception as error:  # noqa: BLE001 - of user code
            self._fail(source, combined, error)

    def finish(self) -> None:
        """Send the partial results, in the order of the source tasks."""
        for (source, _), (combined, combiner) in sorted(self._combiners.items(), key=lambda entry: entry[0]):
            if self._has_failed:
                return
            try:
                self._send_partials(source, combined, combiner.partial_rows())
            except Exception as error:  # noqa: BLE001 - of user code
                self._fail(source, combined, error)

    def _send_partials(self, source: int, combined: Combined, partials: Iterable[Values]) -> None:
        for rows in _slices(partials):
            self._send(source, ResultBlock(0, [(combined.partial_stream, rows)]))

    def _fail(self, source: int, combined: Combined, error: Exception) -> None:
        if isinstance(error, OSError):  # of a file of results
            raise error
        self._has_failed = True
        self._refuse(source, combined.committer, error if isinstance(error, CombiningFailed) else CombiningFailed(None, error))


def _slices(partials: Iterable[Values]) -> Iterator[list[Any]]:
    """Yield rows in lists that are as large as a full block, or one row larger."""
    part: list[Any] = []
    size = 0
    for row in partials:
        part.append(row)
        size += estimated_bytes(row)
        if len(part) >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def combining_step(committer: str, attempt: TransactionAttempt | None) -> str:
    """Return the last line of the report about a tuple that cannot be combined."""
    return f"committer {committer!r} cannot combine this tuple, so batch {attempt} fails, and is tried again"


def combining_failure(component: str, task: int, committer: str, failed: CombiningFailed) -> Failure:
    """Return the failure of an attempt with such a tuple."""
    return Failure(ERROR, component, task, f"committer {committer!r} cannot combine a tuple: {failure_text(failed.error)}")
