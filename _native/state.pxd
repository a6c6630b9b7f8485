"""The layers of a task's state, which a bolt reads and writes for every tuple (CP-6)."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_XDECREF
from libc.stdint cimport uint32_t


cdef class Layers:                      # not final, because it is the base of LayeredState
    cdef public dict _changes
    cdef public tuple _older            # all layers except the changes, newest first
    cdef object _deleted                # value of a deleted key in a layer
    cdef readonly bint guarding         # a call runs, so note each change for undo_call (SV-2)
    cdef object call_var, call          # a context variable, and its value in code of the call; None: no other code can run meanwhile
    cdef PyObject** notes               # pairs of owned references: a key, its value in _changes before (NULL: none)
    cdef Py_ssize_t noted, room         # pairs in use, pairs allocated
    cdef Layers root                    # of a namespace: the state that has its notes; None: this is the state
    cdef public bint _holds_all         # a key in no layer is in no store either
    cdef public bint _is_masked         # a layer drops the namespace, so that older layers and rows do not count
    cdef uint32_t key_groups, first_group, end_group    # a plain key in first_group..end_group - 1 is the task's; 0: only the slow path knows
    cdef public bint _is_changed        # of a namespace: it has changed since the last PREPARE, so the state knows it

    cdef object value_of(self, object key, object default)
    cdef int set_value(self, object key, object value) except -1
    cdef int add_value(self, object key, object amount) except -1
    cdef bint owns(self, object key)
    cdef PyObject* in_older(self, object key) except? NULL
    cdef int note_in_root(self, object key, PyObject* before) except -1
    cdef int note_value(self, object key, PyObject* before) except -1
    cdef int grow_notes(self) except -1
    cdef int drop_notes(self) except -1


cdef inline bint is_foreign(Layers state) except -1:
    """Tell whether the running code is not part of the guarded call, but runs while the call is awaited."""
    return state.guarding and state.call_var is not None and state.call_var.get() is not state.call


cdef inline int keep_changes(Layers state) except -1:
    """Apply the changes of a returned call. Most calls have one change, so this case is inlined."""
    if state.noted != 1:
        return state.drop_notes() if state.noted else 0
    state.noted = 0
    cdef PyObject* before = state.notes[1]
    Py_DECREF(<object>state.notes[0])
    Py_XDECREF(before)
    return 0


cdef class LayerWalk:
    cdef dict layer
    cdef Py_ssize_t position, entries    # of the next entry; entries of the layer

    cdef int check(self) except -1
