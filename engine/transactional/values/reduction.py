"""Reduces tuples where they are emitted, so a committer in another process gets one row for each key."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from engine.api import Values
from engine.kernel import Source
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.combining import Combiner, CombiningFailed


@dataclass(frozen=True, slots=True)
class Reduction:
    """Reduces a field of all tuples with equal keys, or counts these tuples. A `Combining`."""

    keyed_by: tuple[str, ...]
    """The fields of the key. Empty: all tuples have the same key."""
    value: str | None
    """None: count the tuples."""
    reduce: Callable[[Any, Any], Any]

    def combiner(self, origin: Source, attempt: TransactionAttempt) -> Combiner:
        """Return an empty combiner."""
        names = tuple(origin.fields)[1:]
        key = KeyOfRow.of([names.index(name) for name in self.keyed_by])
        return _CountingCombiner(key) if self.value is None else _ReducingCombiner(key, names.index(self.value), self.reduce)


@dataclass(frozen=True, slots=True)
class KeyOfRow:
    """Takes the key from the values of a tuple."""

    take: Callable[[Values], Any]
    is_single: bool
    """True if the key is one value. Otherwise it is a tuple of values."""

    @classmethod
    def of(cls, positions: list[int]) -> "KeyOfRow":
        """Return the key of the values at these positions."""
        return cls(itemgetter(*positions) if positions else lambda values: (), len(positions) == 1)

    def rows(self, partials: Iterable[tuple[Any, Any]]) -> Iterator[Values]:
        """Yield the values of each key, with its partial result behind them."""
        return iter(partials) if self.is_single else ((*key, partial) for key, partial in partials)


class _CountingCombiner:
    def __init__(self, key: KeyOfRow) -> None:
        self._key = key
        self._counts: Counter[Any] = Counter()

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._counts.update(map(self._key.take, rows))
        except Exception as error:  # of a key, in its hash or comparison
            raise CombiningFailed(next((row for row in rows if not self._can_count(row)), None), error) from error

    def _can_count(self, row: Values) -> bool:
        try:
            self._counts.get(self._key.take(row))
        except Exception:  # noqa: BLE001 - of user code
            return False
        return True

    def complete_rows(self) -> Iterable[Values]:
        return ()

    def partial_rows(self) -> Iterator[Values]:
        return self._key.rows(self._counts.items())


class _ReducingCombiner:
    def __init__(self, key: KeyOfRow, value: int, reduce: Callable[[Any, Any], Any]) -> None:
        self._key = key
        self._value = value
        self._reduce = reduce
        self._partials: dict[Any, Any] = {}

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        key_of, position, reduce, partials = self._key.take, self._value, self._reduce, self._partials
        row: tuple[Any, ...] = ()
        try:
            for row in rows:
                key = key_of(row)
                partials[key] = reduce(partials[key], row[position]) if key in partials else row[position]
        except Exception as error:
            raise CombiningFailed(row, error) from error

    def complete_rows(self) -> Iterable[Values]:
        return ()

    def partial_rows(self) -> Iterator[Values]:
        return self._key.rows(self._partials.items())
