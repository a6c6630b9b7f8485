"""`OneByOne`: rows that go through the topology alone, so that a row that kills its task or the process is known (EO-6).

A dead task takes the rows around the guilty one along, and a dead process says nothing at all. So in the next pass these rows are kept back
until the barrier. Then all spouts are held, and each of the rows is emitted when all inputs before it are settled.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from engine.backoff import Backoff
from engine.checkpoint.given_up import AloneRow, Row
from engine.checkpoint.machine import Step
from engine.errors import TIMEOUT, Failure
from engine.log import EngineLogger
from engine.topology.task_port import RunPort

QUIET_BACKOFF: Final = Backoff(0.0002, 0.02)
"""Pauses between two looks whether all inputs are settled."""
ROWS_OF_A_START: Final = 1_000
"""Rows that a cautious process lets go alone. If processes still die behind them, there are four times as many."""
MOST_ROWS: Final = ROWS_OF_A_START * 4**10
MOST_KEPT: Final = 256
"""Rows that a task of a cautious process keeps back before it asks for a checkpoint ahead of time."""
STARTS: Final = "starts"
ALONE: Final = "alone"
"""Entries of the ledger: starts since the last commit of rows that went together, and the row that goes alone.

The first one has also the rows that still go alone, and how many they were at first.
"""
LOGGER: Final = EngineLogger("engine.checkpoint")


class AloneTask(Protocol):
    """A task of a source that has kept rows back."""

    @property
    def run(self) -> RunPort: ...

    def take_kept(self) -> Row | None:
        """Return the next row that goes alone. None: there is none."""

    def name_of(self, row: Row) -> AloneRow: ...

    def emit_alone(self, row: Row) -> None: ...

    async def failure_of(self, row: Row) -> Failure | None: ...

    def is_retried(self, row: Row) -> bool: ...

    def note_passed(self, row: Row) -> None: ...


class KeptRows:
    """The rows that a task has kept back in this pass, to emit them before its barrier. True if there are some."""

    def __init__(self, to_retry: Mapping[str, Row]) -> None:
        """to_retry: rows of dead letters, by the name of their letter."""
        self.retried: Final = dict(to_retry)
        """Those that no commit has yet. Their effect and the end of the letter are one commit (DL-6)."""
        self._rows: deque[Row] = deque(self.retried.values())
        self._last: deque[Row] = deque()
        """Rows that have failed alone before. They go last, so that they cannot hide a row that passes."""

    def __len__(self) -> int:
        return len(self._rows) + len(self._last)

    def add(self, row: Row, *, is_last: bool) -> None:
        """Keep a row."""
        (self._last if is_last else self._rows).append(row)

    def take(self) -> Row | None:
        """Return the next row. None: there is none."""
        rows = self._rows or self._last
        return rows.popleft() if rows else None

    def begin_pass(self) -> None:
        """Forget the rows that the source emits again."""
        self._rows = deque(self.retried.values())
        self._last.clear()


class OneByOne:
    """The rows of all sources of a run that go alone, one after the other."""

    def __init__(self, max_retries: int | None) -> None:
        self._max_retries = max_retries
        self._turns = asyncio.Lock()
        self.is_under_way = False
        """True while all spouts are held, because rows go alone."""
        self._note_hold: Callable[[], None] | None = None
        self._write: Callable[[Mapping[str, object]], Awaitable[None]] | None = None
        self.acked_before: Mapping[str, int] = {}
        """Inputs that each component had processed when the pass began."""
        self.is_over = False
        """True if the pass fails anyway, and a further row would say nothing more."""
        self._starts = 0
        self._has_noted_start = False
        self.is_cautious = False
        """True if all rows go alone, because the last processes have died before a commit.

        It ends with a commit, so a process that dies before it has always named its row.
        """
        self._left = self._most = 0
        """Rows that still go alone before this ends, and how many they were at first. Less than 0 at the end of the last interval."""

    def join(self, note_hold: Callable[[], None], write: Callable[[Mapping[str, object]], Awaitable[None]]) -> None:
        """note_hold: called when `is_under_way` changes. write: writes entries of the ledger."""
        self._note_hold, self._write = note_hold, write

    # Rows of a pass

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.is_over = False
        self._hold(on=False)

    def hold(self) -> None:
        """Hold all spouts until the next rows have gone alone, because as many are kept back as go before a barrier."""
        self._hold(on=True)

    def _hold(self, *, on: bool) -> None:
        if self.is_under_way is not on:
            assert self._note_hold is not None
            self.is_under_way = on
            self._note_hold()

    async def emit(self, task: AloneTask) -> None:
        """Emit the rows that a task has kept back, one after the other, while all spouts are held."""
        async with self._turns:
            with self._held():
                await self._wait_until_quiet(task, None)
                while not self.is_over and (row := task.take_kept()) is not None:
                    if self.is_cautious and self._write is not None:
                        self._left -= 1
                        await self._write({ALONE: list(task.name_of(row))})
                    task.emit_alone(row)
                    await self._wait_until_quiet(task, row)
                    failure = await task.failure_of(row)
                    if failure is None:
                        task.note_passed(row)
                    elif failure.reason == TIMEOUT or not (task.is_retried(row) or self._has_worked(task.run, failure.component_id)):
                        self.is_over = True

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._hold(on=True)
        try:
            yield
        finally:
            self._hold(on=False)

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
    def reason(self) -> str:
        """Why rows go one at a time."""
        if not self.is_cautious:
            return "rows go one at a time, to find the one that fails the others"
        return f"rows go one at a time, because processes have ended before a commit; {max(self._left, 0):,} are left"

    def take_up(self, entries: Mapping[str, object], topology_name: str) -> AloneRow | None:
        """Read what earlier processes have left. Return the row with which the last one has died, if it is known."""
        match entries.get(STARTS):
            case int(starts):
                self._starts = starts
            case [int(starts), int(left), int(most)]:
                self._starts, self._left, self._most = starts, left, most
        if self._max_retries is not None and self._starts >= self._max_retries:
            self.is_cautious = True
            if self._left <= 0:  # else the row may be among those that are left, or the process had none yet
                self._left = self._most = min(4 * self._most, MOST_ROWS) or ROWS_OF_A_START
            LOGGER.warning(
                "topology %r: the last %d processes have ended before they had committed rows that went together, by a kill, a death or "
                "an error. A row may be the reason. So up to %s rows go one at a time, each named in the store before it is emitted. That "
                "is slow, and ends when they are committed, or a row is given up", topology_name, self._starts, f"{self._left:,}",
            )  # fmt: skip
        match entries.get(ALONE):
            case [str(spout), int(task), str(stream), bytes() | str() as identity]:
                return spout, task, stream, identity
        return None

    def entries(self, step: Step, *, gives_up: bool) -> dict[str, object]:
        """Return the changes of the ledger that belong to the save before a step.

        gives_up: rows become dead letters with it, so the guilty one is found.
        """
        if step is Step.COMMIT and self._starts:
            if self.is_cautious and not gives_up:
                self.is_cautious = self._left > 0
                return {STARTS: self._entry, ALONE: None}
            self.is_cautious = False
            self._starts = self._left = self._most = 0
            return {STARTS: None, ALONE: None}
        if step is Step.IDLE and not self._has_noted_start:
            self._has_noted_start = True
            self._starts += 1
            return {STARTS: self._entry}
        return {}

    @property
    def _entry(self) -> object:
        return [self._starts, max(self._left, 0), self._most] if self._most else self._starts

    def clean_entries(self) -> dict[str, object]:
        """Return the changes of the ledger for a process that ends in an orderly way. Empty: none."""
        return {STARTS: None, ALONE: None} if self._starts else {}
