"""A bolt task's emits: children of the inputs that they are anchored to."""
from _native.dispatch cimport OutStream
from _native.task_core cimport TaskCore
from _native.tuples cimport Tuple

cdef class BoltDispatch(TaskCore):
    cpdef emit(self, object values, object anchors, object stream)
    cdef int emit_values(self, object given, OutStream stream, Tuple anchor, object anchors) except -1
    cdef int anchor_to(self, Tuple child, Tuple anchor) except -1
    cdef int check_anchor(self, Tuple anchor) except -1
    cdef int check_anchors(self, object anchors) except -1
