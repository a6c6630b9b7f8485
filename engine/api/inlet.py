"""`Inlet` is a spout that a service feeds. `Reply` is a bolt that collects the results of a call.

Each send and each call waits until the whole tree of its tuple is processed. A call returns the tuples of its tree that reached a Reply.
The message id of an open tree is the waiting call itself. So a Reply finds the call by a root id of its input, without a map of calls.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from typing import Final, Literal, Protocol, cast

from engine.api.arguments import checked_count, number_within
from engine.api.bolt import Bolt
from engine.api.collector import Tuple
from engine.api.fields import Fields, Values, decorated_fields, wrong_values
from engine.api.spout import Spout, SpoutExhausted
from engine.errors import ERROR, FAILED, TASK_DIED, EngineError, Failure, TupleFailed, UsageError
from engine.home_loop import HomeLoop
from engine.raised import headline
from engine.waiters import Places

DEFAULT_MAX_WAITING: Final = 10_000
"""Default limit of the sends that an inlet accepts at the same time."""


class InletClosed(EngineError):
    """Raised by a send to a closed inlet. The values were not emitted."""


class RunEnded(InletClosed):
    """A send raises this error if the run has ended.

    `failure` is the reason: the error or the final state of the run. If the run ended before the send, no values were emitted. If the run
    ended during the send, part of the tree may be processed.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"the run of this inlet has ended: {failure.describe()}", hint="Send while the run is active.")
        self.failure = failure


class _Rooted(Protocol):
    """The part of the compiled Tuple that this module reads."""

    @property
    def roots(self) -> tuple[int, ...]: ...


class Calls:
    """Finds the waiting call of a tuple, for the inlets and the Reply bolts of one run."""

    def __init__(self, request_commit: Callable[[], None], *, has_ackers: bool) -> None:
        self.request_commit: Final = request_commit
        """Begins the next checkpoint at once. Has no effect without stateful bolts."""
        self.has_reply = False
        self._has_ackers = has_ackers
        self._find_by_root: list[Callable[[int], object]] = []

    def add_inlet(self, message_of: Callable[[int], object]) -> None:
        """Add an inlet task. `message_of(root)` returns the message id of an open tree of this task, or None."""
        self._find_by_root.append(message_of)

    def add_row(self, tup: Tuple) -> None:
        """Add a tuple to the result of each call whose tree it belongs to. A tuple with several anchors can belong to several trees."""
        for root in cast(_Rooted, tup).roots:
            for message_of in self._find_by_root:
                send = message_of(root)
                if isinstance(send, InletSend):
                    send.add_row(tup)

    def check(self) -> None:
        """Raise UsageError if this run cannot return results."""
        if not self._has_ackers:
            raise UsageError("a call needs ackers, and acker_executors is 0", hint="Remove acker_executors=0, or use send().")
        if not self.has_reply:
            hint = 'Add builder.set_bolt("reply", Reply) with a grouping from the bolt whose tuples are the result, or use send().'
            raise UsageError("a call needs a Reply bolt, and the topology has none", hint=hint)


class Reply(Bolt):
    """Bolt whose inputs are the results of calls: `InletHandle.call` and `InletHandle.stream`.

    A Reply stands at the end of a topology, with any grouping and any parallelism. Each input goes to the call whose tree it belongs to.
    A tuple with anchors of several calls goes to each of these calls. Inputs that belong to no call are acked and dropped.

    >>> import asyncio, engine
    >>> from engine import Inlet, Reply, TopologyBuilder, bolt
    >>> @bolt("square")
    ... def square(tup):
    ...     yield (tup["number"] ** 2,)
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("in", lambda: Inlet("number"))
    >>> _ = builder.set_bolt("square", square).shuffle_grouping("in")
    >>> _ = builder.set_bolt("reply", Reply).shuffle_grouping("square")
    >>> async def serve():
    ...     async with engine.run(builder.build()) as run:
    ...         return await run.inlet("in").call((7,))
    >>> [row] = asyncio.run(serve())
    >>> row["square"]
    49
    """

    calls: Calls | None = None
    """Calls of the run, which sets it before `prepare`."""

    def execute(self, tup: Tuple) -> None:
        """Add the tuple to the result of its call."""
        if self.calls is not None:
            self.calls.add_row(tup)
        self.collector.ack(tup)


