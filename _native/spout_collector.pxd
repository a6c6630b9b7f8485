"""Collector of a spout instance."""
from _native.spout cimport SpoutCore

cdef class SpoutCollector:
    cdef SpoutCore core
    cdef readonly bint retired       # the instance has ended: emits are errors
    cdef bint diverts                # emits go to emit_rarely
    cdef readonly Py_ssize_t rows_emitted       # at once, by the last emit_many, also if it raised
    cdef object pending              # PendingRows of the task
    cdef object on_ready             # () -> awaitable
    cdef object on_error             # (error) -> None

    cdef int emit_rarely(self, object values, object message_id, object stream) except -1
    cdef int emit_later(self, object emit, object arguments) except -1
    cdef list listed(self, object given)
