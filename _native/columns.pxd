"""Converts one field of many rows to the buffers of an Arrow array, for common column types."""
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object values, Py_ssize_t index)
    Py_ssize_t PyTuple_GET_SIZE(PyObject* values)
    PyObject* PyTuple_GET_ITEM(PyObject* values, Py_ssize_t index)


cdef inline PyObject* item_at(list rows, Py_ssize_t row, Py_ssize_t index) except NULL:
    """Return a value, borrowed from its row. `row` is within the list, which has one owner, so nobody changes it meanwhile."""
    cdef PyObject* found = PyList_GET_ITEM(rows, row)
    if index < 0:
        return found
    if not PyTuple_Check(<object>found):
        raise TypeError("a row is a tuple")
    if index >= PyTuple_GET_SIZE(found):
        raise IndexError("a row has too few values")
    return PyTuple_GET_ITEM(found, index)


cdef class _Validity:                   # which values are None
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef bytes bits                     # one bit for each row; allocated for the first None

    cdef int add_null(self, Py_ssize_t row) except -1
