"""The decorator `@spout` makes a spout from a generator function or an async generator function.

The spout keeps tuples in flight in memory, and emits a failed tuple again. If the instance dies, its tuples in flight are lost, because a
generator cannot yield an item twice. To replay them after a restart, derive a class from `Spout`.
"""

import asyncio
import inspect
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

from engine.api.arguments import CallKind, call_kind, check_count, function_name, missing_arguments, takes
from engine.api.fields import Fields, Values, decorated_fields, short_repr, wrong_values
from engine.api.spout import Spout, SpoutExhausted
from engine.cancellation import was_cancelled
from engine.errors import ERROR, FAILED, EngineError, Failure, UsageError
from engine.raised import headline

P = ParamSpec("P")
Source = TypeVar("Source", bound=Iterable[Values] | AsyncIterable[Values])
Row: TypeAlias = tuple[object, ...]
GiveUp: TypeAlias = Callable[[Row, Failure], None]

BUFFER_TUPLES: Final = 256
"""Largest number of items of an async generator that wait for `next_tuple`."""


class GeneratorBroken(EngineError):
    """Raised once by a `@spout` if its generator raised an exception or yielded an invalid item. The cause is chained.

    A generator cannot resume, and a new generator would emit the whole source again. So the executor does not restart the instance. The
    executor treats the spout as exhausted, drains the run, and ends it with a ComponentError. During the drain, polls only retry failed
    tuples. With `restartable=True` the spout raises the exception of the generator instead, and `on_error` selects the reaction.
    """


_END: Final = object()
"""Returned by a pull after the end of the generator."""

_NOTHING: Final = object()
"""Returned by a pull if the generator has not yielded a new item yet."""


@dataclass(frozen=True, slots=True)
class _Options:
    fields: Fields
    max_retries: int | None
    on_give_up: GiveUp | None
    restartable: bool


class _FromGenerator(Spout, Generic[Source]):
    """Base class of both generator spouts. Assigns message ids and retries failed tuples."""

    def __init__(self, function: Callable[[], Source], options: _Options, name: str) -> None:
        self.output_fields = options.fields
        self.fields_declared_at = f"the @spout(...) of {name}()"
        self._function = function
        self._options = options
        self._name = name
        self._width = len(options.fields)
        self._pull: Callable[[], object]  # returns the next item, _END or _NOTHING; set by open()
        self._ended = False
        self._last_id = 0
        self._open: dict[object, Row] = {}  # values of open trees, by message id
        self._retries: dict[object, int] = {}  # number of retries of open trees that failed, by message id
        self._retry_queue: deque[object] = deque()  # message ids that wait for their retry

    @abstractmethod
    def _start_again(self) -> None:
        """Drop the generator that raised. The next poll begins a new generator."""

    def next_tuple(self) -> None:
        """Emit the next retry, or else the next item of the generator."""
        if self._retry_queue:
            message_id = self._retry_queue.popleft()
            self._emit(self._open[message_id], message_id)
            return
        if self._ended:
            raise SpoutExhausted
        try:
            item = self._pull()
            if item is _NOTHING:
                return
            if item is not _END:
                row = item if type(item) is tuple and len(item) == self._width else self._checked(item)
                self._last_id += 1
                self._open[self._last_id] = row
        except SpoutExhausted:  # a generator may raise it instead of returning
            self._ended = True
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._break(error)
            raise
        if item is _END:
            self._ended = True
            raise SpoutExhausted
        self._emit(row, self._last_id)

    def _emit(self, row: Row, message_id: object) -> None:
        """Emit one row. If the emit raises, for example for an unhashable key, skip only this row."""
        try:
            self.collector.emit(row, message_id)
        except Exception as error:  # noqa: BLE001 - reported; the error belongs to this row, not to the generator
            self.ack(message_id)
            self.collector.report_error(error)
            if self._options.on_give_up is not None:
                self._give_up(row, Failure(ERROR, self.context.component_id, self.context.task_id, headline(error)))

    def ack(self, message_id: object) -> None:
        """Forget a processed tree."""
        self._open.pop(message_id, None)
        if self._retries:
            self._retries.pop(message_id, None)

    def fail(self, message_id: object) -> None:
        """Queue the tuple for a retry, or give it up after `max_retries` retries."""
        if message_id not in self._open:
            return
        retries, most = self._retries.get(message_id, 0), self._options.max_retries
        if most is None or retries < most:
            self._retries[message_id] = retries + 1
            self._retry_queue.append(message_id)
            return
        row = self._open[message_id]
        self.ack(message_id)
        self._give_up(row, self.context.failure or Failure(FAILED))

    def _give_up(self, row: Row, failure: Failure) -> None:
        on_give_up = self._options.on_give_up
        if on_give_up is None:
            emits = (self._options.max_retries or 0) + 1
            text = f"spout function {self._name}() gave up {short_repr(row)} after {emits} emit{'s' * (emits > 1)}: {failure.describe()}"
            self.collector.report_error(EngineError(text, hint="Pass on_give_up or a larger max_retries to @spout."))
            return
        try:
            on_give_up(row, failure)
        except Exception as error:  # noqa: BLE001 - reported; a restart would run the generator again and emit its source twice
            self.collector.report_error(error)

    def _checked(self, item: object) -> Row:
        if isinstance(item, (tuple, list)) and len(item) == self._width:
            return tuple(item)
        raise wrong_values(f"spout function {self._name}() yielded", item, self._options.fields)

    def _break(self, error: BaseException) -> None:
        """Start the generator again if it is restartable, else raise GeneratorBroken."""
        if self._options.restartable:
            self._start_again()
            return
        self._ended = True
        hint = "Catch the error in the generator, or write @spout(..., restartable=True) if it may start from its beginning."
        text = headline(error)
        if isinstance(error, UsageError):
            text, hint = f"{type(error).__name__}: {error.message}", error.hint or hint
        raise GeneratorBroken(f"spout function {self._name}() cannot go on: {text}", hint=hint) from error


