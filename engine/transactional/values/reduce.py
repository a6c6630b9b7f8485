"""Committers that reduce a batch to one partial result for each key, and combine it with the stored value (TX-10)."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import add, itemgetter
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from engine.api import Tuple, Values, takes
from engine.api.fields import OutputFields
from engine.errors import BadRows, UsageError
from engine.state.values import ValueKind, ValueRefused
from engine.transactional.batch_bolt import Committer
from engine.transactional.one_target import opened_for_all_batches
from engine.transactional.values.open_values import OpenValues
from engine.transactional.values.reduction import Reduction
from engine.transactional.values.value_maps import ValueMap

K = TypeVar("K")
P = TypeVar("P")
V = TypeVar("V")

KindChoice: TypeAlias = Literal["auto", "transactional", "opaque"]
ALL: Final = "all"
"""The key of a reduction without keys."""
KEYS_PER_PIECE: Final = 1000
"""Keys of a piece of staged output, which is encoded in one turn of the event loop."""


class ReducingCommitter(Committer, Generic[K, P, V]):
    """Reduces each batch into a map. `fold` reduces the tuples of a key, `combine` adds the result to the stored value.

    With output fields it emits (key, new value) for each key of the batch, after they are stored.

    >>> from engine.transactional.values import SqliteValues
    >>> class Longest(ReducingCommitter[str, str, str]):
    ...     values = SqliteValues("words.db", "longest")
    ...     keyed_by = ("letter",)
    ...     def fold(self, partial, tup):
    ...         return max(partial or "", tup["word"], key=len)
    ...     def combine(self, stored, partial):
    ...         return max(stored or "", partial, key=len)
    """

    values: ValueMap
    """The map of the results, the same for all batches of a task. No other committer may write to it."""
    keyed_by: tuple[str, ...] | None = None
    """The fields of the fields grouping of this bolt's input, so that its tasks share no key. None: the bolt has one task."""
    kind: KindChoice = "auto"
    """`auto`: opaque values for an opaque spout, else transactional values. A map cannot change its kind."""
    partials: dict[K, P]
    """Partial results of the batch, by key."""

    deletes: ClassVar[bool] = False
    """True: the key is deleted if `combine` returns None (`OpenValues.update`)."""
    needs_transactional_spout: bool = False
    """`build()` reads this. Transactional values cannot be replaced, so an opaque spout is refused."""
    refuses_gaps: ClassVar[bool] = True
    """The map takes no batch whose predecessor it does not have (TX-8)."""
    names_bad_entries: ClassVar[bool] = True
    """`publish` raises BadRows with the numbers of pairs in its pieces (EO-9)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.needs_transactional_spout = cls.kind == "transactional"

    def prepare(self) -> None:
        self.partials = {}

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields that the committer reads from every tuple, as far as known. `build()` checks that the inputs have them."""
        return () if self.keyed_by is None or type(self).key is not ReducingCommitter.key else self.keyed_by

    @property
    def values_kind(self) -> ValueKind:
        """The kind of values that fits the spout of this topology."""
        if self.kind == "auto":
            return "opaque" if self.replays_differ else "transactional"
        return self.kind

    def key(self, tup: Tuple) -> K:
        """Return the key of a tuple: its value of `keyed_by`, a tuple for several fields, or `"all"`."""
        names = self.keyed_by
        if names is None:
            return ALL  # type: ignore[return-value]
        return tup[names[0]] if len(names) == 1 else tuple([tup[name] for name in names])  # type: ignore[return-value]

    def fold(self, partial: P | None, tup: Tuple) -> P:
        """Add a tuple of the batch to the partial result of its key. partial: None for the first tuple.

        Unused by a class that overrides `execute`.
        """
        raise UsageError(f"{type(self).__name__} has no fold()", hint="Define fold(self, partial, tup), or override execute(self, tup).")

    @abstractmethod
    def combine(self, stored: V | None, partial: P) -> V:
        """Return the new value of a key. stored: None if there is no value."""

    def execute(self, tup: Tuple) -> None:
        partials, key = self.partials, self.key(tup)
        partials[key] = self.fold(partials.get(key), tup)

    async def finish_batch(self) -> None:
        new = await self._update(self.partials)
        if self.output_fields is not None and (rows := self.rows(new)):
            self.collector.emit_many(rows)

    def stage(self) -> Iterator[list[tuple[K, P]]]:
        """Yield the partial results by key, in pieces that are stored until `publish` (EO-9)."""
        pairs = iter(self.partials.items())
        while piece := list(islice(pairs, KEYS_PER_PIECE)):
            yield piece

    async def publish(self, pieces: Iterable[Iterable[tuple[K, P]]]) -> None:
        """Combine staged partial results with the stored values, once for each txid. Raises BadRows for keys that the map refuses."""
        values = await self._open()
        if values.has_written(self.attempt):
            return
        pairs = list(chain.from_iterable(pieces))
        try:
            await self._update(dict(pairs))
        except ValueRefused as error:
            refused = await values.refused([key for key, _ in pairs], self._key_fields)
            if not refused:
                raise  # because of a value, so it depends on `combine`
            raise BadRows(error.message, rows=refused, hint=error.hint) from error

    async def published_txid(self) -> int:
        """Return the newest txid that has been written, 0 before the first."""
        return await (await self._open()).txid()

    async def forget(self) -> None:
        """Forget the txids of the map, which must be empty (EO-11)."""
        await (await self._open()).forget()

    async def _open(self) -> OpenValues[K, V]:
        opened: OpenValues[K, V] = await opened_for_all_batches(self, self.values, "map")
        return opened

    async def _update(self, partials: dict[K, P]) -> dict[K, V]:
        values, fields = await self._open(), self._key_fields
        return await values.update(self.attempt, partials, self.combine, kind=self.values_kind, key_fields=fields, deletes=self.deletes)

    @property
    def _key_fields(self) -> tuple[str, ...]:
        """Names of the fields of each key, as far as known."""
        names = self.keyed_by if type(self).key is ReducingCommitter.key else None
        return names or ()

    def rows(self, new: dict[K, V]) -> Sequence[Values]:
        """Return the rows to emit for the new values: by default (key, value) of each."""
        return list(new.items())


