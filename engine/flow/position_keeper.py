"""The position on disk (FC-6): one entry of one ledger of the run's state provider, written now and then."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from engine.errors import FatalError, StateError, StateFenced
from engine.kernel import DonePrefix
from engine.raised import headline
from engine.state import Ledger, Patience
from engine.topology import TaskContext

FORMAT: Final = 1
ENTRY: Final = "flow"


def ledger_name(component_id: str, task_index: int) -> str:
    """Return the name of the ledger of one task of a flow-control spout."""
    return f"flow:{component_id}:{task_index}"


class StoredPosition(NamedTuple):
    """What an entry says."""

    position: Any
    """None: nothing is done yet."""
    records: int
    """So many records were done up to it, over all runs."""


class PositionKeeper:
    """Keeps the position of one spout task. One write at a time, and never an older one behind a newer."""

    def __init__(self, ledger: Ledger, prefix: DonePrefix, context: TaskContext, interval_secs: float, patience: Patience) -> None:
        self._ledger = ledger
        self._prefix = prefix
        self._context = context
        self._where = f"spout {context.component_id!r}"
        self._interval_secs = interval_secs
        self._patience = patience
        self._moved = asyncio.Event()
        self._hurried = asyncio.Event()
        self._writing = asyncio.Lock()
        self._before = 0
        """Records that were done by those who wrote before this instance."""
        self.position: Any = None
        """The recorded one."""
        self.recorded = 0
        """Records of this instance below it."""

    async def open(self) -> Any:
        """Return the position to go on behind. Raise FatalError where it is another's, or cannot be read."""
        try:
            await self._patience.with_(self._ledger.claim)
            entries = await self._patience.with_(self._ledger.read)
            stored = stored_position(entries, self._where, self._context.tasks)
        except StateError as error:
            raise FatalError(error.message, hint=error.hint) from error
        self.position, self._before = stored.position, stored.records
        return self.position

    @property
    def is_due(self) -> bool:
        """True while what is done is more than what is recorded."""
        return self._prefix.done > self.recorded

    @property
    def done(self) -> int:
        """Records that are done up to here, over all runs."""
        return self._before + self._prefix.done

    def note_moved(self) -> None:
        """The done prefix has grown."""
        self._moved.set()

    def hurry(self) -> None:
        """Nothing else is left to do: write without waiting for the interval."""
        self._hurried.set()

    async def keep(self) -> None:
        """Write until cancelled."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            self._hurried.clear()
            await self.write()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_secs):
                    await self._hurried.wait()

    async def write(self) -> None:
        """Record how far everything is done, where that has changed; raise FatalError where it cannot be.

        Cancelled, it is not tried again: a task's next instance shares the ledger, and would have its own position overwritten.
        """
        async with self._writing:
            if self.is_due:
                await self._write(self._prefix.done, self._prefix.position)

    async def _write(self, done: int, position: Any) -> None:
        entries = {ENTRY: [FORMAT, self._context.tasks, position, self._before + done]}
        try:
            await self._patience.with_(lambda: self._ledger.write(entries))
        except StateFenced as error:
            raise FatalError(
                f"{self._where}: another process has taken its position over, so this one ends: {error.message}",
                hint="Run one process for a topology; -c standby=true lets a second one wait.",
            ) from error
        except StateError as error:
            raise FatalError(
                f"{self._where}: its position {position!r} cannot be kept: {error.message}",
                hint=error.hint or "Positions are bool, int, float, str, bytes, datetime, and tuples, lists and dicts of these.",
            ) from error
        except Exception as error:  # under on_error="fail" the run would wait for ever for a position that nobody writes any more
            raise FatalError(
                f"{self._where}: its position {position!r} cannot be kept: {headline(error)}",
                hint="A state provider raises StateUnavailable for what passes, and StateError for what does not.",
            ) from error
        self.position, self.recorded = position, done
        self._context.wake()  # it may have been the last thing that the run waited for


def stored_position(entries: Mapping[str, object], where: str, tasks: int) -> StoredPosition:
    """Return what a ledger says; raise StateError where that is of another number of tasks, or none of ours."""
    if ENTRY not in entries:
        return StoredPosition(None, 0)
    try:
        written, of_tasks, position, records = cast(Any, entries[ENTRY])
        if written != FORMAT or type(of_tasks) is not int or type(records) is not int or records < 0 or position is None:
            raise ValueError(f"format {written!r}")
    except (TypeError, ValueError):
        raise StateError(
            f"{where}: its stored position cannot be read: {entries[ENTRY]!r}"[:400],
            hint="It is damaged, or of a newer version of the engine. To begin anew, give the spout another id.",
        ) from None
    if of_tasks != tasks:
        raise StateError(
            f"{where}: its position was stored by a spout of {of_tasks} tasks, and it has {tasks} now: nobody can tell their records apart",
            hint=f"Keep parallelism={of_tasks}, or give the spout another id to begin anew.",
        )
    return StoredPosition(position, records)
