"""The checksum of a stored block: CRC-32 over where the block belongs and its bytes, so that a block in another's place is damage, too.

A block with a checksum begins with a byte that neither MessagePack nor a pickle begins with. Blocks of versions without checksums are
read as they are, in a store that such a version has written.
"""

from typing import Final
from zlib import crc32

MARK: Final = b"\xc1"
"""MessagePack never uses this byte; a pickle begins with 0x80."""
RESIDUE: Final = 0x2144DF1C
"""The CRC-32 of anything that ends with its own CRC-32, whatever it starts from."""
_SUM_BYTES: Final = 4


class DamagedBlock(ValueError):
    """A block is not what was written; the text says how that is known."""


def sum_of(*place: object) -> int:
    """Return the checksum of the place where a block belongs: the start of the checksum over its bytes."""
    return crc32(repr(place).encode())


def sealed(block: bytes, start: int) -> bytes:
    """Return a block with its mark before it and its checksum behind it, from the sum of its place.

    >>> opened(sealed(b"abc", sum_of("count", 7)), sum_of("count", 7))
    b'abc'
    """
    marked = MARK + block
    return marked + crc32(marked, start).to_bytes(_SUM_BYTES, "little")


def opened(stored: object, start: int, *, bare: bool = False) -> bytes:
    """Return a block without its checksum. `bare`: it may be of a version that wrote none. Raises DamagedBlock."""
    if type(stored) is not bytes:
        raise DamagedBlock(f"it is of type {type(stored).__name__}, not bytes")
    if stored[:1] != MARK:
        if bare:
            return stored
        raise DamagedBlock("it has no checksum")
    if crc32(stored, start) != RESIDUE:
        raise DamagedBlock("its checksum does not match")
    return stored[1:-_SUM_BYTES]
