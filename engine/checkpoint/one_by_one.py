"""`OneByOne`: rows that go through the topology alone, so that a row that kills its task or the process is known (EO-6).

A dead task takes the rows around the guilty one along, and a dead process says nothing at all. So in the next pass these rows are kept back
until the barrier. Then all spouts are held, and each of the rows is emitted when all inputs before it are settled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from engine.backoff import Backoff
from engine.checkpoint.given_up import Row
from engine.errors import TASK_DIED, TIMEOUT, Failure
from engine.log import EngineLogger
from engine.topology.task_port import RunPort

ALONE_AFTER: Final = frozenset({TASK_DIED, TIMEOUT})
"""Reasons of failures that also concern rows which have done nothing wrong."""
QUIET_BACKOFF: Final = Backoff(0.0002, 0.02)
"""Pauses between two looks whether all inputs are settled."""
ROWS_OF_A_START: Final = 1_000
"""Rows that a cautious process lets go alone. With each further death there are four times as many."""
STARTS: Final = "starts"
ALONE: Final = "alone"
"""Entries of the ledger: starts since the last commit, and the row that goes alone."""
LOGGER: Final = EngineLogger("engine.checkpoint")
AloneRow: TypeAlias = tuple[str, int, str, bytes | str]
"""(spout, task index, stream, identity)."""


class AloneTask(Protocol):
    """A task of a source that has kept rows back."""

    @property
    def run(self) -> RunPort: ...

    def take_kept(self) -> Row | None:
        """Return the next row that goes alone. None: there is none."""

    def name_of(self, row: Row) -> AloneRow: ...

    def emit_alone(self, row: Row) -> None: ...

    async def failure_of(self, row: Row) -> Failure | None: ...

    def note_passed(self, row: Row) -> None: ...


class OneByOne:
    """The rows of all sources of a run that go alone, one after the other."""

    def __init__(self, max_retries: int | None) -> None:
        self._max_retries = max_retries
        self._turns = asyncio.Lock()
        self.is_under_way = False
        """True while all spouts are held, because rows go alone."""
        self.note_hold: Callable[[], None] = _nothing
        """Called when `is_under_way` changes."""
        self.write: Callable[[Mapping[str, object]], Awaitable[None]] | None = None
        """Writes entries of the ledger."""
        self.acked_before: Mapping[str, int] = {}
        """Inputs that each component had processed when the pass began."""
        self.is_over = False
        """True if the pass fails anyway, and a further row would say nothing more."""
        self._starts = 0
        self._has_noted_start = False
        self._left = 0
        """Rows that still go alone, because the processes before have died."""

    # Rows of a pass

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.is_over = False

    async def emit(self, task: AloneTask) -> None:
        """Emit the rows that a task has kept back, one after the other, while all spouts are held."""
        async with self._turns:
            with self._held():
                await self._wait_until_quiet(task, None)
                while not self.is_over and (row := task.take_kept()) is not None:
                    if self.is_cautious and self.write is not None:
                        self._left -= 1
                        await self.write({ALONE: list(task.name_of(row))})
                    task.emit_alone(row)
                    await self._wait_until_quiet(task, row)
                    failure = await task.failure_of(row)
                    if failure is None:
                        task.note_passed(row)
                    elif failure.reason == TIMEOUT or not self._has_worked(task.run, failure.component_id):
                        self.is_over = True

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.is_under_way = True
        self.note_hold()
        try:
            yield
        finally:
            self.is_under_way = False
            self.note_hold()

    async def _wait_until_quiet(self, task: AloneTask, row: Row | None) -> None:
        """Wait until all inputs are settled. A bolt may never settle those of a row that has timed out."""
        for pause_secs in QUIET_BACKOFF.pauses():
            if task.run.is_quiet:
                return
            await asyncio.sleep(pause_secs)
            failure = None if row is None else await task.failure_of(row)
            if failure is not None and failure.reason == TIMEOUT:
                return

    def _has_worked(self, run: RunPort, component_id: str | None) -> bool:
        return component_id is None or run.acked().get(component_id, 0) > self.acked_before.get(component_id, 0)

    # Deaths of the process

    @property
    def is_cautious(self) -> bool:
        """True if all rows go alone, because the last processes have died before their first commit."""
        return self._left > 0

    def take_up(self, entries: Mapping[str, object], topology_name: str) -> AloneRow | None:
        """Read what earlier processes have left. Return the row with which the last one has died, if it is known."""
        starts, alone = entries.get(STARTS), entries.get(ALONE)
        self._starts = starts if isinstance(starts, int) else 0
        if self._max_retries is not None and self._starts >= self._max_retries:
            self._left = ROWS_OF_A_START * 4 ** min(self._starts - self._max_retries, 10)
            LOGGER.warning(
                "topology %r: the last %d processes have died before their first commit. So up to %d rows go one at a time, to find the one "
                "that kills the process", topology_name, self._starts, self._left,
            )  # fmt: skip
        match alone:
            case [str(spout), int(task), str(stream), bytes() | str() as identity]:
                return spout, task, stream, identity
        return None

    def entries(self, *, begins: bool, commits: bool, gives_up: bool) -> dict[str, object]:
        """Return the changes of the ledger that belong to a save. begins: the tasks begin to work after it.

        gives_up: rows become dead letters with it, so the guilty one is found.
        """
        if commits:
            self._left = 0 if gives_up else self._left
            if not self.is_cautious and self._starts:
                self._starts = 0
                return {STARTS: None, ALONE: None}
            return {ALONE: None} if self.is_cautious else {}
        if begins and not self._has_noted_start:
            self._has_noted_start = True
            self._starts += 1
            return {STARTS: self._starts}
        return {}

    def clean_entries(self) -> dict[str, object]:
        """Return the changes of the ledger for a process that ends in an orderly way. Empty: none."""
        return {STARTS: None, ALONE: None} if self._starts else {}


def _nothing() -> None:
    """Do nothing."""
