"""The layers of a state, as its bolt looks into them for every tuple (CP-6)."""
from cpython.object cimport PyObject


cdef class Layers:                      # not final: the base of LayeredState
    cdef public dict _changes
    cdef public tuple _older            # all layers but the changes, newest first
    cdef object _deleted                # what stands in a layer for a key that is not there

    cdef PyObject* in_older(self, object key) except? NULL
