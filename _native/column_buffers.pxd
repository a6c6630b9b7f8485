"""One field of many rows as the buffers of an Arrow array: for the types that most columns are made of."""


cdef class _Validity:
    """Which values are None: a bit for each row, made when the first one is found."""
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef bytes bits

    cdef int add_null(self, Py_ssize_t row) except -1
