"""Formats the lines of a file where the tuples are emitted, so that the committer only writes bytes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from engine.api import Tuple, Values
from engine.errors import FatalError
from engine.kernel import Source, make_tuple
from engine.safe_text import safe_repr
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.combining import Combiner, CombiningFailed

PART_BYTES: Final = 1 << 20
"""Lines that travel as one value."""


def formatted_line(line_of: Callable[[Tuple], str | bytes], tup: Tuple) -> bytes:
    """Return the line of a tuple. Raises FatalError if the user's function returns neither str nor bytes."""
    line: object = line_of(tup)
    if isinstance(line, str):
        return line.encode() + b"\n"
    if isinstance(line, bytes):
        return line
    raise FatalError(f"FileCommitter: format({safe_repr(tup)}) returned {safe_repr(line)}", hint="Return a str, which is a line, or bytes.")


@dataclass(frozen=True, slots=True)
class FormattedLines:
    """A `Combining` whose partial results are lines."""

    line_of: Callable[[Tuple], str | bytes]

    @property
    def keyed_by(self) -> tuple[str, ...]:
        """No key: the only task of the committer writes all lines."""
        return ()

    def combiner(self, origin: Source, attempt: TransactionAttempt) -> Combiner:
        """Return an empty combiner."""
        return _Lines(self.line_of, origin, attempt)


class _Lines:
    def __init__(self, line_of: Callable[[Tuple], str | bytes], origin: Source, attempt: TransactionAttempt) -> None:
        self._line_of = line_of
        self._origin = origin
        self._attempt = attempt
        self._parts: list[bytearray] = []

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        for row in rows:
            if not self._parts or len(self._parts[-1]) >= PART_BYTES:
                self._parts.append(bytearray())
            try:
                self._parts[-1] += formatted_line(self._line_of, make_tuple((self._attempt, *row), self._origin))
            except Exception as error:
                raise CombiningFailed(row, error) from error

    def complete_rows(self) -> Iterable[Values]:
        complete, self._parts = self._parts[:-1], self._parts[-1:]
        return [(bytes(part),) for part in complete]

    def partial_rows(self) -> Iterator[Values]:
        return ((bytes(part),) for part in self._parts)
