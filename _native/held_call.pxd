"""Emits and settles of one call of a bolt, which leave when the call returns."""
from libc.stdint cimport int32_t

from _native.bolt cimport BoltCore
from _native.task cimport Outlet, OutStream
from _native.tuples cimport Source, Tuple

cdef class HeldEmit:
    cdef tuple values
    cdef Tuple anchor                # the only anchor
    cdef tuple anchors               # several, else None
    cdef list targets                # (Outlet, index of the target, Source) of each delivery

cdef class HeldCall:
    cdef readonly BoltCore core
    cdef list steps                  # HeldEmit, or (Tuple, Failure) for a settle, with None for an ack
    cdef set settled                 # inputs that the call has settled
    cdef readonly bint has_returned  # its steps have left
    cdef readonly bint has_raised    # its steps are dropped

    cdef int check_open(self) except -1
    cdef int hold(self, object given, OutStream out, Tuple anchor, tuple anchors) except -1
    cdef int send_one(self, Outlet outlet, Py_ssize_t target, HeldEmit held, Source origin) except -1
    cdef HeldEmit held_emit(self, tuple values, Tuple anchor, tuple anchors)
    cdef int check(self, Tuple anchor, tuple anchors) except -1
    cdef int check_one(self, Tuple anchor) except -1
    cdef tuple collection(self, object anchors)
