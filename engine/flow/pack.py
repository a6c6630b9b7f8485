"""What a bolt gets of a pack: its records, as the only value of its tuple. The pack itself is compiled (`engine.kernel.Pack`)."""

from typing import Any, TypeAlias

from engine.kernel import Pack

Entry: TypeAlias = tuple[Any, Any, float, int]
"""One record in the hands of the spout: its position, the record, when it was yielded, its bytes. A plain tuple: there is one for each."""


class Records(tuple[Any, ...]):
    """The records of one pack."""

    __slots__ = ()


def records_of(pack: Pack) -> Records:
    """Return what goes into the tuple."""
    return Records([entry[1] for entry in pack.entries])
