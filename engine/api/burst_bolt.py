"""`BurstBolt` is the base class of bolts that take many tuples in one call. `@bolt(burst=True)` derives from it."""

import inspect
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol, TypeAlias, overload

from engine.api.bolt import Bolt
from engine.api.collector import Anchors, BoltCollector, Tuple
from engine.api.fields import Fields, Values
from engine.errors import UsageError
from engine.kernel import Burst as CompiledBurst
from engine.names import DEFAULT_STREAM
from engine.safe_text import safe_repr


class Burst(Protocol):
    """Tuples for one call of `execute_many`, in order of arrival. A sequence of tuples that also has columns.

    `burst[0]` is the first tuple. `burst["word"]` is a list with the value of this field of each tuple. Raises UsageError if a tuple lacks
    the field.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Tuple]: ...

    @overload
    def __getitem__(self, key: str, /) -> list[Any]: ...

    @overload
    def __getitem__(self, key: int, /) -> Tuple: ...

    @overload
    def __getitem__(self, key: slice, /) -> list[Tuple]: ...

    def items(self, name: str, /) -> Iterator[tuple[Tuple, Any]]:
        """Return pairs of a tuple and its value of a field."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Values of each tuple."""

    @property
    def fields(self) -> Fields:
        """Fields of the first tuple."""

    @property
    def is_tick(self) -> bool:
        """True for a tick, which always comes alone."""

    def ack(self, tup: Any, /) -> None:
        """Ack a tuple before the call returns. Then the tuple does not run again if the call raises."""

    def fail(self, tup: Any, error: str | BaseException | None = None, /) -> None:
        """Fail one tuple. `error`, a text or an exception, becomes the text `Failure.error`. The engine acks the other tuples."""


class BurstCollector(BoltCollector, Protocol):
    """Collector of a `BurstBolt`. The engine sets `self.collector` before `prepare`."""

    def emit_many(self, rows: Iterable[Values], anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple for each row, in order, all with the same anchors. Raises UsageError for the same reasons as `emit`."""

    def emit_each(self, values: Iterable[Any], anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple for each value, in order, all with the same anchors. The stream has one field."""


class BurstBolt(Bolt):
    """Base class of bolts that take many tuples in one call. Use it if the work for a tuple costs less than a call (BU-1 to BU-4).

    A burst has the tuples that wait, at most `burst_rows`. The engine never waits to fill it. Emits name their anchors. The engine acks the
    tuples when `execute_many` returns, except those that `burst.fail(tup)` has failed. If the method raises, the engine runs the tuples
    again one by one, so that only the guilty ones fail. Its emits are taken back first. An attribute of the bolt itself is not:
    change it after everything that may raise, or keep it in a state.

    Settings are class attributes, or keywords of `set_bolt`: `on_error`, `processes`, `retries`, `tick_tuple_freq_secs`.
    `burst_rows` is a class attribute only.

    >>> from engine import BurstBolt, TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> class Split(BurstBolt):
    ...     output_fields = "word"
    ...     def execute_many(self, burst):
    ...         for tup, line in burst.items("line"):
    ...             self.collector.emit_each(line.split(), anchors=tup)
    >>> lines, words = Feeder("line"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", lines)
    >>> _ = builder.set_bolt("split", Split).shuffle_grouping("lines")
    >>> _ = builder.set_bolt("words", words).shuffle_grouping("split")
    >>> _ = lines.feed(("to be",)), lines.feed(("or not",))
    >>> lines.close()
    >>> _ = run_topology(builder.build())
    >>> words.values, lines.acked
    ([('to',), ('be',), ('or',), ('not',)], [1, 2])
    """

    burst_rows: int = 256
    """Maximum number of tuples in a call. A call also takes only as many as should finish within 5 ms, as the last calls took."""

    collector: BurstCollector
    """Emits tuples. Set before `prepare`."""

    @abstractmethod
    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        """Process 1 to `burst_rows` tuples. They may come from several streams."""

    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one tuple as a burst of one, and ack it. For tests, because the engine calls `execute_many`.

        Raises TypeError if `tup` is not a tuple of the engine.
        """
        returned = self.execute_many(CompiledBurst([tup], self.collector))  # type: ignore[arg-type, list-item]
        if returned is not None:
            return self._acked_later(returned, tup)
        self._ack(tup)
        return None

    async def _acked_later(self, returned: Awaitable[None], tup: Tuple) -> None:
        await returned
        self._ack(tup)

    def _ack(self, tup: Any) -> None:
        if not tup.is_settled:
            self.collector.ack(tup)


AnchoredRow: TypeAlias = tuple[Tuple, Values]
"""An input, and the values of a tuple that is anchored to it."""
BurstResult: TypeAlias = Iterable[AnchoredRow] | AsyncIterable[AnchoredRow] | Awaitable[None] | None
"""Result of a function under `@bolt(burst=True)`."""


class BurstCallable(Protocol):
    """Function of a burst, which `@bolt(burst=True)` makes a bolt of."""

    def __call__(self, burst: Burst, /) -> BurstResult:
        """Process a burst."""


class FunctionBurstBolt(BurstBolt):
    """Base of the bolts that `@bolt(burst=True)` makes."""

    survives_rollback = True
    function: BurstCallable
    fields_declared_at: str

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        """Process a burst. Emit the pairs that the function yields."""
        result: Any = type(self).function(burst)
        if result is None:
            return None
        if inspect.isawaitable(result):
            return result
        if isinstance(result, AsyncIterable):
            return self._emit_later(result)
        if not isinstance(result, Iterable):
            raise self._wrong(result)
        emit = self.collector.emit
        for pair in result:
            tup, values = self._pair(pair)
            emit(values, tup)
        return None

    async def _emit_later(self, result: AsyncIterable[AnchoredRow]) -> None:
        async with AsyncExitStack() as ends:
            if isinstance(result, AsyncGenerator):  # else a refused pair would leave it open
                await ends.enter_async_context(aclosing(result))
            async for pair in result:
                tup, values = self._pair(pair)
                self.collector.emit(values, tup)

    def _pair(self, pair: Any) -> AnchoredRow:
        if type(pair) is not tuple or len(pair) != 2:
            raise self._wrong(pair)
        return pair

    def _wrong(self, given: object) -> UsageError:
        name = type(self).__name__
        return UsageError(
            f"@bolt(burst=True) {name}() yielded or returned {safe_repr(given)}"[:300],
            hint=f"In {name}(), yield pairs of an input and values, such as `yield tup, (word,)`.",
        )
