"""Which tasks an emit goes to: one outlet for each subscription of a stream."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t

from _native.tuples cimport Source

cdef enum Choice:
    SHUFFLE = 0
    BY_FIELDS = 1
    TO_ALL = 2
    TO_FIRST = 3
    DIRECT = 4
    PARTIAL_KEY = 5
    LEAST_LOADED = 6
    CUSTOM = 7

cdef class Outlet:
    cdef readonly Choice choice
    cdef readonly Py_ssize_t tasks
    cdef readonly list task_ids
    cdef list boxes                  # Mailbox of each target task
    cdef PyObject** box              # the same, borrowed
    cdef int32_t* ids
    cdef Py_ssize_t turn             # the target that the last shuffled tuple went to
    cdef Py_ssize_t first            # where its targets begin among all targets of the emitting task
    cdef Py_ssize_t* positions       # of the grouped fields
    cdef Py_ssize_t keys
    cdef readonly tuple names        # of the grouped fields
    cdef uint32_t key_groups
    cdef uint64_t* used              # partial key: tuples sent to each target
    cdef object chooser              # custom: values -> task ids
    cdef dict index_of               # task id -> target
    cdef readonly bint picks_one     # every tuple goes to exactly one target
    cdef readonly bint stops         # False: closes a cycle, never stops its emitter

    cdef Py_ssize_t one(self, tuple values) except -1
    cdef Py_ssize_t by_key(self, tuple values) except -1
    cdef Py_ssize_t least_loaded(self) noexcept
    cdef list several(self, tuple values)

cdef class OutStream:
    cdef Source origin
    cdef Py_ssize_t arity
    cdef readonly list outlets
    cdef Outlet only                 # the single outlet, where there is one and it picks one task
    cdef readonly bint direct

cdef class SentCounts:
    cdef uint64_t* count             # tuples sent to each target of each outlet
    cdef Py_ssize_t targets

cdef class Pulse:
    cdef Py_ssize_t behind           # bolts with more than a burst waiting that could run
