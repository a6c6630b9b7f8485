"""Stubs of `_native.named_tuples`."""

from typing import Any, TypeVar

T = TypeVar("T")

def named_tuples(cls: type[T], /, *columns: list[Any]) -> list[T]:
    """Return a tuple of this class for each row of the columns, which are lists of one length. Its constructor is not called.

    For a NamedTuple with as many fields as there are columns.
    """

def as_class(cls: type[T], rows: list[tuple[Any, ...]]) -> list[T]:
    """Return a tuple of this class with the values of each tuple. Its constructor is not called."""
