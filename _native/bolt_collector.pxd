"""Collector of a bolt instance."""
from _native.bolt cimport BoltCore

cdef class BoltCollector:
    cdef BoltCore core
    cdef readonly bint retired       # the instance has ended: settles are ignored, emits are errors
    cdef object on_ready             # () -> awaitable
    cdef object on_error             # (error) -> None
