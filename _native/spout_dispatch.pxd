"""A spout task's emits: the first tuples of trees, and the trees that wait for a verdict."""
from libc.stdint cimport uint64_t

from _native.dispatch cimport Outlet, OutStream
from _native.mailbox cimport SignalRing
from _native.root_table cimport RootTable
from _native.task_core cimport TaskCore

cdef class OpenTrees(RootTable):
    pass             # root -> (message id as an owned PyObject*, the bits of the time of its emit)

cdef class SpoutDispatch(TaskCore):
    cdef readonly OpenTrees open_trees
    cdef readonly SignalRing verdicts
    cdef list acked_now                       # message ids of what is acked without an acker (ACK-6)
    cdef bint reports_settle                  # receiving tasks report their settles (flow control)

    cpdef emit(self, object values, object message_id, object stream)
    cdef int emit_to(self, tuple values, object message_id, OutStream out, object direct_task) except -1
    cdef object chosen(self, Outlet outlet, tuple values, object direct_task)
    cdef uint64_t send(self, Outlet outlet, Py_ssize_t target, tuple values, OutStream out, uint64_t root) except? 0
    cdef uint64_t new_root(self) except? 0
    cdef int ack_soon(self, object message_id) except -1
    cdef int open_tree(self, uint64_t root, uint64_t edges, object message_id) except -1
