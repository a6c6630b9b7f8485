from typing import TypeAlias

_Buffers: TypeAlias = tuple[int, list[bytes | None]]

def integer_buffers(rows: list[tuple[object, ...]], index: int, byte_width: int) -> _Buffers | None:
    """Return the buffers of ints in 1, 2, 4 or 8 bytes."""

def boolean_buffers(rows: list[tuple[object, ...]], index: int) -> _Buffers | None:
    """Return the buffers of bools, one bit each."""

def date_buffers(rows: list[tuple[object, ...]], index: int) -> _Buffers | None:
    """Return the buffers of dates, as days since 1970 in 4 bytes."""

def double_buffers(rows: list[tuple[object, ...]], index: int) -> _Buffers | None:
    """Return the buffers of floats."""

def string_buffers(rows: list[tuple[object, ...]], index: int) -> _Buffers | None:
    """Return the buffers of texts, as UTF-8 with 32-bit offsets."""

def timestamp_buffers(rows: list[tuple[object, ...]], index: int) -> _Buffers | None:
    """Return the buffers of datetimes in UTC or without a zone, as microseconds since 1970."""
