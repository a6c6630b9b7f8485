"""`ProcessCalls` has the rows that the child of a task works on, in place of running calls."""

import pickle
from collections import deque
from typing import Any, Final, TypeAlias

from engine.api import BurstBolt
from engine.errors import ERROR, Failure, UsageError
from engine.kernel import Burst, Source, Tuple, kind_of, origin_of, rows_of
from engine.names import FAILED_STREAM, REPORT_STREAM
from engine.raised import headline
from engine.runtime.bolt_calls import BoltCalls
from engine.runtime.held_calls import HoldingCollector
from engine.runtime.processes.child_process import ChildProcess
from engine.runtime.processes.frame_size import FrameSize
from engine.runtime.processes.held_time import HeldTime
from engine.runtime.processes.progress import METRICS_SECS, NO_PROGRESS, Progress
from engine.safe_text import safe_repr

ROWS_PER_FRAME: Final = BurstBolt.burst_rows
"""Most rows of a frame. A child gets no frame while as many rows wait in it (PR-3)."""
SILENT_SECS: Final = 2 * METRICS_SECS
"""Time without a frame after which a child is in a plain call."""
NewSources: TypeAlias = dict[int, tuple[str, str, int, Any]]
"""Component, stream, task and fields of each source that is new to the child, by its number."""


