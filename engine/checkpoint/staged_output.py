"""Output of committers, from the PREPARE that stages it to the commit that publishes it (EO-9).

The output of a task is stored in the form of a delta, and counts if the record says so. It belongs to no state: it is dropped as soon as it
is published. So it does not matter with which parallelism the next run continues.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from engine.checkpoint.machine import Record
from engine.checkpoint.record_entries import StoredEntries
from engine.state import Row, SealedStores, TaskStore

Patiently: TypeAlias = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Calls the store, and retries while it is unavailable."""

NOTHING: Final = b""
"""The only blob of an empty output, because stores keep no delta without blobs. No codec makes an empty blob."""


@dataclass(frozen=True, slots=True)
class StagedTask:
    """Output of one task for one interval."""

    txid: int
    round: int
    """The round of its PREPARE."""
    task_index: int
    tasks: int
    """Parallelism of the component when it was staged."""
    blobs: Sequence[bytes]
    left_out: frozenset[int] = frozenset()
    """Numbers of the rows that the target refuses, and that are dead letters."""
    unwritten: Mapping[str, object] = field(default_factory=dict)
    """Changes of the ledger that make the last of them dead letters. Written before the rest is published."""


class StagedOutputs:
    """The staged output of all tasks of one committer, those of an earlier parallelism included."""

    def __init__(self, component_id: str, tasks: int, stored: StoredEntries) -> None:
        """tasks: of this run, 0 if it has no such committer. stored: the entries of the ledger at the start."""
        self.component_id: Final = component_id
        self._refused = stored.refused(component_id)
        self.tasks: Final = tasks
        self._stored_tasks = stored.outputs.get(component_id, 0)
        """Of the run that made the last commit, 0 if there is none."""
        self._stagers = max(tasks, self._stored_tasks, stored.stagers.get(component_id, 0))
        """Tasks that may have staged output, also such that never counts."""
        self._stores: dict[int, TaskStore] = {}
        self._unpublished: dict[int, StagedTask] = {}
        """By task index."""
        self._rounds: dict[int, int] = {}
        """The newest round of each task that has staged something in this process."""
        self._compared: set[int] = set()

    async def open(self, stores: SealedStores, patiently: Patiently, record: Record) -> None:
        """Read what an earlier process has staged and not published, and drop what does not count."""
        for index in range(self._stagers):
            store = self._stores[index] = await patiently(partial(stores.store, self.component_id, index, range(index, index + 1)))
            staged = await patiently(store.deltas)
            for delta in staged:
                if delta.txid == record.decided_txid and record.is_committed(delta.txid, delta.round):
                    refused = self._refused.get(index)
                    left_out = refused.rows if refused is not None and refused[:2] == (delta.txid, delta.round) else frozenset()
                    blobs = [blob for blob in delta.blobs if blob != NOTHING]
                    self._unpublished[index] = StagedTask(delta.txid, delta.round, index, self._stored_tasks, blobs, left_out)
            if any(delta.txid > record.decided_txid for delta in staged):
                await patiently(partial(store.drop, record.decided_txid))
            if index not in self._unpublished and any(delta.txid <= record.decided_txid for delta in staged):
                await patiently(partial(store.fold, _no_rows(), record.decided_txid))  # of a round that does not count

    @property
    def was_staged(self) -> bool:
        """True if the run that made the last commit had this committer."""
        return self._stored_tasks > 0

    @property
    def has_unpublished(self) -> bool:
        """True if a task has output that counts, or is being staged."""
        return bool(self._unpublished)

    def unpublished(self, task_index: int, txid: int) -> list[StagedTask]:
        """Return the output of a commit that a task has to publish: its own, and that of tasks that exist no longer."""
        return [
            output for index, output in sorted(self._unpublished.items()) if index % self.tasks == task_index and output.txid == txid
        ]

    async def stage(self, output: StagedTask) -> None:
        """Stage the output of a task durably, also an empty one, because a missing one counts as published."""
        if output.round < self._rounds.get(output.task_index, 0):
            return  # the write of an older round may be repeated for long, and what it would stage may be published already
        self._rounds[output.task_index] = output.round
        self._unpublished[output.task_index] = output
        async with aclosing(_each(output.blobs or (NOTHING,))) as blobs:
            await self._stores[output.task_index].stage(output.txid, output.round, blobs)

    def of(self, task_index: int) -> StagedTask:
        """Return the output of a task as it is to be published."""
        return self._unpublished[task_index]

    def leave_out(self, task_index: int, rows: Iterable[int], entries: Mapping[str, object]) -> None:
        """Publish an output without more rows from now on. entries: changes of the ledger that must be written before.

        The next try continues here, also that of another instance. So it cannot make letters of the same rows again.
        """
        output = self._unpublished[task_index]
        self._unpublished[task_index] = replace(output, left_out=output.left_out.union(rows), unwritten=entries)

    def note_written(self, output: StagedTask) -> None:
        """Note that the ledger has the rows that an output leaves out."""
        self._unpublished[output.task_index] = replace(output, unwritten={})

    def is_compared(self, task_index: int) -> bool:
        """True if a task of this process has compared the txids of its target with the record."""
        return task_index in self._compared

    def note_compared(self, task_index: int) -> None:
        """Note that a task has done so. From then on the target follows the record."""
        self._compared.add(task_index)

    async def drop(self, output: StagedTask) -> None:
        """Drop an output, because it is published."""
        await self._stores[output.task_index].fold(_no_rows(), output.txid)
        current = self._unpublished.get(output.task_index)
        if current is not None and (current.txid, current.round) == (output.txid, output.round):
            del self._unpublished[output.task_index]


async def open_outputs(
    stored: StoredEntries, committers: Mapping[str, int], stores: SealedStores, patiently: Patiently
) -> dict[str, StagedOutputs]:
    """Return the staged output of the committers of a run, and drop what committers of earlier runs have left.

    committers: numbers of tasks by component id.
    """
    found = {}
    for component_id in sorted({*committers, *stored.stagers}):
        outputs = StagedOutputs(component_id, committers.get(component_id, 0), stored)
        await outputs.open(stores, patiently, stored.record)
        if component_id in committers:
            found[component_id] = outputs
    return found


async def _each(blobs: Sequence[bytes]) -> AsyncGenerator[bytes, None]:
    for blob in blobs:
        yield blob


async def _no_rows() -> AsyncIterator[list[Row]]:
    nothing: list[list[Row]] = []
    for rows in nothing:
        yield rows
