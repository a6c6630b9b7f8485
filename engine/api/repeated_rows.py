"""`RepeatedRows` gives positions to a generator whose every call yields the same rows, for `@spout(..., repeatable=True)`."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from engine.api.fields import short_repr
from engine.errors import FatalError
from engine.kernel import stable_hash

Row: TypeAlias = tuple[object, ...]
RESET: Final = "To read from the first row again: python -m engine positions reset."


class NotRepeated(FatalError):
    """A generator with `repeatable=True` yields other rows than before, so its position means nothing."""


class RepeatedRows:
    """The rows of one instance: how many were emitted, those that a new generator must skip, and those that are not committed yet.

    A position is [number of emitted rows, digest of the last one, its text], or a number that a user has set.
    """

    def __init__(self, name: str) -> None:
        """name: of the function, for errors."""
        self._name = name
        self._count = 0
        """Number of rows behind which the spout is."""
        self._last: tuple[int | None, str] | None = None
        """Digest and text of the last of these rows, as the position has them. None: a position of a user does not tell."""
        self._last_row: Row | None = None
        """The last of these rows, if this instance has emitted it."""
        self.kept: list[Row] = []
        """Rows of after the last commit."""
        self._has_begun = False
        self.to_skip = 0
        """Number of rows that the generator must still pass."""
        self._target: list[Any] = []
        """Position behind these rows."""

    def position(self) -> list[Any] | None:
        """Return the position behind the last emitted row. None: before the first."""
        if self._count == 0:
            return None
        if self._last_row is not None:
            self._last, self._last_row = (row_digest(self._last_row), short_repr(self._last_row)), None
        return [self._count, *(self._last or (None, None))]

    def seek(self, position: Any) -> list[Row] | None:
        """Go to a position. Return the rows behind it that were emitted. None: the first generator must begin, and skip."""
        count, last = self._parts(position)
        left = self.kept[len(self.kept) - (self._count - count) :] if self._has_begun and count < self._count else []
        has_begun, self._has_begun = self._has_begun, True
        self._count, self._last, self._last_row, self.kept = count, last, None, []
        if has_begun:
            return left
        self.begin_again()
        return None

    def _parts(self, position: Any) -> tuple[int, tuple[int | None, str] | None]:
        if position is None:
            return 0, None
        if type(position) is int and position >= 0:
            return position, None
        if isinstance(position, (list, tuple)) and len(position) == 3 and type(position[0]) is int and position[0] >= 0:
            count, digest, text = position
            return count, None if text is None else (digest, str(text))
        hint = f"A position of a repeatable source is a number of rows. {RESET}"
        raise FatalError(f"spout function {self._name}(): {short_repr(position)} is no position of it", hint=hint)

    def begin_again(self) -> None:
        """Note that a new generator begins, which must pass all emitted rows."""
        self._target = self.position() or [0, None, None]
        self.to_skip = self._count

    def skip(self, rows: list[Row]) -> list[Row]:
        """Return the rows without those to skip. Raises NotRepeated if the last one of them is not the row of before."""
        if not self.to_skip:
            return rows
        skipped = min(self.to_skip, len(rows))
        self.to_skip -= skipped
        count, digest, text = self._target
        if skipped and not self.to_skip and digest not in (None, row_digest(last := rows[skipped - 1])):
            raise NotRepeated(
                f"spout function {self._name}() has repeatable=True, but row {count:,} was {text}, and is {short_repr(last)} now",
                hint=f"Let each call yield the same rows, or use positions=True. {RESET}",
            )
        return rows[skipped:]

    def ended_early(self) -> NotRepeated:
        """Return the error for a generator that ends before all rows to skip have come."""
        count, _, text = self._target
        was = "" if text is None else f", of which the last was {text}"
        return NotRepeated(
            f"spout function {self._name}() has repeatable=True, and has yielded {count:,} rows before{was}, but now it ends after "
            f"{count - self.to_skip:,}",
            hint=f"Let each call yield the same rows, or use positions=True. {RESET}",
        )

    def note_emitted(self, rows: list[Row], *, keeps: bool) -> None:
        """Note emitted rows. keeps: they are kept until their commit."""
        self._count += len(rows)
        self._last_row = rows[-1]
        if keeps:
            self.kept += rows

    def note_committed(self, position: Any) -> None:
        """Forget the rows of before a committed position."""
        kept_from = self._count - len(self.kept)
        del self.kept[: max(self._parts(position)[0] - kept_from, 0)]


def row_digest(row: Row) -> int:
    """Return a number that is the same in each process for equal rows. A value without a stable hash counts with its type only.

    >>> row_digest(("a", {"b": [1, 2.5]})) == row_digest(("a", {"b": [1, 2.5]}))
    True
    """
    return stable_hash(tuple(map(_hashed, row)))


def _hashed(value: object) -> int:
    if isinstance(value, Mapping):
        value = tuple((_hashed(key), _hashed(each)) for key, each in value.items())
    elif isinstance(value, (list, tuple)):
        value = tuple(map(_hashed, value))
    try:
        return stable_hash(value)
    except Exception:  # noqa: BLE001 - a type without a stable hash, or a `__stable_hash__` of user code that raises
        return stable_hash(f"{type(value).__module__}.{type(value).__qualname__}")
