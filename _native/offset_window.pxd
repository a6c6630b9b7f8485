"""The offsets of one partition between the commit and the next fetch (KS-2, KS-3)."""
from libc.stdint cimport int64_t


cdef enum EntryState:
    WAITING = 0                         # fetched, not emitted yet
    IN_FLIGHT = 1                       # emitted, no verdict yet
    HELD = 2                            # failed, not emitted again yet
    DONE = 3
    STALE = 4                           # in order: in flight, and to be emitted again behind an earlier one


cdef class Entry:
    cdef OffsetWindow window
    cdef readonly int64_t offset
    cdef readonly object record         # None once it is done
    cdef readonly int failures
    cdef EntryState state


cdef class OffsetWindow:                # not final: the base of OffsetManager
    cdef list entries                   # in the order of their offsets; None where one is done and passed
    cdef Py_ssize_t head                # the first that is not done
    cdef Py_ssize_t cursor              # the first that is not emitted
    cdef readonly int64_t position      # the next offset to fetch
    cdef readonly int64_t passed        # entries that the head has passed
    cdef readonly Py_ssize_t in_flight
    cdef readonly Py_ssize_t held
    cdef readonly int64_t skipped       # records that the acked set named
    cdef readonly bint closed
    cdef readonly bint in_order         # nothing is emitted past a failed entry (KS-11)
    cdef Py_ssize_t stale               # entries in the state of that name
    cdef Py_ssize_t room                # in order: entries that may be in flight
    cdef object on_quiet                # called when nothing is in flight any more; None: nobody waits
    cdef list skips                     # what the acked set names: start, stop, start, stop, ...
    cdef Py_ssize_t skips_seen

    cdef bint is_skipped(self, int64_t offset)
    cdef Entry take_next(self)
    cdef bint is_stopped(self)
    cdef Py_ssize_t place_of(self, Entry entry) except -1
    cdef int rewind(self, Entry entry) except -1
    cdef int settle(self, Entry entry) except -1
    cdef bint is_superseded(self, Entry entry) except -1
    cdef int pass_done(self) except -1
    cdef int leave_flight(self) except -1
