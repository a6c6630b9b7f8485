"""`Prepare` is the running PREPARE of a run: which tasks have done their part, and whether it goes on (CP-3)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

HOOKS_FIRST: Final = 1.1
"""A hook that hangs is cancelled after `checkpoint_timeout_secs`, and its error says more than that of the whole step."""
LOOK_SECS: Final = 1.0
"""Pause between two looks whether something goes on."""


class Prepare:
    """Counts the tasks of bolts that have done everything for a barrier. `round` is -1 between two PREPAREs."""

    def __init__(self, timeout_secs: float, doomed_secs: float, lost: asyncio.Event) -> None:
        """timeout_secs, doomed_secs: time without progress after which it fails, and the same after a row has failed, so that it will fail
        anyway. lost: set when a task has died, so that it fails at once.
        """
        self.timeout_secs: Final = timeout_secs * HOOKS_FIRST
        self._doomed_secs: Final = doomed_secs
        self.tasks = 0
        """Number of tasks of bolts, which all get the barrier."""
        self.bolts: Mapping[str, Collection[str]] = {}
        """These bolts, each one behind those that it gets the barrier from, with the components that send it."""
        self._lost = lost
        self._round = -1
        self._has_barriers = False
        self._done: set[int] = set()
        self._result: asyncio.Future[bool] | None = None

    def begin(self, round_: int) -> None:
        """Begin a round, and forget the one before."""
        self._round = round_
        self._has_barriers = False
        self._done = set()
        self._result = asyncio.get_running_loop().create_future()

    def note_barriers(self) -> None:
        """Note that barriers are sent from now on."""
        self._has_barriers = True

    def note_done(self, task: int, round_: int) -> None:
        """Note that a task has done everything for the barrier of a round. Older rounds are ignored."""
        if round_ == self._round:
            self._done.add(task)
            if len(self._done) == self.tasks:
                self._end(is_done=True)

    def note_failed(self, round_: int) -> bool:
        """Note that a task cannot do its part for the barrier of a round. Return False for an older round, which is ignored."""
        if round_ == self._round:
            self._end(is_done=False)
        return round_ == self._round

    def lacks(self, tasks: Iterable[int]) -> Iterator[int]:
        """Yield those of these tasks that have not done their part yet. None between two PREPAREs."""
        return (task for task in tasks if self._round >= 0 and task not in self._done)

    def note_new_instance(self, task: int) -> None:
        """Note that a task has a new instance after a death, which knows of no barrier that has arrived before."""
        if self._has_barriers and task not in self._done:
            self._end(is_done=False)

    def _end(self, *, is_done: bool) -> None:
        if self._result is not None and not self._result.done():
            self._result.set_result(is_done)

    async def wait(self, processed: Callable[[], int], has_failed: Callable[[], bool], look: Callable[[], None]) -> bool:
        """Wait until all tasks are done. Return False as soon as one cannot, or one dies. Raises TimeoutError if nothing goes on.

        processed: a number that grows with the inputs that the bolts have processed, and with what has been written. Inputs of before the
        barrier may take longer than any limit, so the time begins again whenever this number or that of the tasks has grown. has_failed:
        tells whether a row has failed. The others still run to the barrier, but a bolt may never settle an input of a failed tree. look:
        called every second.
        """
        assert self._result is not None
        lost = asyncio.get_running_loop().create_task(self._lost.wait())
        ends: tuple[asyncio.Future[Any], ...] = (self._result, lost)
        progress, quiet_secs = -1, 0.0
        try:
            while quiet_secs < self.timeout_secs:
                if progress != (progress := processed() + len(self._done)):
                    quiet_secs = 0.0
                elif has_failed() and quiet_secs >= self._doomed_secs:
                    return False
                pause = min(LOOK_SECS, self.timeout_secs - quiet_secs)
                await asyncio.wait(ends, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    return False
                if self._result.done():
                    return self._result.result()
                quiet_secs += pause
                look()
        finally:
            lost.cancel()
            self._round = -1
        raise TimeoutError
