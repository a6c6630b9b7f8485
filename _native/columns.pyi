from typing import Any, TypeAlias

_Buffers: TypeAlias = tuple[int, list[bytes | None]]

def integer_buffers(rows: list[Any], index: int, byte_width: int) -> _Buffers | None:
    """Return the buffers of ints in 1, 2, 4 or 8 bytes."""

def boolean_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of bools, one bit each."""

def date_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of dates, as days since 1970 in 4 bytes."""

def double_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of floats, and of ints that each float up to them holds."""

def float_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of floats in the range of 32 bits, which keep the nearest number, and of ints that 32 bits hold exactly."""

def string_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of texts, as UTF-8 with 32-bit offsets."""

def binary_buffers(rows: list[Any], index: int) -> _Buffers | None:
    """Return the buffers of bytes, with 32-bit offsets."""

def timestamp_buffers(rows: list[Any], index: int, *, in_utc: bool) -> _Buffers | None:
    """Return the buffers of datetimes as microseconds since 1970, and of ints of microseconds.

    A datetime has no zone. With `in_utc` it may also have a zone of Python's own classes, and be within the years 1 to 9999 in UTC.
    """