class GeneratorSpout(_FromGenerator[Iterable[Values]]):
    """Spout from a generator function. Each `next_tuple` pulls one item."""

    def open(self) -> None:
        """Create the generator. The body of the function begins at the first poll."""
        self._iterator: Iterator[Values] = iter(self._function())
        self._pull = partial(next, self._iterator, _END)

    def close(self) -> None:
        """Close the generator, which ends its `with` blocks."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()

    def _start_again(self) -> None:
        self.open()


class AsyncGeneratorSpout(_FromGenerator[AsyncIterable[Values]]):
    """Spout from an async generator function. A background task reads the generator into a buffer, so `next_tuple` never waits."""

    def open(self) -> None:
        """Start the background task."""
        self._buffer: deque[object] = deque()
        self._has_room = asyncio.Event()
        self._error: BaseException | None = None
        self._is_done = False
        self._pull = self._take
        self._begin()

    def _begin(self) -> None:
        self._error, self._is_done = None, False
        self._puller = self.context.create_task(self._fill(aiter(self._function())))
        self._puller.add_done_callback(self._note_cancelled)

    def _note_cancelled(self, puller: "asyncio.Task[None]") -> None:
        """Break a generator that cancelled the asyncio task that pulls it. Has no effect after the instance is closed."""
        if puller.cancelled():
            self._error = asyncio.CancelledError("the generator cancelled the asyncio task that pulls it")
            self.context.wake()

    async def _fill(self, source: AsyncIterator[Values]) -> None:
        try:
            async for item in source:
                self._buffer.append(item)
                self.context.wake()
                if len(self._buffer) >= BUFFER_TUPLES:
                    self._has_room.clear()
                    await self._has_room.wait()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if was_cancelled(error):
                raise  # the engine cancelled this task; the generator itself raised any other CancelledError
            self._error = error  # `next_tuple` raises this error after the items in the buffer
        finally:
            aclose = getattr(source, "aclose", None)
            if aclose is not None:
                await aclose()
        self._is_done = True
        self.context.wake()

    def _take(self) -> object:
        if self._buffer:
            item = self._buffer.popleft()
            if len(self._buffer) == BUFFER_TUPLES // 2:
                self._has_room.set()
            return item
        if self._error is not None:
            raise self._error
        return _END if self._is_done else _NOTHING

    def _start_again(self) -> None:
        self._puller.cancel()
        self._buffer.clear()
        self._begin()


class SpoutFunction(Generic[P]):
    """Result of `@spout`.

    A call with the function's arguments returns a factory for `set_spout`. If the function has no parameters, this object is itself a
    factory.
    """

    def __init__(
        self, function: Callable[P, Iterable[Values] | AsyncIterable[Values]], options: _Options, bind: Callable[[], Any] | None = None
    ) -> None:
        self.function = function
        """Undecorated function, for unit tests."""
        self.output_fields = options.fields
        self._options = options
        self._bound = bind
        self.__name__ = function_name(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "SpoutFunction[[]]":
        """Return a factory of spouts that read `function(*args, **kwargs)`. Each instance of the spout calls the function."""
        if self._bound is not None:
            raise UsageError(f"spout function {self.__name__}() has its arguments already", hint="Call it once only.")
        try:
            inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(inspect.signature(self.function).parameters)
            raise UsageError(
                f"spout function {self.__name__}() cannot be called with these arguments: {error}", hint=f"It takes ({names})."
            ) from None
        return SpoutFunction(cast(Any, self.function), self._options, lambda: self.function(*args, **kwargs))

    def create(self) -> Spout:
        """Return a new spout. The engine calls this for each instance of a task."""
        function: Callable[[], Any] = self._bound or cast(Any, self.function)
        missing = () if self._bound is not None else missing_arguments(self.function)
        if missing:
            raise UsageError(
                f"spout function {self.__name__}() needs arguments: {', '.join(missing)}",
                hint=f"Call it in set_spout(), with values: set_spout(..., {self.__name__}({', '.join(missing)})).",
            )
        if call_kind(self.function) is CallKind.ASYNC_GENERATOR:
            return AsyncGeneratorSpout(function, self._options, self.__name__)
        return GeneratorSpout(function, self._options, self.__name__)

    def __repr__(self) -> str:
        return f"<@spout {self.__name__}: {', '.join(self.output_fields.names)}>"


def spout(
    *output_fields: str | Fields, max_retries: int | None = 3, on_give_up: GiveUp | None = None, restartable: bool = False
) -> Callable[[Callable[P, Source]], SpoutFunction[P]]:
    """Make a spout from a generator or async generator function that yields tuples with these fields.

    `output_fields` are names, or one Fields. The spout emits a failed tuple again up to `max_retries` times. None means no limit. After the
    last retry the spout calls the plain function `on_give_up(values, failure)`. The default reports an error. With `restartable=True` the
    function may start from its beginning after an exception; see `GeneratorBroken`. Raises UsageError for wrong arguments, and for an
    object that is not a generator function.

    >>> @spout("number")
    ... def numbers(limit):
    ...     for number in range(limit):
    ...         yield (number,)
    >>> numbers(3)                          # for set_spout()
    <@spout numbers: number>
    >>> list(numbers.function(3))           # for a unit test
    [(0,), (1,), (2,)]
    """
    fields = decorated_fields("spout", output_fields)
    if fields is None:
        raise UsageError("@spout() names no fields", hint='Name the fields that it yields: @spout("line").')
    check_count("@spout: max_retries", max_retries, minimum=0, optional=True)
    _check_on_give_up(on_give_up)
    options = _Options(fields, max_retries, on_give_up, restartable)

    def decorate(function: Callable[P, Source]) -> SpoutFunction[P]:
        _check_generator_function(function)
        return SpoutFunction(function, options)

    return decorate


def _check_on_give_up(on_give_up: object) -> None:
    if on_give_up is not None and (not callable(on_give_up) or call_kind(on_give_up) is not CallKind.PLAIN or not takes(on_give_up, 2)):
        raise UsageError("@spout: on_give_up must be a plain function of two arguments", hint="Write def on_give_up(values, failure): ...")


def _check_generator_function(function: object) -> None:
    if not callable(function) or call_kind(function) not in (CallKind.GENERATOR, CallKind.ASYNC_GENERATOR):
        raise UsageError(
            f"@spout needs a generator function, but {getattr(function, '__name__', repr(function))} is not one",
            hint="Write `yield (value,)` in the function, or derive a class from Spout.",
        )
