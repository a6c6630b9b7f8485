"""Makes the blocks of results: the rows of a job for components outside of it. Combines rows where their committer allows it."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from engine.kernel import Source
from engine.names import REPORT_STREAM
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.combining import Combiner
from spark_bridge.topology.blocks import BLOCK_ROWS, Run
from spark_bridge.topology.combining import Combined
from spark_bridge.topology.loaded_program import LoadedProgram
from spark_bridge.topology.result_files import ResultBlock


class ResultBlocks:
    """The results of one partition, or of the emitters in the engine's process, for one attempt."""

    def __init__(self, loaded: LoadedProgram, attempt: TransactionAttempt, send: Callable[[int, ResultBlock], None]) -> None:
        """send: gets the source task, and a block."""
        self._loaded = loaded
        self._attempt = attempt
        self._send = send
        self._combiners: dict[tuple[int, Combined], Combiner] = {}

    def add(self, source: int, target: int, runs: list[Run]) -> None:
        """Send or combine the rows of a task. The engine's process makes the reports again. Raises CombiningFailed."""
        if target in self._loaded.late_tasks:  # of a direct stream
            kept = [run for run in runs if run[0] != REPORT_STREAM]
            target_task = target
        else:
            kept = [(stream, rows) for stream, rows in runs if stream != REPORT_STREAM and self._is_raw(source, stream, rows)]
            target_task = 0
        if kept:
            self._send(source, ResultBlock(target_task, kept))

    def _is_raw(self, source: int, stream: str, rows: list[tuple[Any, ...]]) -> bool:
        """Combine rows for the committers that allow it. Return whether another component needs each row."""
        component = self._loaded.component_of[source]
        for combined in self._loaded.combined.get((component, stream), ()):
            combiner = self._combiners.get((source, combined))
            if combiner is None:
                fields = self._loaded.program.described.components[component].streams[stream]
                origin = Source(component, stream, source, fields)
                combiner = self._combiners[source, combined] = combined.combining.combiner(origin, self._attempt)
            combiner.add(rows)
        return (component, stream) in self._loaded.raw

    def finish(self) -> None:
        """Send the partial results, in the order of the source tasks."""
        for (source, combined), combiner in sorted(self._combiners.items(), key=lambda entry: (entry[0][0], entry[0][1].partial_stream)):
            for rows in _slices(combiner.partial_rows()):
                self._send(source, ResultBlock(0, [(combined.partial_stream, rows)]))


def _slices(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while part := list(islice(rows, BLOCK_ROWS)):
        yield part
