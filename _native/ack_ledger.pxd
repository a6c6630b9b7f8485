"""One slot a tree: the XOR of its unsettled edges, its spout task, the generation of its last progress."""
from libc.stdint cimport int32_t, uint64_t

from _native.root_table cimport RootSlot, RootTable

cdef enum Verdict:
    OPEN = 0      # the tree lives on
    ACKED = 1
    FAILED = 2
    DROPPED = 3   # forgotten without a verdict: nobody waits for it

cdef class AckLedger(RootTable):
    cdef readonly bint from_progress     # acks refresh (False: only init and reset do)
    cdef readonly bint timeouts          # False: only what has no init, or a flag OWN_CLOCK, expires
    cdef readonly unsigned int generation
    cdef Py_ssize_t cursor               # next slot of the sweep, going down; -1 none is under way
    cdef bint wrapping                   # the sweep looks once more at what moved up across the table's end
    cdef int32_t task                    # the spout task of the last verdict

    cdef Verdict init(self, uint64_t root, uint64_t value, int32_t task) except *
    cdef Verdict ack(self, uint64_t root, uint64_t value) except *
    cdef Verdict fail(self, uint64_t root) except *
    cdef void reset(self, uint64_t root) noexcept
    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int start_sweep(self) except -1
    cdef uint64_t next_expired(self, Py_ssize_t* budget) noexcept
    cdef Py_ssize_t drop_task(self, int32_t task) except -1
