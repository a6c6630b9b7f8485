"""Turns the numbers that users give into ints and floats of Python, at the door.

A number of another library keeps its habits otherwise: `numpy.uint8` wraps round at 256, and JSON cannot store `numpy.int64`. Whatever
says that it is an integer (`__index__`) becomes an int, and any other real number (`__float__`) becomes a float. So NumPy, PyTorch,
`Decimal` and `Fraction` work, and none of them is imported.
"""

import numbers
import operator


def plain_number(value: object) -> int | float | None:
    """Return a number as an int or a float, and None if it is no number. Texts and bools are none, also those of NumPy.

    >>> from fractions import Fraction
    >>> plain_number(7), plain_number(Fraction(1, 4)), plain_number("7"), plain_number(True)
    (7, 0.25, None, None)
    """
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, (str, bytes, bytearray)) or is_bool(value):
        return None
    integer = plain_integer(value)
    if integer is not None:
        return integer
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        return None  # NumPy would drop the imaginary part
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def plain_integer(value: object) -> int | None:
    """Return an integer as an int, and None if it is no integer. A bool is none, and neither is a float without a fraction.

    >>> plain_integer(7), plain_integer(7.0), plain_integer(True)
    (7, None, None)
    """
    if is_bool(value):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def is_bool(value: object) -> bool:
    """Tell whether a value is a bool of Python or of NumPy, which is no subclass of it."""
    return isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"))
