"""Follows single message ids of spouts to the verdicts of their trees.

While a message id is awaited, only the tasks of its spout call `note_opened`. While a tree is followed, all tasks call `_note_event` for
each tracked tuple. Otherwise the tasks call nothing.
"""

import ast
import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, cast

from engine.errors import Failure, UsageError
from engine.names import did_you_mean, is_reserved
from engine.runtime.assembly import Assembly
from engine.runtime.latest_failures import LONGEST_ERROR
from engine.runtime.run_context import RunContext
from engine.runtime.spout_executor import SpoutExecutor
from engine.runtime.tree_timeouts import event_text
from engine.safe_text import shorten

MOST_TRACES: Final = 10
LONGEST_WAIT_SECS: Final = 60.0
"""Time that a trace waits until its message id is emitted."""
MOST_EVENTS: Final = 200
"""Events of a path that a trace keeps."""
SLICE_SECS: Final = 0.005
TREES_PER_CLOCK: Final = 256

TraceState: TypeAlias = Literal["waiting", "open", "acked", "failed", "expired"]


class MessageTrace:
    """The path of one message id of one spout. `state` and `text` change until the state is acked, failed or expired."""

    def __init__(self, component_id: str, message_id: str) -> None:
        self.component_id: Final = component_id
        self.message_id: Final = message_id
        """The text that `str` returns for the wanted message id."""
        self.state: TraceState = "waiting"
        self._began = 0.0
        self._events: list[str] = [f"waits until {message_id!r} is emitted, at most {LONGEST_WAIT_SECS:g} s"]
        self._left_out = 0

    @property
    def text(self) -> str:
        """The path so far: `opened by lines[1] +0.000 s, sent to split[2] +0.000 s, …`. Ends with the verdict."""
        return ", ".join(self._events)

    @property
    def is_over(self) -> bool:
        """True if the path does not change any more."""
        return self.state not in ("waiting", "open")

    def begin(self, now: float, first: Sequence[str] = ()) -> None:
        """Begin the path of the tree, at `now`."""
        self.state, self._began = "open", now
        self._events = list(first)

    def add(self, now: float, event: str) -> None:
        """Add an event to the path. Counts the events beyond MOST_EVENTS."""
        if len(self._events) < MOST_EVENTS:
            self._events.append(f"{event} +{now - self._began:.3f} s")
        else:
            self._left_out += 1

    def end(self, state: TraceState, now: float, event: str) -> None:
        """End the path with the verdict, or with the reason why there is none."""
        if self._left_out:
            self._events.append(f"{self._left_out:,} more events")
        if self.state == "open":
            self._events.append(f"{event} +{now - self._began:.3f} s" if state == "acked" else f"{event} (+{now - self._began:.3f} s)")
        else:
            self._events = [event]
        self.state = state

    def __repr__(self) -> str:
        return f"<MessageTrace of {self.message_id!r} of {self.component_id!r}: {self.state}>"


class _Followed:
    """A trace with the engine's side of it."""

    def __init__(self, trace: MessageTrace, wanted: frozenset[str], expiry: asyncio.TimerHandle) -> None:
        self.trace: Final = trace
        self.wanted: Final = wanted
        """Texts of the message id: as given, and without the quotes of its repr."""
        self.expiry: Final = expiry
        self.task = 0
        self.root: int | None = None
        """Root of its open tree, which `task` opened. None while the trace waits, and after its end."""
        self.message_address = 0
        """`id` of the message id of its open tree. The core keeps the object, and a trace must not (ACK-15)."""
        self.to_search: Iterator[tuple[SpoutExecutor, int]] | None = None
        """Trees that were open when the trace began, and are not compared yet."""


