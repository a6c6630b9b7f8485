"""Publishes the rows of each batch once into a user's tables. It knows batches, but neither bolts nor topologies of transactions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.api import TaskContext
from engine.errors import StateError, StateUnavailable
from engine.log import EngineLogger
from engine.state import StoreRetry
from engine.state.rows import FENCES, Row, RowFence, RowStore, RowWriter
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.sql.databases import SqlDatabase
from engine.transactional.stored_txids import WrittenInPart, is_written
from engine.transactional.values.fence import check_no_gap, check_not_older
from engine.transactional.values.open_values import MOST_ROUNDS, ending_the_run
from engine.transactional.values.stored_value import Holder

LOGGER: Final = EngineLogger("engine.sql")


@dataclass(frozen=True)
class RowOutput:
    """A statement in a database, as a resource of a task."""

    database: SqlDatabase
    statement: str
    fields: tuple[str, ...]

    async def open(self, context: TaskContext) -> "OpenRowOutput":
        """Connect, and check the statement. Raises StateUnavailable if the database cannot be reached, else an error that ends the run."""
        writer = RowWriter(context.topology_name, context.component_id, context.task_index, context.tasks)
        with ending_the_run():
            store = self.database.store(self.statement, self.fields, writer)
            try:
                await store.open()
            except BaseException:
                await store.close()
                raise
        return OpenRowOutput(store, writer, str(self.database), context.config.state_timeout_secs)

    def __str__(self) -> str:
        return f"{self.statement!r} in {self.database}"


class OpenRowOutput:
    """The output of one task. A batch is staged first, and then published, as often as needed."""

    def __init__(self, store: RowStore, writer: RowWriter, database: str, timeout_secs: float) -> None:
        self._store = store
        self._writer = writer
        self._where = f"the table {FENCES} in {database}"
        self._holder = Holder("this table", f"delete the rows of {writer.component!r} there, which writes the batches again")
        self._retry = StoreRetry(timeout_secs, store=f"the database {database}")

    def stage(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows in the form to publish. Raises RowRefused for a row that would not be stored as it is."""
        return self._store.stage(rows)

    async def publish(self, attempt: TransactionAttempt, staged: Sequence[Row]) -> None:
        """Execute the statement for each staged row, once for each txid: a txid that is done does nothing.

        Call it for each batch, also for an empty one, because it prevents writes by older attempts. Raises StateFenced if a later attempt
        has written, StateUnavailable after `state_timeout_secs` without the database, else an error that ends the run.
        """
        with ending_the_run():
            await self._retry.call_with_retries(lambda: self._publish_once(attempt, staged))

    async def txid(self) -> int:
        """Return the newest txid that a task of this committer has published, 0 before the first."""
        with ending_the_run():
            return (await self._retry.call_with_retries(self._store.fence)).attempt[0]

    async def forget(self) -> None:
        """Forget all txids of this committer. The user's rows stay."""
        with ending_the_run():
            await self._retry.call_with_retries(self._store.forget)

    async def _publish_once(self, attempt: TransactionAttempt, staged: Sequence[Row]) -> None:
        for _ in range(MOST_ROUNDS):
            fence = await self._store.fence()
            if self._is_published(attempt, fence) or await self._store.publish(fence, attempt, staged):
                return
        raise StateUnavailable(f"{self._where}: other processes keep writing to it", hint="Run each topology in one process.")

    def _is_published(self, attempt: TransactionAttempt, fence: RowFence) -> bool:
        stored, writer = TransactionAttempt(*fence.attempt), self._writer
        check_not_older(self._where, attempt, stored, self._holder)
        check_no_gap(self._where, attempt, stored)
        if stored.txid == 0 and attempt.txid > 1:
            LOGGER.warning("%s has no batch of %r yet, at %s: earlier batches are not in it", self._where, writer.component, attempt)
        try:
            return is_written(fence.tasks, writer.task, writer.tasks, attempt.txid)
        except WrittenInPart as part:
            tasks = ", ".join(map(str, part.missing))
            raise StateError(
                f"{writer.component!r} has {writer.tasks} tasks, but had {part.newest.parallelism} when it wrote transaction "
                f"{part.newest.txid}. The rows of task {tasks} of this transaction were not written",
                hint=f"Run it once with a parallelism of {part.newest.parallelism} until this transaction is committed. Then change it.",
            ) from None

    async def close(self) -> None:
        """Close the connection to the database. The engine calls it."""
        await self._store.close()
