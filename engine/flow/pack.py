"""What a bolt gets of a pack: its records, as the only value of its tuple. The pack itself is compiled (`engine.kernel.Pack`)."""

from collections.abc import Iterator
from operator import length_hint
from typing import Any, TypeAlias

from engine.kernel import Pack

Entry: TypeAlias = tuple[Any, Any, float, int]
"""One record in the hands of the spout: its position, the record, when it was yielded, its bytes. A plain tuple: there is one for each."""


class Records(tuple[Any, ...]):
    """The records of one pack."""

    place: int | None = None
    """Which of them has failed; None where the bolt does not say."""

    def note_failed(self, left: Iterator[Any]) -> None:
        """Note that the bolt stands at the record that it took last from this iterator of theirs."""
        self.place = len(self) - length_hint(left) - 1


def records_of(pack: Pack) -> Records:
    """Return what goes into the tuple."""
    return Records([entry[1] for entry in pack.entries])
