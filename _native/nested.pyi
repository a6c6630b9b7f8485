from typing import Any

def values_of_classes(rows: list[Any], index: int, classes: tuple[type, ...]) -> list[Any] | None:
    """Return the values. None if one is neither None nor exactly of one of these classes."""

def decimal_values(rows: list[Any], index: int, kind: type, scale: int) -> list[Any] | None:
    """Return the values. None if one is neither None nor exactly an int or of `kind`, which is Decimal, or begins beyond the scale.

    pyarrow reads such a decimal wrongly, or crashes, because it moves the digits by a table that ends after 38 of them.
    """

def python_values(rows: list[Any], index: int, generic: type, kinds: dict[type, str]) -> list[Any]:
    """Return the values, and those of NumPy as Python's own.

    generic: the base of NumPy's classes. kinds: the letter of the kind of each class that has such values.
    """

def list_parts(rows: list[Any], index: int) -> tuple[int, list[bytes | None], list[Any]] | None:
    """Return (number of nulls, buffers without the values, values) of lists and tuples. None if one is neither."""

def map_parts(rows: list[Any], index: int) -> tuple[int, list[bytes | None], list[Any], list[Any], bool] | None:
    """Return (number of nulls, buffers without the values, keys, values, whether a map may have a key twice) of maps.

    A map is a dict or a list of pairs. None if a value is neither.
    """

def struct_parts(
    rows: list[Any], index: int, names: tuple[str, ...], fillers: tuple[Any, ...]
) -> tuple[int, list[bytes | None], list[list[Any]]] | None:
    """Return (number of nulls, buffers without the values, values of each field) of structs. None if a value is not plain.

    A plain struct is a dict without other keys than the names, or a tuple of as many values. A name that a dict lacks has the value None.
    fillers: values of the fields of a struct that is None.
    """