class MessageTraces:
    """The traces of one run. Keeps the latest MOST_TRACES. A newer trace ends the oldest one."""

    def __init__(self, assembly: Assembly, run_context: RunContext) -> None:
        self._assembly = assembly
        self._component_of = assembly.plan.component_of
        self._run_context = run_context
        self._now = run_context.clock.now
        self._followed: deque[_Followed] = deque()
        self._is_closed = False

    def read(self) -> tuple[MessageTrace, ...]:
        """Return the latest traces, the newest last."""
        return tuple(each.trace for each in self._followed)

    def follow(self, component_id: str, message_id: str) -> MessageTrace:
        """Follow the next or open tree of a message id. Raises UsageError for a component that is not a spout."""
        self._check(component_id, message_id)
        if len(self._followed) == MOST_TRACES:
            self._end(self._followed.popleft(), "expired", "a newer trace has replaced this one")
        trace = MessageTrace(component_id, message_id)
        wanted = frozenset((message_id, _unquoted(message_id)))
        expiry = self._run_context.loop.call_later(LONGEST_WAIT_SECS, self._expire, trace)
        followed = _Followed(trace, wanted, expiry)
        followed.to_search = ((spout, root) for spout in self._spouts(component_id) for root in spout.core.open_trees.roots())
        self._followed.append(followed)
        self._switch()
        self._search(followed)
        return trace

    def _check(self, component_id: str, message_id: str) -> None:
        if not isinstance(cast(object, message_id), str):
            hint = "Write the text that str(message_id) returns."
            raise UsageError(f"trace_message() takes the message id as a string, not {message_id!r}", hint=hint)
        if not isinstance(cast(object, component_id), str) or not self._spouts(component_id):
            known = {spout.info.component_id for spout in self._assembly.user_spouts}
            raise UsageError(f"the topology has no spout {component_id!r}", hint=did_you_mean(component_id, known))
        if is_reserved(component_id):
            raise UsageError(f"{component_id!r} is a spout of the engine, whose trees carry no data", hint="Trace another spout.")
        if self._run_context.config.acker_executors == 0:
            raise UsageError("trace_message() needs ackers, and acker_executors is 0", hint="Remove acker_executors=0.")
        if self._is_closed:
            raise UsageError("trace_message() was called after the end of the run", hint="Call it while the run is active.")

    def close(self) -> None:
        """End all traces, because the run has ended."""
        self._is_closed = True
        for followed in self._followed:
            self._end(followed, "expired", "the run ended before the verdict")

    def _spouts(self, component_id: str) -> list[SpoutExecutor]:
        return [spout for spout in self._assembly.spouts if spout.info.component_id == component_id]

    def _search(self, followed: _Followed) -> None:
        """Look for the message id in the open trees, for at most SLICE_SECS. Continue after the other tasks have had their turn."""
        until = self._now() + SLICE_SECS
        for number, (spout, root) in enumerate(followed.to_search or (), 1):
            message_id = spout.core.message_of(root)
            if message_id is not None and _str_of(message_id) in followed.wanted and followed.trace.state == "waiting":
                followed.message_address = id(message_id)
                self._open(followed, spout.info.task_id, root, ("already open",))
                return
            if number % TREES_PER_CLOCK == 0 and self._now() >= until:
                self._run_context.loop.call_soon(self._search, followed)
                return
        followed.to_search = None

    def _open(self, followed: _Followed, task: int, root: int, first: Sequence[str] = ()) -> None:
        followed.expiry.cancel()
        followed.to_search = None
        followed.task, followed.root = task, root
        followed.trace.begin(self._now(), first)
        self._switch()

    def _expire(self, trace: MessageTrace) -> None:
        for followed in self._followed:
            if followed.trace is trace and trace.state == "waiting":
                waited = f"no tree with this message id was opened within {LONGEST_WAIT_SECS:g} s"
                self._end(followed, "expired", waited)

    def _end(self, followed: _Followed, state: TraceState, event: str) -> None:
        if followed.trace.is_over:
            return
        followed.expiry.cancel()
        followed.to_search = followed.root = None
        followed.trace.end(state, self._now(), event)
        self._switch()

    def _switch(self) -> None:
        """Let exactly the tasks call that a live trace needs."""
        live = [each for each in self._followed if not each.trace.is_over]
        waited = {each.trace.component_id for each in live if each.root is None}
        opened = {each.task for each in live if each.root is not None}
        for spout in self._assembly.spouts:
            watches = spout.info.component_id in waited or spout.info.task_id in opened
            spout.set_watch(self if watches else None)
        self._assembly.record_roots(self._note_event if opened else None)

    # Called by the cores

    def note_opened(self, task: int, root: int, message_id: object) -> None:
        """Begin the paths that wait for this message id."""
        text: str | None = None
        for followed in tuple(self._followed):
            if followed.trace.state == "waiting" and followed.trace.component_id == self._component_of[task] and message_id is not None:
                if text is None:
                    text = _str_of(message_id)
                if text in followed.wanted:
                    followed.message_address = id(message_id)
                    self._open(followed, task, root)

    def note_failed(self, task: int, message_id: object, failure: Failure) -> None:
        """End the path of the tree that has just failed. Called by the executor of the spout, before its `fail`."""
        for followed in self._closed_trees(task):
            if followed.message_address == id(message_id):
                self._end(followed, "failed", shorten(f"the tree failed ({failure.reason}): {failure.describe()}", LONGEST_ERROR))

    def note_burst(self, task: int) -> None:
        """End the paths of trees that were acked in this burst of a spout task. `note_failed` has ended the failed ones."""
        for followed in self._closed_trees(task):
            self._end(followed, "acked", "the tree is acked")

    def _closed_trees(self, task: int) -> list[_Followed]:
        """Return the followed trees of a task that are not open any more."""
        mine = [followed for followed in self._followed if followed.root is not None and followed.task == task]
        if not mine:
            return []
        message_of = next(spout.core.message_of for spout in self._assembly.spouts if spout.info.task_id == task)
        return [followed for followed in mine if message_of(followed.root or 0) is None]

    def note_dropped(self, task: int) -> None:
        """End the paths of a spout task whose instance is gone, because its trees get no verdict (ACK-13)."""
        for followed in tuple(self._followed):
            if followed.root is not None and followed.task == task:
                self._end(followed, "failed", "the spout's instance ended, and its trees were dropped")

    def _note_event(self, event: str, roots: Sequence[int], task: int) -> None:
        for followed in self._followed:
            if followed.root in roots:
                followed.trace.add(self._now(), event_text(event, task, self._component_of))


def _str_of(message_id: object) -> str | None:
    """Return the text of a message id. None if its `__str__` raises."""
    try:
        return str(message_id)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a __str__ of user code; such a message id is not the wanted one
        return None


def _unquoted(text: str) -> str:
    """Return the string whose repr is `text`, because snapshots show message ids so. Return any other text unchanged."""
    if text[:1] in ("'", '"'):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(text)
            if isinstance(value, str):
                return value
    return text
