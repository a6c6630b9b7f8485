"""Takes lists, maps and structs of many rows apart, into Arrow's buffers and lists of the values in them.

Each function reads `rows[i][index]`, or `rows[i]` itself if the index is negative, as in `columns.pyx`. The caller converts the lists in turn.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_CheckExact
from cpython.number cimport PyNumber_Float, PyNumber_Index
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, int32_t

from _native.columns cimport _Validity, item_at

cdef extern from "Python.h":
    bint PyType_IsSubtype(type kind, type base)
    unsigned long PyType_GetFlags(type kind)
    unsigned long Py_TPFLAGS_HEAPTYPE


def values_of_classes(list rows not None, Py_ssize_t index, tuple classes not None):
    """Return the values. None if one is neither None nor exactly of one of these classes."""
    cdef Py_ssize_t i, count = len(rows)
    cdef list values = [None] * count
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if item is None:
            continue
        for each in classes:
            if type(item) is each:
                values[i] = item
                break
        else:
            return None
    return values


def decimal_values(list rows not None, Py_ssize_t index, type kind not None, Py_ssize_t scale):
    """Return the values. None if one is neither None nor exactly an int or of `kind`, which is Decimal, or begins beyond the scale.

    pyarrow reads such a decimal wrongly, or crashes, because it moves the digits by a table that ends after 38 of them.
    """
    cdef Py_ssize_t i, count = len(rows)
    cdef list values = [None] * count
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if type(item) is kind:
            if item.adjusted() < -scale:
                return None
        elif item is not None and not PyLong_CheckExact(item):
            return None
        values[i] = item
    return values


def python_values(list rows not None, Py_ssize_t index, type generic not None, dict kinds not None):
    """Return the values, and those of NumPy as Python's own.

    generic: the base of NumPy's classes. kinds: the letter of the kind of each class that has such values.
    """
    cdef Py_ssize_t i, count = len(rows)
    cdef list values = [None] * count
    cdef str kind
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if PyType_IsSubtype(type(item), generic):
            kind = kinds.get(type(item))
            if kind == "i" or kind == "u":
                item = PyNumber_Index(item)
            elif kind == "f":
                item = PyNumber_Float(item)
            elif kind is not None:
                item = item.item()
        values[i] = item
    return values


def list_parts(list rows not None, Py_ssize_t index):
    """Return (number of nulls, buffers without the values, values) of lists and tuples. None if one is neither."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    cdef int32_t* offsets = <int32_t*>PyBytes_AS_STRING(ends)
    cdef list values = []
    offsets[0] = 0
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if type(item) is list or type(item) is tuple:
            values.extend(item)
            if len(values) > INT32_MAX:
                return None
        elif item is None:
            validity.add_null(i)
        else:
            return None
        offsets[i + 1] = <int32_t>len(values)
    return validity.nulls, [validity.bits, ends], values


def map_parts(list rows not None, Py_ssize_t index):
    """Return (number of nulls, buffers without the values, keys, values, whether a map may have a key twice) of maps.

    A map is a dict or a list of pairs. None if a value is neither.
    """
    cdef Py_ssize_t i, position, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    cdef int32_t* offsets = <int32_t*>PyBytes_AS_STRING(ends)
    cdef list keys = [], values = []
    cdef PyObject* key
    cdef PyObject* value
    cdef bint may_repeat = False
    offsets[0] = 0
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if type(item) is dict:
            position = 0
            while PyDict_Next(item, &position, &key, &value):
                keys.append(<object>key)
                may_repeat = may_repeat or is_of_user(<object>key)
                values.append(<object>value)
        elif type(item) is list:
            for pair in <list>item:
                if type(pair) is not tuple or len(<tuple>pair) != 2:
                    return None
                keys.append((<tuple>pair)[0])
                may_repeat = may_repeat or is_of_user((<tuple>pair)[0])
                values.append((<tuple>pair)[1])
            may_repeat = may_repeat or has_repeats(keys, len(<list>item))
        elif item is None:
            validity.add_null(i)
        else:
            return None
        if len(keys) > INT32_MAX:
            return None
        offsets[i + 1] = <int32_t>len(keys)
    return validity.nulls, [validity.bits, ends], keys, values, may_repeat


cdef inline bint is_of_user(object key):
    """Tell whether a key is of a class made in Python, whose own code may say that it differs from an equal text or number."""
    return (PyType_GetFlags(type(key)) & Py_TPFLAGS_HEAPTYPE) != 0


cdef bint has_repeats(list keys, Py_ssize_t newest) except -1:
    """Tell whether the newest keys may be equal. Keys without a hash may be, or with a hash that raises."""
    try:
        return len(set(keys[len(keys) - newest:])) != newest
    except Exception:
        return True


def struct_parts(list rows not None, Py_ssize_t index, tuple names not None, tuple fillers not None):
    """Return (number of nulls, buffers without the values, values of each field) of structs. None if a value is not plain.

    A plain struct is a dict without other keys than the names, or a tuple of as many values. A name that a dict lacks has the value None.
    fillers: values of the fields of a struct that is None.
    """
    cdef Py_ssize_t i, field, found, width = len(names), count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef list columns = [[None] * count for _ in range(width)]
    cdef PyObject* value
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if type(item) is dict:
            try:
                found = 0
                for field in range(width):
                    value = PyDict_GetItemWithError(item, names[field])
                    if value is not NULL:
                        (<list>columns[field])[i] = <object>value
                        found += 1
            except Exception:       # a key with a comparison of its own
                return None
            if found != len(<dict>item):
                return None
        elif type(item) is tuple and len(<tuple>item) == width:
            for field in range(width):
                (<list>columns[field])[i] = (<tuple>item)[field]
        elif item is None:
            validity.add_null(i)
            for field in range(width):
                (<list>columns[field])[i] = fillers[field]
        else:
            return None
    return validity.nulls, [validity.bits], columns
