"""What travels: several records in one tuple."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Entry: TypeAlias = tuple[Any, Any, float]
"""One record in the hands of the spout: its position, the record, and when it was yielded. A plain tuple: there is one for each."""


class Records(tuple[Any, ...]):
    """The records of one pack, as a bolt gets them: the only value of its tuple."""

    __slots__ = ()


class Pack:
    """Records of successive numbers, until all of them are done."""

    __slots__ = ("copies", "entries", "first", "is_done", "is_waiting", "tries")

    def __init__(self, first: int, entries: Sequence[Entry], tries: int = 0) -> None:
        self.first = first
        self.entries = entries
        self.tries = tries
        """How often it has failed."""
        self.copies = 0
        """Trees that are open for it: more than one where it was called back."""
        self.is_done = False
        self.is_waiting = False
        """To be sent again."""

    @property
    def last(self) -> int:
        """The number of its last record."""
        return self.first + len(self.entries) - 1

    @property
    def position(self) -> Any:
        """The position of its last record."""
        return self.entries[-1][0]

    def records(self) -> Records:
        """Return what goes into the tuple."""
        return Records([record for _, record, _ in self.entries])

    def singles(self) -> "Iterable[Pack]":
        """Return each record as a pack of its own, tried as often as this one."""
        return (Pack(self.first + index, (entry,), self.tries) for index, entry in enumerate(self.entries))

    def __repr__(self) -> str:
        return f"<Pack {self.first}-{self.last}>"