class ProcessCalls(BoltCalls):
    """The rows that the child of a task works on, in place of calls. Each row has a number, in the order of the frames."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.takes_bursts = True
        self.taken: dict[int, Tuple] = {}
        """The inputs that the child has not settled, by number."""
        self._untracked: deque[int] = deque()
        """Numbers of inputs that belong to no tree. They are acked when they are sent, and kept until the child has them."""
        self._part_end = 0
        """Number of the last row of a frame that was not full. The child gets no frame before it has begun this row."""
        self._child: ChildProcess | None = None
        self._frame_size = FrameSize(ROWS_PER_FRAME)
        self._sent = self._ticks = 0
        self._sources: dict[Source, int] = {}
        self.progress = NO_PROGRESS
        self.held_time = HeldTime(self._run_context.loop, self._spec.component_id)

    def use_instance(self, bolt: Any, holding: HoldingCollector | None) -> None:
        """Nothing changes after a rollback which the child has survived, because the child has had no row yet."""

    def use_child(self, child: ChildProcess | None) -> None:
        """Send rows to this child from now on. Its numbers begin at 1. None: it is gone, or the next one begins."""
        self._child = child
        self._core.burst_rows = self._frame_size.rows
        self._sent = self._ticks = 0
        self._sources, self.taken = {}, {}
        self._untracked.clear()
        self._part_end = 0
        if child is None:  # else the progress is of its begin
            self.progress = NO_PROGRESS
        self.held_time.note_reading(True)
        self.held_time.note_rows(False)
        self._return_waiters.wake_all()

    @property
    def in_flight(self) -> int:
        """Rows that have not returned. At least 1 while the child works on any row or tick."""
        progress = self.progress
        if progress.is_idle and (progress.posted, progress.ticks) == (self._sent, self._ticks):
            return 0
        return max(1, self._sent - progress.taken)

    @property
    def has_no_room(self) -> bool:
        """True while the child has enough rows, and while somebody waits for the return of all rows.

        The rows that come while the child works on a frame go over in one frame, instead of many small ones.
        """
        taken = self.progress.taken
        has_enough = self._part_end > taken or self._sent - taken >= self._core.burst_rows
        return self._child is None or has_enough or self._holders > 0

    def waiting(self) -> list[Tuple]:
        """Return the inputs that wait in the child, whose calls have not begun.

        A child that is silent is in a plain call, and has not told yet that it has taken one more input.
        """
        if self._child is None:
            return []
        first = self.progress.taken + (2 if self._child.silent_secs > SILENT_SECS else 1)
        return [tup for number in range(first, self._sent + 1) if (tup := self.taken.get(number)) is not None]

    def describe_hang(self, child: ChildProcess) -> str:
        """Say what is known of a child that does not begin to close: its call, and the silence since about the begin of the call."""
        tup = self.taken.get(self.progress.taken + 1)
        call = "a plain call" if tup is None else f"a plain call, probably execute() of {safe_repr(tup, 200)}"
        return f"its process {child.pid} is killed, because it hangs in {call}. It has sent nothing for {child.silent_secs:.1f} s"

    async def await_call(self, given: Tuple | Burst, *returned: object) -> BaseException | None:
        """Send a burst to the child."""
        assert isinstance(given, Burst)
        assert self._child is not None
        if given.is_tick:
            self._ticks += 1
            self.held_time.note_rows(True)
            self._child.send("tick")
            return None
        first = self._sent + 1
        self._sent += len(given)
        is_full = len(given) >= min(self._core.burst_rows, self._run_context.config.burst)
        if not is_full:
            self._part_end = self._sent
        self.held_time.note_rows(True)
        self.taken.update(enumerate(given, first))
        runs = rows_of(given)
        if not all(kind for _, kind, _ in runs):
            self._ack_untracked(given, first)
        self._send_rows(first, runs)
        return None

    def send_control(self, tup: Tuple) -> None:
        """Send a control tuple behind all earlier rows. It has a number as they have. It cannot grow, so no frame waits for it."""
        self._sent += 1
        self.held_time.note_rows(True)
        self.taken[self._sent] = tup
        self._send_rows(self._sent, [(origin_of(tup), kind_of(tup), [tup.values])])

    def _send_rows(self, first: int, runs: list[tuple[Source, int, list[Any]]]) -> None:
        assert self._child is not None
        try:
            new: NewSources = {}
            length = self._child.send("rows", first, [(self._key_of(source, new), kind, rows) for source, kind, rows in runs], new)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - a value that cannot be pickled; the next call finds it
            self.send_apart(first)
        else:
            self._frame_size.note(self._sent - first + 1, length)
            self._core.burst_rows = self._frame_size.rows

    def _ack_untracked(self, given: Burst, first: int) -> None:
        """Ack the inputs that belong to no tree, because the child sends no verdict for them."""
        for number, tup in enumerate(given, first):
            if not tup.roots:
                self._untracked.append(number)
                self._core.ack(tup)

    def send_apart(self, first: int) -> None:
        """Send the rows from this number on again, each pickled on its own. Then only the guilty rows fail."""
        assert self._child is not None
        rows: list[tuple[int, int, bytes | None]] = []
        new: NewSources = {}
        self._sources.clear()  # they may have been in the frame that could not be sent or read
        for number in range(first, self._sent + 1):
            tup, row = self.taken.get(number), None
            if tup is not None:
                try:
                    row = pickle.dumps(tup.values, 5)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - code of the value
                    self.refuse(number, f"cannot be pickled ({headline(error)})")
            key, kind = (0, 0) if tup is None else (self._key_of(origin_of(tup), new), kind_of(tup))
            rows.append((key, kind, row))
        self._child.send("rows_apart", first, rows, new)

    def refuse(self, number: int, why: str) -> None:
        """Fail an input whose values cannot go to the child."""
        tup = self.taken.pop(number, None)
        if tup is None:
            return
        text = f"bolt {self._spec.component_id!r} runs in a process, and a value of its input {why}"
        error = UsageError(text, hint="Emit values that pickle can store and load, or leave out processes=True.")
        fate = "only this input fails; the bolt continues"
        if REPORT_STREAM in self._spec.streams:
            fate = "its batch fails, and is tried again"
        elif self._spec.settings.diverts:
            fate = f"the input leaves on stream {FAILED_STREAM!r}; the bolt continues"
        self._reporter.report(error, tup=tup, next_step=fate)
        if not tup.is_settled or self._spec.settings.diverts:  # one of no tree is acked before it is sent
            self.fail_input(tup, Failure(ERROR, self._spec.component_id, self._core.task_id, f"{text}: {safe_repr(tup, 200)}"))

    def _key_of(self, source: Source, new: NewSources) -> int:
        """Return the number of a source in this connection. Put it into `new` if the child does not know it."""
        key = self._sources.get(source)
        if key is None:
            key = self._sources[source] = len(self._sources)
            new[key] = source.component_id, source.stream, source.task_id, source.fields
        return key

    async def wait_until_returned(self) -> None:
        """Wait until the child has finished all rows, and its emits and verdicts are here. No row is sent meanwhile."""
        self._holders += 1
        try:
            while self.in_flight and self._child is not None:
                await self._return_waiters.wait()
        finally:
            self._holders -= 1
            self._wake()

    def note_progress(self, progress: Progress) -> None:
        """Note the progress of the child."""
        had_no_room = self.has_no_room
        before, self.progress = self.progress, progress
        while self._untracked and self._untracked[0] <= progress.posted:
            self.taken.pop(self._untracked.popleft(), None)
        self._core.add_awaited_secs(progress.busy_secs - before.busy_secs)
        self._reporter.errors += progress.errors - before.errors
        self.forgotten += progress.forgotten - before.forgotten
        self.settled_twice += progress.settled_twice - before.settled_twice
        has_rows = self.in_flight > 0
        self.held_time.note_rows(has_rows)
        self._return_waiters.wake_all()
        if had_no_room and not self.has_no_room:
            self._wake()
        if not has_rows:
            self._run_context.note_idle()
