"""Takes one snapshot of a run per second for all its readers (WEB-3): the page, `top` and Prometheus.

Each reader waits for the next sample and takes the latest one. So a slow reader skips samples, and holds one at most.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final

from engine.clock import Clock
from engine.errors import EngineError
from engine.log import EngineLogger
from engine.metrics import render
from engine.runtime.metric_families import families
from engine.runtime.run import Run
from engine.runtime.snapshot import END_STATES, Snapshot
from engine.web.encoding import encode_json
from engine.web.read_budget import ReadBudget
from engine.web.sample import Moment, make_point, make_sample, newest_first

INTERVAL_SECS: Final = 1.0
MOST_WORK_SHARE: Final = 0.01
"""Largest share of the loop's time that snapshots and their texts take. The interval grows with this work. A second is enough up to 200
tasks or so."""
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
    """Samples one run. The first page starts it, and the end of the run ends it.

    It goes on without readers, so that a new page has the last minute at once. A snapshot of a few tasks takes 0.2 ms, and a sample as much
    again, so what is made of a snapshot waits for a reader. Then it is kept for all of them, until the next snapshot is due.
    """

    def __init__(self, run: Run, log_level: Callable[[], str], budget: ReadBudget) -> None:
        """budget: what requests are charged. The work of the sampler is left out there, because it has a share of its own."""
        self._run = run
        self._log_level = log_level
        self._budget = budget
        self._user_components = frozenset(run.topology.components)
        self._aio_task: asyncio.Task[None] | None = None
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None
        """The latest snapshot. The sample has its rates since `_before`."""
        self._taken_at = -math.inf
        self._texts: dict[str, bytes] = {}
        """What readers have asked for since the latest snapshot, by its kind."""
        self._final_state: str | None = None
        self._points: deque[dict[str, Any]] = deque(maxlen=MOST_POINTS)
        self._last_encoded: bytes | None = None
        self._work_secs = self._work_secs_before = 0.0
        """Time that the latest snapshot, and the one before, took with everything that was made of it."""
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
        """Return a snapshot that is at most one interval old, and has the state that the run has now. Raise the error of a feature's entry.

        After the end its state is a last state, also if the run never began.
        """
        if self._now is None or self._is_due(self._now):
            with self._working():
                self._take_snapshot()
        assert self._now is not None
        return self._now

    def snapshot_json(self) -> bytes:
        """Return the snapshot as JSON, encoded once for all readers."""
        return self._text("snapshot", lambda now: encode_json(now.to_dict()))

    def metrics_text(self) -> bytes:
        """Return the snapshot as OpenMetrics text, written once for all readers."""
        return self._text("metrics", lambda now: render(families(now)).encode())

    def _text(self, kind: str, make: Callable[[Snapshot], bytes]) -> bytes:
        now = self.snapshot()
        if kind not in self._texts:
            with self._working():
                self._texts[kind] = make(now)
        return self._texts[kind]

    def _age_secs(self) -> float:
        return Clock.of(asyncio.get_running_loop()).now() - self._taken_at

    def _is_due(self, now: Snapshot) -> bool:
        """Tell whether the latest snapshot is too old, or has another state than the run."""
        return self._age_secs() >= self.interval_secs() or now.state != (self._final_state or self._run.state)

    def _working(self) -> AbstractContextManager[None]:
        return self._budget.apart(self.note_work)

    def note_work(self, secs: float) -> None:
        """Add the time of some work for readers to that of the latest snapshot."""
        self._work_secs += secs

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
        yield _event("history", self._history())
        seen = 0
        while not self.has_ended.is_set():
            if self._seq > seen:
                seen = self._seq
                yield _event("sample", self._encoded_sample())
            else:
                await self._changed.wait()
        yield _event("end", self._encoded_sample())

    async def send_charged(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send the events to one reader, and count the time that it takes as work of the sampler."""
        await self._budget.run_charged(sending, self.note_work)

    def _history(self) -> bytes:
        """Return the points of the last minute as JSON, encoded once for all readers."""
        if "history" not in self._texts:
            self._texts["history"] = encode_json({"samples": list(self._points)})
        return self._texts["history"]

    async def _sample_until_end(self) -> None:
        while True:
            if self._now is None or self._is_due(self._now):
                self._sample()
            if self._run.state in END_STATES:
                break
            await self._wait(max(self.interval_secs() - self._age_secs(), 0.0))
        self._note_end()

    def interval_secs(self) -> float:
        """Return the time from the latest snapshot to the next one. One that took long alone changes nothing."""
        lighter = min(self._work_secs, self._work_secs_before)
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
            with self._working():
                self._take_snapshot()
            if self.readers:
                self._encoded_sample()
        except Exception as error:  # noqa: BLE001 - such as one of a feature's snapshot, and it is logged
            self._note_failure(error)

    def _take_snapshot(self) -> None:
        """Take the next snapshot, whoever needs it, and let readers of the events know."""
        clock = Clock.of(asyncio.get_running_loop())
        self._work_secs_before, self._work_secs = self._work_secs, 0.0
        self._taken_at = clock.now()
        now = self._run.snapshot()
        if self._final_state is not None:
            now = replace(now, state=self._final_state)
        self._points.append(make_point(self._now, now, clock.wall()))
        self._before, self._now, self._texts = self._now, now, {}
        self._seq += 1
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
        if "sample" not in self._texts and self._now is not None:
            try:
                with self._working():
                    self._last_encoded = encode_json(make_sample(self._before, self._now, self._moment(self._now)))
            except Exception as error:  # noqa: BLE001 - the same
                self._note_failure(error)
            self._texts["sample"] = self._last_encoded or b"null"
        return self._texts.get("sample", b"null")

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
