"""Samples a run once per second for all readers of its page (WEB-3).

Each reader waits for the next sample and takes the latest one. So a slow reader skips samples, and holds one at most.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from engine.clock import Clock
from engine.errors import EngineError
from engine.log import EngineLogger
from engine.runtime.run import Run
from engine.runtime.snapshot import END_STATES, Snapshot
from engine.web.encoding import encode_json
from engine.web.sample import Moment, make_point, make_sample, newest_first

INTERVAL_SECS: Final = 1.0
MOST_WORK_SHARE: Final = 0.01
"""Largest share of the loop's time that sampling takes. The interval grows with the work (a second is enough up to 200 tasks or so)."""
MOST_INTERVAL_SECS: Final = 30.0
"""Longest interval. `ctl` gives up a server that is silent for a minute."""
END_INTERVAL_SECS: Final = 0.1
"""Interval between the end of a run, which is known at once, and its last state."""
MOST_POINTS: Final = 60
MOST_READERS: Final = 64
MOST_OWED: Final = 10
LOGGER: Final = EngineLogger("engine.web")


class TooManyReaders(EngineError):
    """The server has its largest number of readers."""

    def __init__(self) -> None:
        super().__init__(f"this run has {MOST_READERS} readers already", hint="Close other pages of this run, and try again.")


class Sampler:
    """Samples one run. The first reader starts it, and the end of the run ends it.

    It goes on without readers, so that a new page has the last minute at once. A snapshot of a few tasks takes 0.2 ms, and a sample as much
    again, so only a sample waits for a reader.
    """

    def __init__(self, run: Run, log_level: Callable[[], str]) -> None:
        self._run = run
        self._log_level = log_level
        self._user_components = frozenset(run.topology.components)
        self._aio_task: asyncio.Task[None] | None = None
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None
        """The latest snapshot. The sample has its rates since `_before`."""
        self._final_state: str | None = None
        self._points: deque[dict[str, Any]] = deque(maxlen=MOST_POINTS)
        self._encoded: bytes | None = None
        """The latest sample as JSON, encoded once for all readers."""
        self._last_encoded: bytes | None = None
        self._work_secs = 0.0
        """Time that the latest sample took."""
        self._seq = 0
        self._changed = asyncio.Event()
        self._run_has_ended = asyncio.Event()
        self.has_ended = asyncio.Event()
        """Set when the last sample is made."""
        self.readers = 0
        self._has_failed = False

    def start(self) -> None:
        """Begin to sample. A second call has no effect."""
        if self._aio_task is None:
            self._run.on_end(lambda error: self._run_has_ended.set())
            self._aio_task = asyncio.get_running_loop().create_task(self._sample_until_end(), name="samples of a run")

    async def end(self, *, has_failed: bool) -> None:
        """Make the last sample, and let all readers end. has_failed: the run ended by an error before it had a state of its own."""
        if self._aio_task is not None:
            self._aio_task.cancel()
            await asyncio.wait([self._aio_task])
        if not self.has_ended.is_set():
            if self._run.state not in END_STATES:
                self._final_state = "failed" if has_failed else "stopped"
            self._sample()
            self._note_end()

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the run. After the end its state is a last state, also if the run never began."""
        now = self._run.snapshot()
        return now if self._final_state is None else replace(now, state=self._final_state)

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Count one more reader. Raise TooManyReaders if there are too many."""
        if self.readers >= MOST_READERS:
            raise TooManyReaders
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the history, then each sample that the reader is fast enough for, then the end, as server-sent events."""
        self.start()
        yield _event("history", encode_json({"samples": list(self._points)}))
        seen = 0
        while not self.has_ended.is_set():
            if self._seq > seen:
                seen = self._seq
                yield _event("sample", self._encoded_sample())
            else:
                await self._changed.wait()
        yield _event("end", self._encoded_sample())

    async def _sample_until_end(self) -> None:
        clock = Clock.of(asyncio.get_running_loop())
        while True:
            began = clock.now()
            self._sample()
            if self._run.state in END_STATES:
                break
            await self._wait(self.next_interval_secs(clock.now() - began))
        self._note_end()

    def next_interval_secs(self, work_secs: float) -> float:
        """Return the time until the next sample, after a sample that took `work_secs`.

        One slow sample alone changes nothing, because a pause of the process may have fallen into it.
        """
        lighter, self._work_secs = min(work_secs, self._work_secs), work_secs
        return min(max(INTERVAL_SECS, lighter / MOST_WORK_SHARE), MOST_INTERVAL_SECS)

    async def _wait(self, secs: float) -> None:
        """Wait for the next sample. The end of the run ends the wait, but the run may still close its components then."""
        if self._run_has_ended.is_set():
            await asyncio.sleep(max(END_INTERVAL_SECS, secs - INTERVAL_SECS))
            return
        try:
            async with asyncio.timeout(secs):
                await self._run_has_ended.wait()
        except TimeoutError:
            return

    def _sample(self) -> None:
        """Make a sample. An error, for example of a feature's snapshot, is logged once and costs only this sample."""
        try:
            before, now = self._now, self.snapshot()
            self._points.append(make_point(before, now, Clock.of(asyncio.get_running_loop()).wall()))
            self._before, self._now, self._encoded = before, now, None
            self._seq += 1
            if self.readers:
                self._encoded_sample()
        except Exception as error:  # noqa: BLE001 - such as one of a feature's snapshot, and it is logged
            self._note_failure(error)
            return
        self._wake_readers()

    def _moment(self, now: Snapshot) -> Moment:
        wall = Clock.of(asyncio.get_running_loop()).wall()
        seq, level = self._seq, self._log_level()
        if not now.components:  # the run has not begun
            return Moment(seq, wall, level, self._user_components)
        owed, traces = self._run.owed_acks(MOST_OWED), newest_first(self._run.message_traces)
        return Moment(seq, wall, level, self._user_components, owed, traces)

    def _encoded_sample(self) -> bytes:
        """Return the latest sample as JSON. Without readers no sample is made, which takes most of the time."""
        if self._encoded is None and self._now is not None:
            try:
                self._encoded = self._last_encoded = encode_json(make_sample(self._before, self._now, self._moment(self._now)))
            except Exception as error:  # noqa: BLE001 - the same
                self._note_failure(error)
                self._encoded = self._last_encoded
        return self._encoded or b"null"

    def _note_failure(self, error: Exception) -> None:
        if not self._has_failed:
            LOGGER.error("the run could not be sampled for its page", exc_info=error)
        self._has_failed = True

    def _note_end(self) -> None:
        self.has_ended.set()
        self._wake_readers()

    def _wake_readers(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(name: str, value: bytes) -> bytes:
    return b"event: " + name.encode("ascii") + b"\ndata: " + value + b"\n\n"