@dataclass(frozen=True)
class ReduceInto:
    """Bolt factory: a ReducingCommitter with one function for the tuples of a batch and for stored values.

    `key`: the field or fields of the key. The bolt must subscribe by a fields grouping on them. None: one value under the key "all", in one
    task. `value`: the field to reduce. None: each tuple counts 1. `initial`: start value of a key without a stored value.

    >>> from engine.transactional.values import SqliteValues
    >>> ReduceInto(SqliteValues("counts.db", "words"), key="word").create().keyed_by
    ('word',)
    """

    values: ValueMap
    key: str | tuple[str, ...] | None = None
    reduce: Callable[[Any, Any], Any] | None = None
    """An associative function. None: addition."""
    value: str | None = None
    initial: Any = None
    output_fields: OutputFields = None
    kind: KindChoice = "auto"

    def create(self) -> ReducingCommitter[Any, Any, Any]:
        """Return a new committer."""
        if self.value is None and self.reduce is not None:
            raise UsageError("ReduceInto(reduce=...) has nothing to reduce", hint='Name the field: value="amount".')
        given: object = self.reduce
        if given is not None and not (callable(given) and takes(given, 2)):
            hint = "Pass a function of two values, such as reduce=lambda stored, partial: stored + partial."
            raise UsageError(f"ReduceInto(reduce) is {given!r}, which cannot be called with two values", hint=hint)
        made: _Reducing = _Counting() if self.value is None else _Reducing()
        made.values = self.values
        made.keyed_by = (self.key,) if isinstance(self.key, str) else self.key
        if made.keyed_by:
            made.key = itemgetter(*made.keyed_by)  # type: ignore[method-assign, assignment]
        made.field = self.value
        made.reduce = self.reduce or add
        made.initial = self.initial
        made.kind = self.kind
        made.needs_transactional_spout = self.kind == "transactional"
        made.output_fields = self.output_fields
        return made


class _Reducing(ReducingCommitter[Any, Any, Any]):
    """Reduces a field."""

    reads_attempt: ClassVar[bool] = False
    output_fields: OutputFields = None
    field: Any
    initial: Any
    reduce: Callable[[Any, Any], Any]

    @property
    def reads(self) -> tuple[str, ...]:
        return (*super().reads, self.field)

    @property
    def combining(self) -> Reduction:
        """Combines tuples in other processes."""
        return Reduction(self.keyed_by or (), self.field, self.reduce)

    def merge(self, tup: Tuple) -> None:
        """Add a partial result of another process."""
        partials, key, partial = self.partials, self.key(tup), tup.values[-1]
        partials[key] = self.reduce(partials[key], partial) if key in partials else partial

    def execute(self, tup: Tuple) -> None:
        partials, key = self.partials, self.key(tup)
        partials[key] = self.reduce(partials[key], tup[self.field]) if key in partials else tup[self.field]

    def combine(self, stored: Any, partial: Any) -> Any:
        before = self.initial if stored is None else stored
        return partial if before is None else self.reduce(before, partial)


class _Counting(_Reducing):
    """Counts the tuples of each key."""

    @property
    def reads(self) -> tuple[str, ...]:
        return super(_Reducing, self).reads

    def prepare(self) -> None:
        self.partials = defaultdict(int)

    def execute(self, tup: Tuple) -> None:
        self.partials[self.key(tup)] += 1
