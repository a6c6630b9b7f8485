"""What a bolt task keeps back for its executor: tuples of held sources, and acks that wait for a commit."""
from libc.stdint cimport int32_t, uint64_t

from _native.mailbox cimport SignalRing
from _native.task_core cimport TaskCore
from _native.tuples cimport Tuple

cdef class Aside:
    cdef dict held                   # source task -> list of tuples put aside
    cdef object released             # deque: put aside before, next in line
    cdef object gated                # deque: what came while the gate is closed, of all sources; None while it is open

    cdef bint puts_aside(self, Tuple tup) except -1

cdef class KeptAcks:
    cdef TaskCore core
    cdef SignalRing deferred         # (root, value) of acks since the last prepare
    cdef SignalRing prepared         # those that wait for a commit
    cdef readonly uint64_t released  # roots whose acks were sent, since the task began

    cdef Py_ssize_t count_deferred(self) noexcept
    cdef int put_before(self, Py_ssize_t count, Py_ssize_t newest) noexcept
    cdef int take_back(self, Py_ssize_t count, object reason) except -1
    cdef Py_ssize_t drain(self, SignalRing ring, Py_ssize_t limit, object reason) except -1
