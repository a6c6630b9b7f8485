"""A spout that a service feeds: each `send` waits until the whole tree of its tuple is processed."""

import asyncio
from collections import deque
from typing import Final, cast

from engine.api.arguments import check_count
from engine.api.fields import Fields, Values, decorated_fields, wrong_values
from engine.api.spout import Spout, SpoutExhausted
from engine.errors import ERROR, FAILED, TASK_DIED, EngineError, Failure, TupleFailed, UsageError
from engine.raised import headline

DEFAULT_MAX_WAITING: Final = 10_000


class InletClosed(EngineError):
    """Values were sent to an inlet that is closed, or whose run has ended; they were not emitted."""


class RunEnded(InletClosed):
    """The run of an inlet has ended: the tree of a pending send was not processed to its end; values of a later one were not emitted.

    `failure` says why: the error of a run that failed, or how it ended.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"the run of this inlet has ended: {failure.describe()}", hint="Send only while the run is active.")
        self.failure = failure


class _Send:
    """One `send` that waits; it is its own message id."""

    __slots__ = ("done", "values")

    def __init__(self, values: tuple[object, ...], done: asyncio.Future[None]) -> None:
        self.values = values
        self.done = done

    def settle(self, error: Exception | None) -> None:
        """Let the sender go on; without effect where it was cancelled or is settled."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class InletHandle:
    """The service's end of an inlet: `await handle.send(values)`, `handle.close()`.

    All tasks of the component take from its one queue, and it outlives their instances. At most `max_waiting` sends are
    taken in at once; the others wait for their turn. Only for the thread of the run's loop.
    """

    def __init__(self, fields: Fields, max_waiting: int = DEFAULT_MAX_WAITING) -> None:
        self._fields: Final = fields
        self._room = asyncio.Semaphore(max_waiting)
        self._queue: deque[_Send] = deque()
        self._inlets: dict[int, Inlet] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._end: Failure | None = None

    async def send(self, values: Values) -> None:
        """Emit one tuple; return when its whole tree is processed.

        Raises TupleFailed, with the Failure, when the tree failed or timed out; RunEnded when the run ended, before or
        meanwhile; UsageError for a wrong number of values, a wrong key, or another thread; InletClosed after `close()`.
        A cancelled send that is not emitted yet is taken back; one that is emitted runs on.
        """
        row = self._checked(values)
        self._check_loop()
        self._check_open()
        async with self._room:
            self._check_open()
            send = _Send(row, asyncio.get_running_loop().create_future())
            self._queue.append(send)
            self._wake()
            try:
                await send.done
            except asyncio.CancelledError:
                if send in self._queue:
                    self._queue.remove(send)
                raise

    def close(self) -> None:
        """Take nothing more in; the spout is exhausted once all that was taken in is emitted."""
        self._is_closed = True
        self._wake()

    @property
    def waiting(self) -> int:
        """How many sends are taken in and not settled."""
        return len(self._queue) + sum(len(inlet.in_flight) for inlet in self._inlets.values())

    @property
    def is_closed(self) -> bool:
        """True after `close()` or the end of the run."""
        return self._is_closed

    def abandon(self, failure: Failure) -> None:
        """Close, and raise RunEnded at every send that waits. The run calls this when it ends."""
        self._end = failure
        self.close()
        for inlet in self._inlets.values():
            inlet.end_in_flight(RunEnded(failure))
        while self._queue:
            self._queue.popleft().settle(RunEnded(failure))

    def attach(self, inlet: "Inlet") -> None:
        """Let an opened instance take from the queue; what an earlier instance of its task had in flight fails."""
        self._check_loop()
        task_id = inlet.context.task_id
        before = self._inlets.get(task_id)
        if before is not None and before is not inlet:
            before.fail_in_flight(Failure(TASK_DIED, inlet.context.component_id, task_id))
        self._inlets[task_id] = inlet

    def take(self) -> _Send | None:
        """Take the send that waits longest out of the queue."""
        return self._queue.popleft() if self._queue else None

    def _wake(self) -> None:
        for inlet in self._inlets.values():
            inlet.context.wake()

    def _checked(self, values: object) -> tuple[object, ...]:
        if not isinstance(values, (tuple, list)) or len(values) != len(self._fields):
            raise wrong_values("Inlet.send() was given", values, self._fields)
        return tuple(values)

    def _check_open(self) -> None:
        if self._end is not None:
            raise RunEnded(self._end)
        if self._is_closed:
            raise InletClosed("this inlet is closed", hint="Send before close().")

    def _check_loop(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if self._loop is None:
            self._loop = loop
        if loop is None or loop is not self._loop:
            raise UsageError(
                "an inlet was used outside the thread of its run's loop",
                hint="From another thread: asyncio.run_coroutine_threadsafe(inlet.send(values), loop).",
            )


class Inlet(Spout):
    """A spout that emits what a service sends: `builder.set_spout("in", lambda: Inlet("line"))`, then `run.inlet("in").send(...)`.

    The run gives all its instances one handle (`use`), before `open`.
    """

    def __init__(self, *output_fields: str | Fields, max_waiting: int = DEFAULT_MAX_WAITING) -> None:
        fields = decorated_fields("Inlet", output_fields)
        if fields is None or fields.direct:
            raise UsageError("an Inlet needs the fields of one stream that is not direct", hint='Write Inlet("line").')
        check_count("Inlet: max_waiting", max_waiting, minimum=1)
        self.output_fields = fields
        self.fields_declared_at = "the fields of its Inlet(...)"
        self.handle = InletHandle(fields, max_waiting)
        self.in_flight: set[_Send] = set()

    def use(self, handle: InletHandle) -> None:
        """Take from this handle's queue instead of one of its own; the run calls it before `open`."""
        self.handle = handle

    def open(self) -> None:
        """Begin to take from the queue."""
        self.handle.attach(self)

    def next_tuple(self) -> None:
        """Emit the send that waits longest; what cannot be emitted is raised at its sender."""
        send = self.handle.take()
        if send is None:
            if self.handle.is_closed:
                raise SpoutExhausted
            return
        try:
            self.collector.emit(send.values, send)
        except UsageError as error:
            send.settle(error)
        except BaseException as error:
            failure = Failure(ERROR, self.context.component_id, self.context.task_id, headline(error))
            send.settle(TupleFailed(failure))
            raise
        else:
            self.in_flight.add(send)

    def ack(self, message_id: object) -> None:
        """Let the sender return."""
        send = cast(_Send, message_id)
        self.in_flight.discard(send)
        send.settle(None)

    def fail(self, message_id: object) -> None:
        """Raise TupleFailed at the sender."""
        send = cast(_Send, message_id)
        self.in_flight.discard(send)
        send.settle(TupleFailed(self.context.failure or Failure(FAILED)))

    def close(self) -> None:
        """Fail what is in flight: its verdict will never come."""
        self.fail_in_flight(Failure(TASK_DIED, self.context.component_id, self.context.task_id))

    def fail_in_flight(self, failure: Failure) -> None:
        """Raise TupleFailed at each sender whose tree is open."""
        self.end_in_flight(TupleFailed(failure))

    def end_in_flight(self, error: EngineError) -> None:
        """Raise an error at each sender whose tree is open."""
        while self.in_flight:
            self.in_flight.pop().settle(error)
