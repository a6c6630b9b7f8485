"""Functions and classes of a user that stages call."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from engine.api import CallKind, TaskContext, call_kind, takes
from engine.api.arguments import function_name
from engine.errors import UsageError
from engine.maybe_await import maybe_await


@dataclass(frozen=True, slots=True)
class Call:
    """What a user has given to a stage: a function, another callable object, or a class of which each task gets an instance."""

    given: Any

    @property
    def is_class(self) -> bool:
        """True for a class whose instances can be called. Any other class, such as `int` or a row's, is called like a function."""
        return isinstance(self.given, type) and any("__call__" in vars(base) for base in self.given.__mro__)

    @property
    def kind(self) -> CallKind:
        """The kind of the function, or of the `__call__` of the class."""
        if self.is_class:
            return call_kind(self.given.__call__)
        return CallKind.PLAIN if isinstance(self.given, type) else call_kind(self.given)

    @property
    def name(self) -> str:
        """A readable name: that of the function, or of the class."""
        name = function_name(self.given)
        return name.strip("<>") or "call"


def checked_call(method: str, given: object, *, takes_async: bool = False, arguments: int = 1) -> Call:
    """Return the call of a stage. Raise UsageError unless it can be called with this number of rows, and is of the right kind.

    method: of the stream, for error texts. takes_async: an `async def` is allowed.
    """
    if isinstance(given, str) or not callable(given):
        hint = f"Write .{method}(lambda row: ...), or pass a class with __call__."
        raise UsageError(f"{method}() takes a function of a row, not {given!r}", hint=hint)
    call = Call(given)
    function: Callable[..., Any] = given.__call__ if call.is_class else given
    if not takes(function, arguments + call.is_class):
        rows = "one row" if arguments == 1 else f"{arguments} rows"
        raise UsageError(f"{method}(): {call.name} cannot be called with {rows}", hint=f"Give it {arguments} parameter(s).")
    kind = call.kind
    if kind.is_async and not (takes_async and kind is CallKind.COROUTINE):
        hint = "Use map_async()." if kind is CallKind.COROUTINE else "Return a list from an async def, and use map_async() and flat_map()."
        raise UsageError(f"{method}(): {call.name} is an {kind.value}", hint=hint)
    if kind is CallKind.GENERATOR and method != "flat_map":
        raise UsageError(f"{method}(): {call.name} is a generator", hint="Use flat_map(), which takes the rows that it yields.")
    return call


class OpenCalls:
    """The instances of the classes that one task calls."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._ends = AsyncExitStack()

    async def function_of(self, call: Call) -> Callable[..., Any]:
        """Return the function to call. Of a class, make an instance, give it the `context`, and await its `prepare`.

        If that fails, the earlier instances are closed, because nobody closes a task that has not begun.
        """
        if not call.is_class:
            function: Callable[..., Any] = call.given
            return function
        try:
            return await self._instance_of(call)
        except BaseException:
            await self.close()
            raise

    async def _instance_of(self, call: Call) -> Callable[..., Any]:
        instance = call.given()
        instance.context = self._context
        if hasattr(instance, "prepare"):
            await maybe_await(instance.prepare())
        if hasattr(instance, "cleanup"):
            self._ends.push_async_callback(_clean_up, instance)
        made: Callable[..., Any] = instance
        return made

    async def close(self) -> None:
        """Call the `cleanup` of each instance, the last one first."""
        await self._ends.aclose()


async def _clean_up(instance: Any) -> None:
    await maybe_await(instance.cleanup())
