"""Ends plain calls that never return, on executors. A plain call holds the event loop, so no timeout of the loop can end it.

First the call is interrupted by an error, which fails its batch like any other error of user code. If the call does not end, its process
ends. A note in the folder of the attempt then tells the next try and the engine about it.
"""

import asyncio
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

from engine.clock import Clock
from engine.errors import TIMEOUT, Failure
from engine.runtime.error_report import ErrorReport
from engine.runtime.executor import Executor
from engine.runtime.plan import TaskInfo
from spark_bridge.topology.level_status import LevelStatus

CHECKS_PER_LIMIT: Final = 8
MOST_FRAMES: Final = 12
"""Frames of a call in its report."""
EXIT_STATUS: Final = 70
"""Status of a process that ends because of a call that cannot be interrupted."""
_SIGNAL: Final = signal.SIGURG
"""Interrupts the main thread. By default it is ignored, so a late one does no harm."""
_NOTE: Final = "hanging-"

_T = TypeVar("_T")


class CallHangs(Exception):
    """Raised in a plain call that does not return."""


class HangWatch:
    """Watches the main thread while it runs the loop of one partition. On other threads it watches nothing, because only the main
    thread can be interrupted. Workers of Spark run their tasks on the main thread.
    """

    def __init__(
        self, runner: asyncio.Runner, limit_secs: float, status: LevelStatus, folder: str | None, on_hang: Callable[[str], None]
    ) -> None:
        """limit_secs: time without a turn of the loop. status: names the partition. folder: for notes, of the attempt.

        on_hang: gets the text of the error before a call is interrupted, on the main thread.
        """
        self._runner = runner
        self._loop = runner.get_loop()
        self._clock = Clock.of(self._loop)
        self._limit = limit_secs
        self._status = status
        self._folder = folder
        self._on_hang = on_hang
        self._turned_at: float | None = None
        """Time of the last known turn of the loop. None while the loop does not run."""
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._is_active = threading.current_thread() is threading.main_thread()
        self._earlier: Any = None

    def __enter__(self) -> "HangWatch":
        if self._is_active:
            self._earlier = signal.signal(_SIGNAL, self._interrupt)
            self._loop.call_soon(self._turn)
            threading.Thread(target=self._watch, name="stormcell hang watch", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._is_active:
            signal.signal(_SIGNAL, self._earlier)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the loop. Between two calls the loop stands still, and this is no hanging."""
        self._turned_at = self._clock.now()
        try:
            return self._runner.run(coroutine)
        finally:
            self._turned_at = None

    def _turn(self) -> None:
        self._turned_at = self._clock.now()
        self._loop.call_later(self._limit / CHECKS_PER_LIMIT, self._turn)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise in the call that the main thread is in. It may have returned meanwhile."""
        turned_at = self._turned_at
        if turned_at is not None and self._clock.now() - turned_at >= self._limit:
            text = f"the call did not return within {self._limit:g} s (batch_timeout_secs), and was interrupted"
            self._on_hang(text)
            raise CallHangs(text)

    def _watch(self) -> None:
        """Interrupt a call after the limit, and end the process if the call has not ended after another one."""
        stands_since, tries = None, 0
        while not self._over.wait(self._limit / CHECKS_PER_LIMIT):
            turned_at = self._turned_at
            if turned_at is None:
                continue
            if turned_at != stands_since:
                stands_since, tries = turned_at, 0
            if self._clock.now() - turned_at < self._limit * (tries + 1):
                continue
            tries += 1
            if tries == 1:
                signal.pthread_kill(self._thread, _SIGNAL)
            else:
                self._end_process()

    def _end_process(self) -> None:
        frame = sys._current_frames().get(self._thread)
        status = self._status
        place, stack = _place_of(frame)
        text = f"a call did not return within {2 * self._limit:g} s (twice batch_timeout_secs), and could not be interrupted"
        if place is None:
            status.failure = Failure(TIMEOUT).because(text)
        else:
            status.failure = Failure(TIMEOUT, place.component_id, place.task_id).because(text)
            step = "its process was ended, the batch fails, and is tried again"
            report = ErrorReport(place.component_id, place.task_id, self._clock.wall(), f"CallHangs: {text}", None, stack, step)
            status.reports.append(report)
        print(f"{status.failure.describe()}\n{stack}", file=sys.stderr, flush=True)
        try:
            if self._folder is not None:
                _write_note(self._folder, status)
        finally:
            os._exit(EXIT_STATUS)


def _place_of(frame: FrameType | None) -> tuple[TaskInfo | None, str]:
    """Return the task whose executor is on this stack, and the newest calls that it has made."""
    newest, place = frame, None
    calls = 0
    while frame is not None and place is None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Executor):
            place = owner.info
        else:
            calls += 1
        frame = frame.f_back
    return place, "".join(traceback.format_stack(newest, min(max(calls, 1), MOST_FRAMES)))


# Notes


def _note_path(folder: str, level: int, partition: int) -> str:
    return os.path.join(folder, f"{_NOTE}{level}-{partition}")


def _write_note(folder: str, status: LevelStatus) -> None:
    path = _note_path(folder, status.level, status.partition)
    with open(f"{path}.new", "wb") as file:
        pickle.dump(status, file)
    os.rename(f"{path}.new", path)


def note_of(folder: str, level: int, partition: int) -> LevelStatus | None:
    """Return the outcome of an earlier try of a partition, in this attempt, that ended its process. None if there is none."""
    return _read_note(_note_path(folder, level, partition))


def notes_in(folder: str) -> list[LevelStatus]:
    """Return the outcomes of all partitions of an attempt that ended their processes. Empty if the folder is gone."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(_NOTE) and not name.endswith(".new")]
    except FileNotFoundError:  # the caller has an error of Spark, which tells more
        return []
    return [note for name in sorted(names) if (note := _read_note(os.path.join(folder, name))) is not None]


def _read_note(path: str) -> LevelStatus | None:
    try:
        with open(path, "rb") as file:
            note: LevelStatus = pickle.load(file)
    except FileNotFoundError:
        return None
    return note
