"""Calling user code from C: a bound method is taken apart once, so that each call goes straight to its function."""
from types import MethodType

cimport cython


@cython.final
cdef class Method:
    """A callable: of a bound method its function and its owner, of anything else itself."""

    def __init__(self, function):
        self.bound = type(function) is MethodType
        self.function = function.__func__ if self.bound else function
        self.owner = function.__self__ if self.bound else None


def method_or_none(function):
    """A Method; None for None."""
    return None if function is None else Method(function)
