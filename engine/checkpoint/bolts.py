"""Defines the base classes of stateful bolts, and `@stateful_bolt`, which makes a stateful bolt from a function."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, ClassVar, Protocol, cast

from engine.api import (
    BasicBolt,
    BasicResult,
    Bolt,
    BoltBase,
    BoltFunction,
    BurstBolt,
    CallKind,
    Fields,
    OnBoltError,
    Tuple,
    call_kind,
    decorated_fields,
    takes,
)
from engine.errors import UsageError
from engine.state import KeyValueState


class StatefulCallable(Protocol):
    """Function of one input and the state, which `@stateful_bolt` makes a bolt of."""

    def __call__(self, tup: Tuple, state: KeyValueState[Any, Any], /) -> BasicResult:
        """Process one input."""


class KeepsState(ABC):
    """Base class with the state and the hooks of stateful bolts. Each method may be `async def`.

    A spout that can rewind continues behind the last commit. Any other spout is told of an ack when the changes of the tuple are
    committed (EO-4). So no crash loses the effect of a tuple.
    """

    keeps_state: ClassVar[bool] = True

    @abstractmethod
    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        """Receive the state of the last commit. Called once per instance, after `prepare` and before the first tuple."""

    def key_of(self, key: Any) -> object:
        """Return the value by which the fields grouping chooses the task of a key.

        Override this method if this value is not the key (CP-9).
        """
        return key

    def pre_prepare(self, txid: int) -> Awaitable[None] | None:
        """Called before the changes of txid are frozen. Changes made here belong to this txid."""
        return None

    def pre_commit(self, txid: int) -> Awaitable[None] | None:
        """Called before txid is committed in the state, at least once for each txid, also after a crash. The commit is decided already.

        If the hook raises, the engine reports the error and calls it again, with pauses, until it succeeds. Meanwhile the inputs wait. A
        fresh instance may get this call for the txid of its predecessor, right after `init_state` and before its first tuple. Its state
        contains the changes of this txid then. So let the hook find out by the txid what it has already committed elsewhere.
        """
        return None

    def pre_rollback(self) -> Awaitable[None] | None:
        """Forget all rows and all changes since the last commit, because the run goes back to it (EO-5).

        An instance whose class defines this hook stays, and gets no `init_state`: after the hook, its state has the values of the last
        commit. Without the hook, the engine makes a fresh instance. An instance in another process is always made anew.
        """
        return None


class StatefulBolt(KeepsState, Bolt):
    """A `Bolt` with a state.

    >>> from engine.api import Fields
    >>> class Count(StatefulBolt):
    ...     output_fields = Fields("word", "count")
    ...     def init_state(self, state):
    ...         self.counts = state
    ...     def execute(self, tup):
    ...         count = self.counts.get(tup["word"], 0) + 1
    ...         self.counts.put(tup["word"], count)
    ...         self.collector.emit((tup["word"], count), anchors=tup)
    ...         self.collector.ack(tup)
    """


class StatefulBasicBolt(KeepsState, BasicBolt):
    """A `BasicBolt` with its state in `self.state`. Every emit is anchored, and the input is acked when `execute` has returned.

    >>> class Count(StatefulBasicBolt):
    ...     def execute(self, tup):
    ...         self.state.put(tup["word"], self.state.get(tup["word"], 0) + 1)
    """

    state: KeyValueState[Any, Any]
    """Set before the first tuple."""

    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        self.state = state
        return None


class StatefulBurstBolt(KeepsState, BurstBolt):
    """A `BurstBolt` with its state in `self.state`.

    If a call raises, its changes of the state are undone (SV-2), and its tuples run again alone.

    >>> class Count(StatefulBurstBolt):
    ...     def execute_many(self, burst):
    ...         self.state.add_many(burst["word"])
    """

    state: KeyValueState[Any, Any]
    """Set before the first tuple."""

    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        self.state = state
        return None


class StatefulFunctionBolt(StatefulBasicBolt):
    """Base of the bolts that `@stateful_bolt` makes.

    The function itself becomes the method `execute`, so the engine makes only one call per tuple.

    Each instance has a copy of the function. In this copy, the default of the parameter `state` is the state of the task.
    """

    survives_rollback = True
    function: StatefulCallable
    fields_declared_at: str

    def __init__(self) -> None:
        self._called = _copied(type(self).function)
        self.execute = self._called  # type: ignore[method-assign]

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        self._called.__defaults__ = (state, *(self._called.__defaults__ or ()))

    def execute(self, tup: Tuple) -> BasicResult:
        """Process one input."""
        return type(self).function(tup, self.state)


def _copied(function: StatefulCallable) -> FunctionType:
    """Return a copy of a function, with its own defaults. For another callable, such as a partial, return a function that calls it."""
    if not (isinstance(function, FunctionType) and _names_two(function)):
        return cast(FunctionType, lambda tup, state: function(tup, state))
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _names_two(function: FunctionType) -> bool:
    """Tell whether a function has two parameters without a default. The second one gets the state."""
    return function.__code__.co_argcount - len(function.__defaults__ or ()) == 2


class StatefulBoltFunction(BoltFunction[StatefulCallable]):
    """Factory of the bolts of one decorated function, for `set_bolt`."""

    decorator: ClassVar[str] = "stateful_bolt"
    arguments: ClassVar[str] = "tup, state"
    base: ClassVar[type[BoltBase]] = StatefulFunctionBolt


def stateful_bolt(
    *output_fields: str | Fields,
    key_of: Callable[[Any], object] | None = None,
    on_error: OnBoltError | None = None,
    retries: int = 0,
    tick_tuple_freq_secs: float | None = None,
) -> Callable[[StatefulCallable], StatefulBoltFunction]:
    """Make a `StatefulBasicBolt` from a function of two parameters, the input tuple and the state.

    The function may be a plain function, a generator, a coroutine function or an async generator, as for `@bolt`. The bolt processes one
    input at a time. If the function raises, only its input fails, and the state is as before the call (SV-2).

    key_of(key): the value by which the fields grouping chooses the task, if this value is not the key (CP-9).

    >>> @stateful_bolt("word", "count")
    ... def count(tup, state):
    ...     number = state.get(tup["word"], 0) + 1
    ...     state.put(tup["word"], number)
    ...     yield tup["word"], number
    >>> count
    <@stateful_bolt count: word, count>
    """
    fields = decorated_fields("stateful_bolt", output_fields)
    _check_key_of(key_of)
    members: dict[str, object] = {"on_error": on_error, "retries": retries, "tick_tuple_freq_secs": tick_tuple_freq_secs}
    if key_of is not None:
        members["key_of"] = staticmethod(key_of)

    def decorate(function: StatefulCallable) -> StatefulBoltFunction:
        return StatefulBoltFunction(function, fields, members)

    return decorate


def _check_key_of(key_of: object) -> None:
    if key_of is not None and (not callable(key_of) or call_kind(key_of) is not CallKind.PLAIN or not takes(key_of, 1)):
        raise UsageError(
            f"@stateful_bolt: key_of must be a plain function of a key, not {key_of!r}", hint="Write key_of=lambda key: key[0]."
        )
