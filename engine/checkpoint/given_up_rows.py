"""`GivenUpRows`: the rows of one source task that are given up. Each pass skips them, and the commit makes them dead letters (EO-6)."""

from collections import Counter
from collections.abc import Set

from engine.checkpoint.given_up import GivenUpRow
from engine.checkpoint.row_keys import RowKey


class GivenUpRows:
    """The rows that a task skips. Rows with the same key are copies, of which the first ones are skipped."""

    def __init__(self) -> None:
        self.copies: Counter[RowKey] = Counter()
        """Number of copies of each row that are given up."""
        self.total = 0
        """Number of all these copies."""
        self._skipped: Counter[RowKey] = Counter()
        """Those that have come by in this pass."""
        self._skipped_before: Counter[RowKey] = Counter()
        """Those of them that are before the barrier."""
        self._letters: list[GivenUpRow] = []
        """The skipped rows, in the order of the source."""
        self.before_barrier = 0
        """How many of them are before the barrier."""

    def __bool__(self) -> bool:
        return self.total > 0

    @property
    def keys(self) -> Set[RowKey]:
        """The rows of which copies are given up."""
        return self.copies.keys()

    @property
    def skipped(self) -> int:
        """Number of rows that have come by in this pass."""
        return len(self._letters)

    @property
    def have_come_by(self) -> bool:
        """True if all of them have come by in this pass."""
        return self.skipped == self.total

    def add(self, key: RowKey, copies: int = 1) -> None:
        """Give up more copies of a row."""
        if copies:
            self.copies[key] += copies
            self.total += copies

    def next_copy(self, key: RowKey) -> int | None:
        """Return the number of the copy that comes by. None: this one is not given up."""
        copy = self._skipped[key]
        return copy if copy < self.copies[key] else None

    def skip(self, key: RowKey, row: GivenUpRow) -> None:
        """Note that a copy has come by, and was skipped."""
        self._skipped[key] += 1
        self._letters.append(row)

    def letters(self) -> list[GivenUpRow]:
        """Return those of before the barrier."""
        return self._letters[: self.before_barrier]

    def uncommitted(self, *, commits: bool) -> Counter[RowKey]:
        """Return the copies that a new process must skip. commits: for the write of a commit, without those that it passes."""
        return self.copies - self._skipped_before if commits else self.copies

    # The passes

    def begin_pass(self) -> None:
        """Begin a pass, in which all of them come by again."""
        self._skipped.clear()
        self._skipped_before.clear()
        self._letters.clear()
        self.before_barrier = 0

    def note_barrier(self) -> None:
        """Note that the task sends a barrier now."""
        self._skipped_before = self._skipped.copy()
        self.before_barrier = self.skipped

    def note_committed(self) -> None:
        """Forget those of before the barrier."""
        self.copies -= self._skipped_before
        self._skipped -= self._skipped_before
        self.total -= self.before_barrier
        self._skipped_before.clear()
        del self._letters[: self.before_barrier]
        self.before_barrier = 0
