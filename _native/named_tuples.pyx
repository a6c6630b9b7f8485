"""Makes many instances of a NamedTuple at once, because a call of its constructor costs more than all other work for a row."""
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM


def named_tuples(type cls not None, *columns):
    """Return a tuple of this class for each row of the columns, which are lists of one length. Its constructor is not called."""
    cdef Py_ssize_t count = len(columns[0]), width = len(columns), row, place
    cdef list made = PyList_New(count)
    cdef list column
    check_class(cls)
    for column in columns:
        if PyList_GET_SIZE(column) != count:
            raise ValueError(f"a column has {len(column)} values, and the first one {count}")
    for row in range(count):
        values = PyType_GenericAlloc(cls, width)
        for place in range(width):
            value = <object>PyList_GET_ITEM(<list>PyTuple_GET_ITEM(columns, place), row)
            Py_INCREF(value)
            PyTuple_SET_ITEM(values, place, value)
        Py_INCREF(values)
        PyList_SET_ITEM(made, row, values)
    return made


def as_class(type cls not None, list rows not None):
    """Return a tuple of this class with the values of each tuple. Its constructor is not called."""
    cdef Py_ssize_t count = PyList_GET_SIZE(rows), row
    cdef list made = PyList_New(count)
    cdef object given
    check_class(cls)
    for row in range(count):
        given = <object>PyList_GET_ITEM(rows, row)
        if not PyTuple_Check(given):
            raise TypeError(f"a row is {given!r}, which is no tuple")
        values = tuple_as(cls, given)
        Py_INCREF(values)
        PyList_SET_ITEM(made, row, values)
    return made


cdef int check_class(type cls) except -1:
    if not issubclass(cls, tuple):
        raise TypeError(f"{cls.__name__} is no class of tuples")
    return 0


cdef object tuple_as(type cls, object given):
    """Return a tuple of a checked class with the values of a tuple."""
    cdef Py_ssize_t width = PyTuple_GET_SIZE(given), place
    cdef object values = PyType_GenericAlloc(cls, width)
    for place in range(width):
        value = <object>PyTuple_GET_ITEM(given, place)
        Py_INCREF(value)
        PyTuple_SET_ITEM(values, place, value)
    return values
