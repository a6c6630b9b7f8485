"""How late the late rows of a task are."""

from typing import Final

_BITS: Final = 64


class Lateness:
    """Histogram of lateness in powers of two, since the start of the task. Rows in time cost one addition for each burst.

    >>> lateness = Lateness()
    >>> lateness.rows = 1000
    >>> for late_by_us in (3, 5, 900_000):
    ...     lateness.note(late_by_us)
    >>> lateness.bound_that_keeps(0.999), lateness.bound_that_keeps(1.0), lateness.bound_that_keeps(0.99)
    (8, 1048576, 0)
    """

    __slots__ = ("buckets", "late", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """All rows, the late ones included."""
        self.late = 0
        self.buckets = [0] * (_BITS + 1)
        """Late rows by the number of bits of how late they were, in microseconds."""

    def note(self, late_by_us: int) -> None:
        """Count a late row."""
        self.late += 1
        self.buckets[min(late_by_us.bit_length(), _BITS)] += 1

    def bound_that_keeps(self, share: float) -> int:
        """Return how much longer the bound had to be to keep this share of all rows, in microseconds.

        It is rounded up to a power of two, and 0 if the share was kept.
        """
        too_many = self.late - self.rows * (1 - share)
        if too_many <= 1e-9 * self.rows:
            return 0
        kept = 0
        for bits, number in enumerate(self.buckets):
            kept += number
            if number and kept >= too_many - 1e-9 * self.rows:
                return 1 << bits
        return 1 << _BITS
