"""How far the rows of a task come behind its watermark."""

from collections.abc import Iterable
from typing import Final

_BITS: Final = 64


class Lateness:
    """Histograms of lateness in powers of two, since the start of the task.

    A burst in front of the watermark costs one addition. Only a burst with a row behind it is looked at row by row.

    >>> lateness = Lateness()
    >>> lateness.rows = 1000
    >>> lateness.note_behind([1000, 997, 995, 990], 1000)
    >>> lateness.note_late(5)
    >>> lateness.bound_that_keeps(0.999), lateness.bound_that_keeps(1.0), lateness.bound_that_orders(1.0)
    (0, 8, 16)
    """

    __slots__ = ("behind", "behind_by", "late", "late_by", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """All rows, the late ones included."""
        self.behind = 0
        """Rows behind the watermark: late ones, and those that still had an open window."""
        self.behind_by = [0] * (_BITS + 1)
        """These rows by the number of bits of how far they were behind, in microseconds."""
        self.late = 0
        self.late_by = [0] * (_BITS + 1)

    def note_behind(self, times: Iterable[int], watermark: int) -> None:
        """Count the rows of a burst that are behind the watermark."""
        for time in times:
            if time < watermark:
                self.behind += 1
                self.behind_by[min((watermark - time).bit_length(), _BITS)] += 1

    def note_late(self, late_by_us: int) -> None:
        """Count a row that was dropped."""
        self.late += 1
        self.late_by[min(late_by_us.bit_length(), _BITS)] += 1

    def bound_that_keeps(self, share: float) -> int:
        """Return how much longer the bound had to be so that this share of all rows was not late, in microseconds.

        It is rounded up to a power of two, and 0 if the share was kept.
        """
        return self._bound(share, self.late, self.late_by)

    def bound_that_orders(self, share: float) -> int:
        """Return how much longer the bound had to be so that this share of all rows came in front of the watermark.

        No window, however short, would then have been closed too early for them.
        """
        return self._bound(share, self.behind, self.behind_by)

    def _bound(self, share: float, number: int, buckets: list[int]) -> int:
        too_many = number - self.rows * (1 - share)
        if too_many <= 1e-9 * self.rows:
            return 0
        kept = 0
        for bits, its in enumerate(buckets):
            kept += its
            if its and kept >= too_many - 1e-9 * self.rows:
                return 1 << bits
        return 1 << _BITS
