"""Marks: the watermarks of event time, which travel like rows (ET-1).

A mark is a control tuple with the values (watermark, is_active, before_end). It stops no sender and belongs to no tree. A task that takes a
mark puts it on its list of taken inputs. The mark leaves the list when it is the oldest one there, because then everything that the task
emits for earlier inputs is on its way. Meanwhile the task goes on with later inputs.
"""
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
cimport cython

from _native.bolt cimport BoltCore
from _native.task cimport HOLDS, MARKED, Outlet, OutStream, TaskCore, deliver
from _native.tuples cimport IS_MARK, SETTLED, WAITING, Tuple, add_taken, is_mark, new_tuple, remove_taken


def emit_mark(TaskCore core not None, str stream not None, tuple values not None):
    """Send a mark to every task of every subscriber of the stream of marks, behind all earlier emits of the task."""
    cdef OutStream out = core.stream_of(stream)
    cdef Outlet outlet
    cdef Py_ssize_t i
    for outlet in out.outlets:
        for i in range(outlet.tasks):
            deliver(core, outlet, i, new_tuple(values, out.origin, IS_MARK))


def keep_mark(BoltCore core not None, Tuple mark not None):
    """Put a mark on the list of taken inputs, because earlier ones are not settled."""
    add_taken(&core.taken_list, mark, core.now_ms)
    core.marks.append(mark)      # the list itself only borrows its tuples
    core.rare_paths |= MARKED


cpdef bint is_mark_due(BoltCore core) except -1:
    """Tell whether a mark is the oldest input now."""
    return bool(core.marks) and core.taken_list.oldest == <PyObject*>core.marks[0]


def take_due_marks(BoltCore core not None):
    """Remove the marks that are the oldest inputs now, and return them in order."""
    cdef Tuple mark
    cdef list due = []
    while is_mark_due(core):
        mark = <Tuple>core.marks.popleft()
        remove_taken(&core.taken_list, mark, SETTLED)
        due.append(mark)
    if not core.marks:
        core.rare_paths &= ~<uint32_t>MARKED
    return due


def requeue_marks(BoltCore core not None):
    """Let the marks wait again, before all inputs that have not been taken, because the instance ends and its inputs may run again."""
    cdef Tuple mark
    marks = list(core.marks)
    core.marks.clear()
    core.rare_paths &= ~<uint32_t>MARKED
    for mark in marks:
        remove_taken(&core.taken_list, mark, WAITING)
    put_back_marks(core, marks)


def put_back_marks(BoltCore core not None, list marks not None):
    """Let marks that have been taken wait again, before all other inputs."""
    if marks:
        core.held_tuples.released.extendleft(reversed(marks))
        core.rare_paths |= HOLDS
