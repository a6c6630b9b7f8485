"""Bursts of tuples for one call, and a mark to take back the emits of a failed call."""
from libc.stdint cimport uint64_t

from _native.task cimport SentCounts, TaskCore

cdef class Burst:
    cdef list tuples                 # Tuples of one task, in order of arrival
    cdef object settler              # collector of the instance

    cdef list column(self, object name)

cdef class SentMark:
    cdef list boxes                  # Mailbox of each target task, each once
    cdef list outlets                # Outlet of each subscription
    cdef uint64_t* waiting           # tuples in each mailbox at the mark
    cdef uint64_t* sent              # tuples sent by each outlet
    cdef SentCounts counts           # copy of the core's counts, if it counts
    cdef uint64_t emitted

    cdef int set_at(self, TaskCore core) except -1
    cdef bint can_take_back(self, TaskCore core) noexcept
    cdef int take_back(self, TaskCore core) except -1
