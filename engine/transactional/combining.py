"""Contract of committers whose tuples can be combined where they are emitted, possibly in other processes.

A committer with an attribute `combining` offers this. Its method `merge(tup)` then takes tuples with the fields of the key, and a partial
result as the last value.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from engine.api import Values
from engine.kernel import Source
from engine.transactional.attempt import TransactionAttempt


class Combiner(Protocol):
    """The partial results of one emitting task in one batch."""

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        """Add tuples, given by their values without the attempt. Raises CombiningFailed."""

    def complete_rows(self) -> Iterable[Values]:
        """Return partial results that no later tuple changes, and forget them. Called after each `add`."""

    def partial_rows(self) -> Iterator[Values]:
        """Yield the values of the key and a partial result behind them."""


class Combining(Protocol):
    """Makes combiners. It is pickled for other processes."""

    @property
    def keyed_by(self) -> tuple[str, ...]:
        """The fields of the key. Empty: one task of the committer gets all partial results."""

    def combiner(self, origin: Source, attempt: TransactionAttempt) -> Combiner:
        """Return an empty combiner for tuples of this origin. The first field of the origin is the attempt."""


class CombiningFailed(Exception):
    """A tuple cannot be combined."""

    def __init__(self, row: Values | None, error: Exception) -> None:
        """row: None if unknown. error: of the user's function, or of a key without a hash."""
        super().__init__(row, error)
        self.row = row
        self.error = error
