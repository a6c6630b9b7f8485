"""Converts one field of many rows to the buffers of an Arrow array, for common column types."""


cdef class _Validity:                   # which values are None
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef bytes bits                     # one bit for each row; allocated for the first None

    cdef int add_null(self, Py_ssize_t row) except -1