class InletSend:
    """One pending send, call or stream. The object is also the message id of its tuple.

    `take_row` receives the rows of a call, None for a send.
    """

    __slots__ = ("done", "take_row", "values")

    def __init__(self, values: tuple[object, ...], done: asyncio.Future[None], take_row: Callable[[Tuple], object] | None) -> None:
        self.values = values
        self.done = done
        self.take_row = take_row

    def __repr__(self) -> str:
        return repr(self.values)  # a failed tree and a trace show the message id

    def add_row(self, tup: Tuple) -> None:
        """Pass a row to the waiting call. Has no effect if the call was cancelled or resumed before."""
        if self.take_row is not None and not self.done.done():
            self.take_row(tup)

    def resume_sender(self, error: Exception | None) -> None:
        """Resume the sender with a result. Has no effect if the sender was cancelled or resumed before."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class InletHandle:
    """Sending end of an inlet, from `run.inlet(component_id)`.

    All tasks of the component share its queue, which is kept when an instance is replaced. The inlet accepts at most `max_waiting` sends at
    the same time. Further sends wait. Use the handle only on the thread of the run's event loop.
    """

    def __init__(self, fields: Fields, max_waiting: int = DEFAULT_MAX_WAITING) -> None:
        self._fields: Final = fields
        self._room = Places(max_waiting)
        self._queue: OrderedDict[InletSend, None] = OrderedDict()
        self._inlets: dict[int, Inlet] = {}
        self._home = HomeLoop()
        self._is_closed = False
        self._end: Failure | None = None
        self._calls: Calls | None = None

    async def send(self, values: Values) -> None:
        """Emit one tuple, and return when its whole tree is processed. There is no retry.

        - TupleFailed: the tree failed or timed out. The attribute `failure` of the error is the reason.
        - RunEnded: the run ended before or during the send.
        - InletClosed: `close()` was called before.
        - UsageError: a wrong number of values, a key that cannot be hashed, or a call on another thread. Nothing was emitted.

        A cancelled send is removed if its tuple is not emitted yet. An emitted tuple is still processed.
        """
        self._home.check("inlet.send(values)", is_async=True)
        await self._settled(self._checked(values, "send"), None)

    async def call(self, values: Values, *, timeout: float | None = None) -> list[Tuple]:
        """Emit one tuple. When its whole tree is processed, return the tuples of this tree that reached a `Reply`, as they arrived.

        timeout: seconds after which the call raises TimeoutError. By default the call waits until the tree ends or times out.
        Raises the errors of `send`, and UsageError if the topology has no Reply or the run has no ackers. A cancelled call drops its
        result. With stateful bolts, the next checkpoint begins as soon as the tree of a call is processed, so its result does not wait for
        the checkpoint interval (SV-8).
        """
        secs = number_within(timeout, 0)
        if timeout is not None and secs is None:
            raise UsageError(f"Inlet.call(): timeout is a number of seconds of at least 0, not {timeout!r}", hint="Write timeout=5.")
        self._home.check("inlet.call(values)", is_async=True)
        row = self._checked(values, "call")
        self._check_can_call()
        rows: list[Tuple] = []
        async with asyncio.timeout(secs):
            await self._settled(row, rows.append)
        return rows

    async def stream(self, values: Values) -> AsyncGenerator[Tuple, None]:
        """Emit one tuple, and yield the tuples of its tree that reach a `Reply`, as they arrive. Ends when the whole tree is processed.

        Raises the errors of `call`, after it has yielded the rows that arrived before the error. Close the iterator to drop the other rows.
        Use `contextlib.aclosing` around a loop that may end early.
        """
        self._home.check("inlet.stream(values)", is_async=True)
        row = self._checked(values, "stream")
        self._check_can_call()
        rows: deque[Tuple] = deque()
        changed = asyncio.Event()

        def take_row(tup: Tuple) -> None:
            rows.append(tup)
            changed.set()

        def note_end(ended: asyncio.Task[None]) -> None:
            changed.set()
            if not ended.cancelled():
                ended.exception()  # so that asyncio does not report the error if the iterator is closed first

        waiting = asyncio.create_task(self._settled(row, take_row))
        waiting.add_done_callback(note_end)
        try:
            while not waiting.done() or rows:
                while rows:
                    yield rows.popleft()
                if not waiting.done():
                    changed.clear()
                    await changed.wait()
            await waiting
        finally:
            waiting.cancel()

    async def _settled(self, values: tuple[object, ...], take_row: Callable[[Tuple], object] | None) -> None:
        """Emit values, and wait for the end of their tree."""
        self._home.adopt_running()
        self._check_open()
        async with self._room:
            self._check_open()
            send = InletSend(values, asyncio.get_running_loop().create_future(), take_row)
            self._queue[send] = None
            self._wake()
            try:
                await send.done
            except asyncio.CancelledError:
                self._queue.pop(send, None)
                raise

    def close(self) -> None:
        """Refuse further sends. The spout is exhausted when all accepted sends are emitted."""
        if not self._is_closed:
            self._home.check("inlet.close()")
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._wake()

    @property
    def waiting(self) -> int:
        """Number of accepted sends whose tree has no verdict yet."""
        return len(self._queue) + sum(len(inlet.in_flight) for inlet in self._inlets.values())

    @property
    def is_closed(self) -> bool:
        """True after `close()` or the end of the run."""
        return self._is_closed

    def abandon(self, failure: Failure) -> None:
        """Close the inlet, and raise RunEnded in each pending send. Called at the end of the run."""
        self._end = failure
        self._close()
        for inlet in self._inlets.values():
            inlet.end_in_flight(RunEnded(failure))
        while self._queue:
            self._queue.popitem(last=False)[0].resume_sender(RunEnded(failure))

    def use_calls(self, calls: Calls) -> None:
        """Set the calls of the run."""
        self._calls = calls

    def note_held(self, send: InletSend) -> None:
        """Request a checkpoint if a send that is processed is a call, because its result waits for a checkpoint (SV-8)."""
        if send.take_row is not None and self._calls is not None:
            self._calls.request_commit()

    def attach_inlet(self, inlet: "Inlet") -> None:
        """Connect an opened instance to the queue. If the task had an earlier instance, the tuples in flight of that instance fail."""
        self._home.adopt_running()
        task_id = inlet.context.task_id
        before = self._inlets.get(task_id)
        if before is not None and before is not inlet:
            before.fail_in_flight(Failure(TASK_DIED, inlet.context.component_id, task_id))
        self._inlets[task_id] = inlet

    def next_send(self) -> InletSend | None:
        """Remove and return the oldest send of the queue, None if it is empty."""
        return self._queue.popitem(last=False)[0] if self._queue else None

    def _wake(self) -> None:
        for inlet in self._inlets.values():
            inlet.context.wake()

    def _checked(self, values: object, method: str) -> tuple[object, ...]:
        if not isinstance(values, (tuple, list)) or len(values) != len(self._fields):
            raise wrong_values(f"Inlet.{method}() was given", values, self._fields)
        return tuple(values)

    def _check_can_call(self) -> None:
        if self._calls is not None:
            self._calls.check()

    def _check_open(self) -> None:
        if self._end is not None:
            raise RunEnded(self._end)
        if self._is_closed:
            raise InletClosed("this inlet is closed", hint="Call send() before close().")


class Inlet(Spout):
    """Spout that emits the values that a service sends to it.

    `output_fields` are names of the default stream, or one Fields that is not direct. Each send waits until its tree is processed. The
    inlet accepts at most `max_waiting` sends at the same time (default 10,000). See `InletHandle.send` for the errors.

    In a topology with state, a sender gets its answer when a checkpoint has committed what its tuple changed. With `answers="settled"`
    the sender gets it before that, as soon as the tree is processed. Then a crash or a rollback may lose the changes of a tuple although
    its sender has the answer. Use it for queries, which change nothing.

    >>> import asyncio, engine
    >>> from engine import Inlet, TopologyBuilder, bolt
    >>> @bolt()
    ... def show(tup):
    ...     print(tup["name"])
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("in", lambda: Inlet("name"))
    >>> _ = builder.set_bolt("show", show).shuffle_grouping("in")
    >>> async def serve():
    ...     async with engine.run(builder.build()) as run:
    ...         await run.inlet("in").send(("ada",))
    ...         print("processed")
    >>> asyncio.run(serve())
    ada
    processed
    """

    def __init__(
        self, *output_fields: str | Fields, max_waiting: int = DEFAULT_MAX_WAITING, answers: Literal["committed", "settled"] = "committed"
    ) -> None:
        fields = decorated_fields("Inlet", output_fields)
        if fields is None or fields.direct:
            raise UsageError("an Inlet needs fields that are not direct", hint='Write Inlet("line").')
        if answers not in ("committed", "settled"):
            raise UsageError(f"Inlet: answers is {answers!r}", hint="Write answers='committed' or answers='settled'.")
        max_waiting = checked_count("Inlet: max_waiting", max_waiting, 1)
        self.output_fields = fields
        self.fields_declared_at = "the fields of its Inlet(...)"
        self.answers: Final = answers
        self.handle = InletHandle(fields, max_waiting)
        self.in_flight: set[InletSend] = set()

    def use_handle(self, handle: InletHandle) -> None:
        """Replace the handle. Before `open`, the run gives the same handle to all instances of a component."""
        self.handle = handle

    def open(self) -> None:
        """Connect to the queue."""
        self.handle.attach_inlet(self)

    def next_tuple(self) -> None:
        """Emit the oldest send. If the emit raises, raise the error in the sender."""
        send = self.handle.next_send()
        if send is None:
            if self.handle.is_closed:
                raise SpoutExhausted
            return
        try:
            self.collector.emit(send.values, send)
        except UsageError as error:
            send.resume_sender(error)
        except BaseException as error:
            failure = Failure(ERROR, self.context.component_id, self.context.task_id, headline(error))
            send.resume_sender(TupleFailed(failure))
            raise
        else:
            self.in_flight.add(send)

    def ack(self, message_id: object) -> None:
        """Resume the sender."""
        send = cast(InletSend, message_id)
        self.in_flight.discard(send)
        send.resume_sender(None)

    def fail(self, message_id: object) -> None:
        """Raise TupleFailed in the sender."""
        send = cast(InletSend, message_id)
        self.in_flight.discard(send)
        send.resume_sender(TupleFailed(self.context.failure or Failure(FAILED)))

    def close(self) -> None:
        """Fail the tuples in flight, because they will get no ack or fail."""
        self.fail_in_flight(Failure(TASK_DIED, self.context.component_id, self.context.task_id))

    def fail_in_flight(self, failure: Failure) -> None:
        """Raise TupleFailed in each sender whose tree is open."""
        self.end_in_flight(TupleFailed(failure))

    def end_in_flight(self, error: EngineError) -> None:
        """Raise an error in each sender whose tree is open."""
        while self.in_flight:
            self.in_flight.pop().resume_sender(error)
