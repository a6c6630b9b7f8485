"""The age of open trees (ACK-8)."""
from libc.stdint cimport int32_t, uint64_t

from _native.tables cimport RootTable

cdef enum:
    # extra = task << 32 | flags << 8 | generation
    INIT_CAME = 1 << 8
    FAIL_CAME = 1 << 9
    HAS_OWN_CLOCK = 1 << 10
    HAD_EFFECT = 1 << 11
    GENERATION = 0xFF

cdef class AgingTable(RootTable):
    cdef readonly bint timeouts          # False: only trees without an init can expire
    cdef readonly unsigned int generation    # count of rotations
    cdef Py_ssize_t cursor               # next slot of the sweep, in descending order; -1: no sweep is active
    cdef bint wrapping                   # the sweep visits again the entries that moved up across the table's end
    cdef int32_t task                    # the spout task of the last verdict

    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int start_sweep(self) except -1
    cdef uint64_t next_expired(self, Py_ssize_t* budget) noexcept
    cdef Py_ssize_t drop_task(self, int32_t task) except -1
