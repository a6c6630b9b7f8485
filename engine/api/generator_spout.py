"""Spouts that read a generator function or an async generator function, for the decorator `@spout`.

The spout keeps tuples in flight in memory, and emits a failed tuple again. If the instance dies, its tuples in flight are lost, because a
generator cannot yield an item twice. To replay them after a restart, derive a class from `Spout`.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, Generic, TypeVar

from engine.api.fields import short_repr
from engine.api.generator_options import GeneratorOptions, Row
from engine.api.repeated_rows import NotRepeated, RepeatedRows
from engine.api.spout import BurstSpout, SpoutExhausted
from engine.api.yielded_items import checked_list, checked_rows, is_repeated, repeated_position
from engine.errors import ERROR, FAILED, EngineError, Failure, UsageError
from engine.raised import headline
from engine.undone import Undone

Items = TypeVar("Items", bound=Iterable[Any] | AsyncIterable[Any])

ROWS_AT_ONCE: Final = 1024
"""Largest number of rows that an `emit_many` emits before it returns (BP-4)."""
PULL_SECS: Final = 0.005
"""Time after which a series of pulls from a generator ends (BP-4)."""
MOST_PULLS: Final = 32
"""Largest number of pulls between two readings of the clock, as for the calls of other components."""


class GeneratorBroken(EngineError):
    """Raised once by a `@spout` if its generator raised an exception or yielded an invalid item. The cause is chained.

    A generator cannot resume, and a new generator would emit the whole source again. So the executor does not restart the instance. The
    executor treats the spout as exhausted, drains the run, and ends it with a ComponentError. During the drain, polls only retry failed
    tuples. With `restartable=True` the spout raises the exception of the generator instead, and `on_error` selects the reaction.
    """


_END: Final = object()
"""Returned by a pull after the end of the generator."""


class FromGenerator(BurstSpout, Generic[Items]):
    """Base class of both generator spouts. Assigns message ids and retries failed tuples."""

    rewinds = False

    def __init__(self, function: Callable[..., Items], options: GeneratorOptions, name: str) -> None:
        """function: called without arguments or, with `positions`, with `after=`."""
        self.rewinds = options.rewinds  # type: ignore[misc]
        self.survives_rollback = options.repeatable  # type: ignore[misc]
        self._engine_tracks_rows = False
        self._on_refused: Callable[[Row, Exception], None] = lambda row, error: None
        self._repeated = RepeatedRows(name) if options.repeatable else None
        self._positions: list[Any] = []
        """Position behind each of the pulled rows."""
        self._position: Any = None
        """Position behind the last emitted row."""
        self._position_before: Any = None
        """Position that was pulled last."""
        self.output_fields = options.fields
        self.fields_declared_at = f"the @spout(...) of {name}()"
        self._function = function
        self._options = options
        self._name = name
        self._rows: list[Row] = []
        """Rows that were pulled last."""
        self._next_row = 0
        """Number of these rows that were emitted or skipped."""
        self._stop: BaseException | None = None
        """End of these rows: SpoutExhausted after the last item, or the error of the generator or of an invalid item."""
        self._last_id = 0
        self._open: dict[object, Row] = {}  # values of open trees, by message id
        self._retries: dict[object, int] = {}  # number of retries of open trees that failed, by message id
        self._retry_queue: deque[object] = deque()  # message ids that wait for their retry
        self._is_finishing = False
        self._given_up = 0
        """Rows that failed for good, and that no `on_give_up` took."""

    @abstractmethod
    def _pull_items(self, limit: int) -> None:
        """Pull up to `limit` items, or one list, and pass them to `_take_items`. Set `_stop` at the end, or if the generator raised."""

    @abstractmethod
    def _start_again(self) -> None:
        """Drop the generator that raised. The next poll begins a new generator."""

    # Positions

    def let_engine_track_rows(self, on_refused: Callable[[Row, Exception], None]) -> None:
        """Retry nothing, because failed rows are repeated with their interval (EO-6). on_refused: for rows that cannot be emitted."""
        self._engine_tracks_rows = True
        self._on_refused = on_refused

    def seek(self, position: Any) -> None:
        """Begin a generator behind a position. None: from the beginning. A repeatable spout goes back with the rows that it has kept."""
        if self._repeated is None:
            self._position = position
            self._begin_at(partial(self._function, after=position))
            return
        kept = self._repeated.seek(position)
        if kept is None:
            self._begin_at(self._function)
        else:
            self._rows, self._next_row = kept + self._rows[self._next_row :], 0

    def position(self) -> Any:
        """Return the position behind the last emitted row."""
        return self._position if self._repeated is None else self._repeated.position()

    def committed(self, position: Any) -> None:
        """Forget rows that a repeatable spout has kept."""
        if self._repeated is not None:
            self._repeated.note_committed(position)

    @abstractmethod
    def _begin_at(self, function: Callable[[], Items]) -> None:
        """Begin the generator that a function returns."""

    def _split_positions(self, items: list[Any]) -> list[Any]:
        """Return the rows of pairs of a position and a row, and keep the positions. An item that is no pair ends the generator.

        A None in place of a row moves the position behind the last emitted row, or behind the row before in this list.
        """
        rows: list[Any] = []
        for index, item in enumerate(items):
            if item is None and not self._options.burst:
                continue
            if not isinstance(item, tuple) or len(item) != 2:
                self._stop = UsageError(
                    f"spout function {self._name}() yielded {short_repr(items[index])}, which is not a pair of a position and a row",
                    hint="With positions=True, write `yield position, (value,)`.",
                )
                break
            if item[1] is None and not self._options.burst:
                self._move_on(item[0])
                continue
            if is_repeated(item[0], self._position_before, in_list=self._options.burst and bool(rows)):
                self._stop = repeated_position(self._name, *item)
                break
            self._position_before = item[0]
            self._positions.append(item[0])
            rows.append(item[1])
        return rows

    def _move_on(self, position: Any) -> None:
        """Pass over a position without a row. All rows of before this list have been emitted."""
        self._position_before = position
        if self._positions:
            self._positions[-1] = position
        else:
            self._position = position

    # Emits

    def next_tuples(self, limit: int) -> None:
        """Emit the next retries, or else the next rows of the generator."""
        limit = min(limit, ROWS_AT_ONCE)
        if self._retry_queue:
            ids = [self._retry_queue.popleft() for _ in range(min(limit, len(self._retry_queue)))]
            self._emit_rows([self._open[message_id] for message_id in ids], ids)
            return
        if self._next_row == len(self._rows) and self._stop is None and not self._is_finishing:
            self._rows, self._next_row = [], 0
            self._positions.clear()
            self._pull_next(limit)
        if self._next_row < len(self._rows):
            self._emit_next_rows(limit)
        elif self._stop is not None:
            self._end(self._stop)
        elif self._is_finishing:
            raise SpoutExhausted

    def _pull_next(self, limit: int) -> None:
        """Pull items. A series of rows to skip is pulled in steps of about 5 ms."""
        to_skip = 0 if self._repeated is None else self._repeated.to_skip
        self._pull_items(to_skip or limit)
        if self._repeated is not None and self._repeated.to_skip < to_skip:
            self.context.wake()  # the next poll skips the next ones

    def _emit_next_rows(self, limit: int) -> None:
        rows = self._rows
        if self._next_row or len(rows) > limit:
            rows = rows[self._next_row : self._next_row + limit]
        ids: list[object] = list(range(self._last_id + 1, self._last_id + len(rows) + 1))
        self._last_id += len(rows)
        self._next_row += len(rows)
        if self._engine_tracks_rows:
            self._emit_without_ids(rows)
        else:
            self._open.update(zip(ids, rows, strict=True))
            self._emit_rows(rows, ids)
        if self._options.positions:
            self._position = self._positions[self._next_row - 1]
        elif self._repeated is not None:
            self._repeated.note_emitted(rows, keeps=self._engine_tracks_rows)

    def _emit_without_ids(self, rows: list[Row]) -> None:
        """Emit rows that the engine knows again by their values. A row that is refused is reported and given up."""
        while rows:
            try:
                self.collector.emit_many(rows)
                return
            except Exception as error:  # noqa: BLE001 - it belongs to the row, not to the generator
                refused = self.collector.rows_emitted
                self.collector.report_error(error)
                self._on_refused(rows[refused], error)
                rows = rows[refused + 1 :]

    def _emit_rows(self, rows: list[Row], ids: list[object]) -> None:
        """Emit rows. If the emit of one raises, for example for an unhashable key, skip only this row."""
        try:
            self.collector.emit_many(rows, ids)
        except BaseException as error:
            emitted = self.collector.rows_emitted
            self._retry_queue.extendleft(reversed(ids[emitted + 1 :]))  # the next poll emits the rows behind the refused one
            self._forget(ids[emitted : emitted + 1])
            if not isinstance(error, Exception):
                raise
            self.collector.report_error(error)  # and no more, because the error belongs to the row, not to the generator
            if self._options.on_give_up is not None:
                self._give_up(rows[emitted], Failure(ERROR, self.context.component_id, self.context.task_id, headline(error)))
            else:
                self._given_up += 1

    def begin_finish(self) -> bool:
        """Pull and retry no more, because the run drains. Return True if pulled rows are left to emit, or an error to raise."""
        self._is_finishing = True
        self._retry_queue = deque(message_id for message_id in self._retry_queue if message_id not in self._retries)
        return self._next_row < len(self._rows) or bool(self._retry_queue) or self._has_error()

    def undone(self, open_trees: int) -> Undone:
        """Return the rows that were pulled, and neither processed nor handed to `on_give_up`. They include those of open trees."""
        return Undone(len(self._open) + len(self._rows) - self._next_row, self._given_up)

    def _has_error(self) -> bool:
        return self._stop is not None and not isinstance(self._stop, SpoutExhausted)

    # Acks and failures

    def ack_many(self, message_ids: list[Any]) -> None:
        """Forget processed trees."""
        self._forget(message_ids)

    def _forget(self, message_ids: list[Any]) -> None:
        deque(map(self._open.pop, message_ids, repeat(None)), 0)  # without a step of Python for each
        if self._retries:
            deque(map(self._retries.pop, message_ids, repeat(None)), 0)

    def fail(self, message_id: object) -> None:
        """Queue the tuple for a retry, or give it up after `max_retries` retries."""
        if message_id not in self._open:
            return
        retries, most = self._retries.get(message_id, 0), self._options.max_retries
        if most is None or retries < most:
            self._retries[message_id] = retries + 1
            if not self._is_finishing:
                self._retry_queue.append(message_id)
            return
        row = self._open[message_id]
        self._forget([message_id])
        self._give_up(row, self.context.failure or Failure(FAILED))

    def sends_again(self, message_id: object) -> bool:
        """Tell whether a row is kept for a retry."""
        return message_id in self._open

    def _give_up(self, row: Row, failure: Failure) -> None:
        on_give_up = self._options.on_give_up
        if on_give_up is None:
            self._given_up += 1
            emits = (self._options.max_retries or 0) + 1
            text = f"spout function {self._name}() gave up {short_repr(row)} after {emits} emit{'s' * (emits > 1)}: {failure.describe()}"
            self.collector.report_error(EngineError(text, hint="Pass on_give_up or a larger max_retries to @spout."))
            return
        try:
            on_give_up(row, failure)
        except Exception as error:  # noqa: BLE001 - reported; a restart would run the generator again and emit its source twice
            self._given_up += 1
            self.collector.report_error(error)

    # Items

    def _take_items(self, items: list[Any]) -> None:
        """Make rows of pulled items, and leave out those that must be skipped."""
        self._make_rows(items)
        if self._repeated is not None:
            try:
                self._rows = self._repeated.skip(self._rows)
            except NotRepeated as error:
                self._rows, self._stop = [], error

    def _make_rows(self, items: list[Any]) -> None:
        """Make rows of pulled items, up to the first one that is invalid. Such an item breaks the generator after these rows.

        A None in place of a row means that there is nothing now.
        """
        if self._options.positions:
            items = self._split_positions(items)
        if set(map(type, items)) <= {tuple} and set(map(len, items)) <= {len(self._options.fields)}:
            self._rows = items  # the usual case, without a step of Python for each
            return
        if not self._options.burst:
            items = [item for item in items if item is not None]
        self._rows, error = checked_rows(self._name, items, self._options.fields, burst=self._options.burst)
        if error is not None:
            self._stop = error

    def _end(self, stop: BaseException) -> None:
        """Raise what ended the generator. Start the generator again if it is restartable."""
        if isinstance(stop, SpoutExhausted) and self._repeated is not None and self._repeated.to_skip and not self._is_finishing:
            stop = self._repeated.ended_early()
        if isinstance(stop, NotRepeated):
            raise stop
        if isinstance(stop, SpoutExhausted):  # a generator may raise it instead of returning
            raise SpoutExhausted
        if self._options.restartable:
            self._stop = None
            if not self._is_finishing:
                self._start_again()
            raise stop
        self._stop = SpoutExhausted()
        hint = "Catch the error in the generator, or write @spout(..., restartable=True) if it may start from its beginning."
        text = headline(stop)
        if isinstance(stop, UsageError):
            text, hint = f"{type(stop).__name__}: {stop.message}", stop.hint or hint
        raise GeneratorBroken(f"spout function {self._name}() cannot go on: {text}", hint=hint) from stop


class GeneratorSpout(FromGenerator[Iterable[Any]]):
    """Spout from a generator function. Each `next_tuples` pulls up to `limit` items for about 5 ms, or one list."""

    _iterator: Iterator[Any] | None = None

    def open(self) -> None:
        """Create the generator. The body of the function begins at the first poll."""
        if not self._options.rewinds:  # else `seek` follows
            self._begin_at(self._function)

    def _begin_at(self, function: Callable[[], Iterable[Any]]) -> None:
        self._iterator = iter(function())

    def close(self) -> None:
        """Close the generator, which ends its `with` blocks. Has no effect on one that has ended."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()

    def _pull_items(self, limit: int) -> None:
        items: list[Any] = []
        try:
            if self._options.burst:
                item = next(self._pulled, _END)
                if item is _END:
                    self._stop = SpoutExhausted()
                else:
                    items = checked_list(self._name, item)
            else:
                self._pull_many(items, limit)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised after the items that came before
            self._stop = error
        finally:
            self._take_items(items)

    def _pull_many(self, items: list[Any], limit: int) -> None:
        """Pull into `items`, up to `limit`, a None or for about PULL_SECS. Items that came before an exception stay in the list."""
        now, most = self.context.clock.now, 1
        began = now()
        while True:
            wanted = min(most, limit - len(items))
            before = len(items)
            items.extend(islice(self._pulled, wanted))
            if len(items) < before + wanted:
                self._stop = SpoutExhausted()
                return
            if len(items) == limit or items[-1] is None or now() - began >= PULL_SECS:
                return
            most = min(2 * most, MOST_PULLS)

    @property
    def _pulled(self) -> Iterator[Any]:
        assert self._iterator is not None
        return self._iterator

    def _start_again(self) -> None:
        try:
            self.close()  # it still runs, if the engine has refused an item of it
        finally:
            if self._options.positions:
                self.seek(self._position)
            else:
                if self._repeated is not None:
                    self._repeated.begin_again()
                self._begin_at(self._function)
