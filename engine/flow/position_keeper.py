"""Stores the position of a spout task (FC-6), as one entry of one ledger in the run's state provider."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from engine.api import TaskContext
from engine.errors import FatalError, StateError, StateFenced
from engine.kernel import DonePrefix
from engine.raised import headline
from engine.safe_text import safe_repr
from engine.state import Ledger, StoreRetry

FORMAT: Final = 1
ENTRY: Final = "flow"


def ledger_name(component_id: str, task_index: int) -> str:
    """Return the name of the ledger of one task of a flow-control spout."""
    return f"flow:{component_id}:{task_index}"


class StoredPosition(NamedTuple):
    """The stored position of one spout task."""

    position: Any
    """None if no record is done yet."""
    records: int
    """Records that are done up to the position, over all runs."""


class PositionKeeper:
    """Writes the position of one spout task. Makes one write at a time, and never writes an older position."""

    def __init__(self, ledger: Ledger, prefix: DonePrefix, context: TaskContext, interval_secs: float, patience: StoreRetry) -> None:
        self._ledger = ledger
        self._prefix = prefix
        self._context = context
        self._where = f"spout {context.component_id!r}"
        self._interval_secs = interval_secs
        self._patience = patience
        self._has_grown = asyncio.Event()
        self._is_urgent = asyncio.Event()
        self._writing = asyncio.Lock()
        self._done_before = 0
        """Records that earlier instances and runs have done."""
        self.recorded_position: Any = None
        """The recorded position."""
        self.recorded = 0
        """Records of this instance up to the recorded position."""

    async def load_position(self) -> Any:
        """Claim the ledger, and return the position after which the source continues. Raises FatalError for any StateError."""
        try:
            await self._patience.call_with_retries(self._ledger.claim)
            entries = await self._patience.call_with_retries(self._ledger.read)
            stored = stored_position(entries, self._where, self._context.tasks)
        except StateError as error:
            raise FatalError(error.message, hint=error.hint) from error
        self.recorded_position, self._done_before = stored.position, stored.records
        return self.recorded_position

    @property
    def is_behind(self) -> bool:
        """True while the done prefix is beyond the recorded position."""
        return self._prefix.done > self.recorded

    @property
    def done_records(self) -> int:
        """Records that are done, over all instances and runs."""
        return self._done_before + self._prefix.done

    def note_progress(self) -> None:
        """Note that the done prefix has grown, so that the new position is written."""
        self._has_grown.set()

    def hurry(self) -> None:
        """Start the next write at once, because the run waits only for this write."""
        self._is_urgent.set()

    async def write_periodically(self) -> None:
        """Write the position at most once per interval, until cancelled."""
        while True:
            await self._has_grown.wait()
            self._has_grown.clear()
            self._is_urgent.clear()
            await self.write_position()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_secs):
                    await self._is_urgent.wait()

    async def write_position(self) -> None:
        """Write the position if it has changed. Raises FatalError if the store refuses it."""
        # Do not repeat a cancelled write. It would overwrite the position of the task's next instance, which uses the same ledger.
        async with self._writing:
            if self.is_behind:
                await self._write_entry(self._prefix.done, self._prefix.position)

    async def _write_entry(self, done: int, position: Any) -> None:
        entries = {ENTRY: [FORMAT, self._context.tasks, position, self._done_before + done]}
        try:
            await self._patience.call_with_retries(lambda: self._ledger.write(entries))
        except StateFenced as error:
            raise FatalError(
                f"{self._where}: another process has taken over its position, so this run ends: {error.message}",
                hint="Run one process per topology. With -c standby=true a second process waits for the first.",
            ) from error
        except StateError as error:
            raise FatalError(
                f"{self._where}: its position {safe_repr(position)} cannot be written: {error.message}",
                hint=error.hint or "A position is made of bool, int, float, str, bytes, datetime, and tuples, lists and dicts of these.",
            ) from error
        except Exception as error:  # under on_error="fail" the run would wait forever for a position that is never written
            raise FatalError(
                f"{self._where}: its position {safe_repr(position)} cannot be written: {headline(error)}",
                hint="A state provider raises StateUnavailable for temporary errors, and StateError for all others.",
            ) from error
        self.recorded_position, self.recorded = position, done
        self._context.wake()  # the run may have waited for this write only


def stored_position(entries: Mapping[str, object], where: str, tasks: int) -> StoredPosition:
    """Read a ledger's entry. Raises StateError if it is damaged, or if another number of tasks wrote it."""
    if ENTRY not in entries:
        return StoredPosition(None, 0)
    try:
        written, of_tasks, position, records = cast(Any, entries[ENTRY])
        if written != FORMAT or type(of_tasks) is not int or type(records) is not int or records < 0 or position is None:
            raise ValueError(f"format {written!r}")
    except (TypeError, ValueError):
        raise StateError(
            f"{where}: its stored position cannot be read: {entries[ENTRY]!r}"[:400],
            hint="It is damaged, or a newer version of the engine wrote it. To start from the beginning, give the spout another id.",
        ) from None
    if of_tasks != tasks:
        raise StateError(
            f"{where}: its position was stored with parallelism={of_tasks}; the parallelism is now {tasks}, "
            "and a position cannot be divided among other tasks",
            hint=f"Set parallelism={of_tasks}. To start from the beginning, give the spout another id.",
        )
    return StoredPosition(position, records)
