"""Converts one field of many rows to the buffers of an Arrow array, for common column types.

Each function reads `rows[i][index]`. It returns (number of nulls, buffers for `pyarrow.Array.from_buffers`). It returns None if a value
is neither None nor exactly of the type, or too large. The caller then uses pyarrow, which converts the value or explains the fault.
"""
from datetime import timezone

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.datetime cimport (PyDate_CheckExact, PyDateTime_CheckExact, PyDateTime_DATE_GET_HOUR, PyDateTime_DATE_GET_MICROSECOND, PyDateTime_DATE_GET_MINUTE,
                               PyDateTime_DATE_GET_SECOND, PyDateTime_GET_DAY, PyDateTime_GET_MONTH, PyDateTime_GET_YEAR, datetime_tzinfo,
                               import_datetime)
from cpython.float cimport PyFloat_AS_DOUBLE
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t
from libc.string cimport memcpy, memset
cimport cython

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    const char* PyUnicode_AsUTF8AndSize(object value, Py_ssize_t* size) except NULL

import_datetime()
cdef object UTC = timezone.utc
cdef int64_t DAY_SECS = 86_400


@cython.final
cdef class _Validity:
    def __cinit__(self, Py_ssize_t rows):
        self.rows = rows

    cdef int add_null(self, Py_ssize_t row) except -1:
        cdef unsigned char* bits
        cdef Py_ssize_t byte_count = (self.rows + 7) // 8
        if self.bits is None:
            self.bits = PyBytes_FromStringAndSize(NULL, byte_count)
            memset(PyBytes_AS_STRING(self.bits), 0xFF, byte_count)
        bits = <unsigned char*>PyBytes_AS_STRING(self.bits)
        bits[row >> 3] &= <unsigned char>~(1 << (row & 7))
        self.nulls += 1
        return 0


def integer_buffers(list rows not None, Py_ssize_t index, int byte_width):
    """Return the buffers of ints in 1, 2, 4 or 8 bytes."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * byte_width)
    cdef char* to = PyBytes_AS_STRING(made)
    cdef int64_t value, most = <int64_t>(((<unsigned long long>1) << (8 * byte_width - 1)) - 1)
    cdef int overflow = 0
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        value = 0
        if type(item) is int:
            value = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow or value > most or value < -most - 1:
                return None
        elif item is None:
            validity.add_null(i)
        else:
            return None
        if byte_width == 8:
            (<int64_t*>to)[i] = value
        elif byte_width == 4:
            (<int32_t*>to)[i] = <int32_t>value
        elif byte_width == 2:
            (<int16_t*>to)[i] = <int16_t>value
        else:
            (<int8_t*>to)[i] = <int8_t>value
    return validity.nulls, [validity.bits, made]


def double_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of floats."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(double))
    cdef double* to = <double*>PyBytes_AS_STRING(made)
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if type(item) is float:
            to[i] = PyFloat_AS_DOUBLE(item)
        elif item is None:
            to[i] = 0
            validity.add_null(i)
        else:
            return None
    return validity.nulls, [validity.bits, made]


def boolean_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of bools, one bit each."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef unsigned char* to = <unsigned char*>PyBytes_AS_STRING(made)
    memset(to, 0, (count + 7) // 8)
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if item is True:
            to[i >> 3] |= <unsigned char>(1 << (i & 7))
        elif item is None:
            validity.add_null(i)
        elif item is not False:
            return None
    return validity.nulls, [validity.bits, made]


def string_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of texts, as UTF-8 with 32-bit offsets."""
    cdef Py_ssize_t i, size = 0, total = 0, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t)), made
    cdef int32_t* offsets = <int32_t*>PyBytes_AS_STRING(ends)
    cdef char* to
    cdef const char* text
    offsets[0] = 0
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if type(item) is str:
            try:
                PyUnicode_AsUTF8AndSize(item, &size)
            except UnicodeEncodeError:     # a lone surrogate
                return None
            total += size
            if total > INT32_MAX:
                return None
        elif item is None:
            validity.add_null(i)
        else:
            return None
        offsets[i + 1] = <int32_t>total
    made = PyBytes_FromStringAndSize(NULL, total)
    to = PyBytes_AS_STRING(made)
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if item is not None:
            text = PyUnicode_AsUTF8AndSize(item, &size)
            memcpy(to + offsets[i], text, size)
    return validity.nulls, [validity.bits, ends, made]


def timestamp_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of datetimes in UTC or without a zone, as microseconds since 1970."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
    cdef int64_t* to = <int64_t*>PyBytes_AS_STRING(made)
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if PyDateTime_CheckExact(item):
            zone = datetime_tzinfo(item)
            if zone is not None and zone is not UTC:
                return None
            to[i] = microseconds(item)
        elif item is None:
            to[i] = 0
            validity.add_null(i)
        else:
            return None
    return validity.nulls, [validity.bits, made]


def date_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of dates, as days since 1970 in 4 bytes."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
    cdef int32_t* to = <int32_t*>PyBytes_AS_STRING(made)
    for i in range(count):
        item = (<tuple?>rows[i])[index]
        if PyDate_CheckExact(item):
            to[i] = <int32_t>days_before(PyDateTime_GET_YEAR(item), PyDateTime_GET_MONTH(item), PyDateTime_GET_DAY(item))
        elif item is None:
            to[i] = 0
            validity.add_null(i)
        else:
            return None
    return validity.nulls, [validity.bits, made]


cdef int64_t microseconds(object at) noexcept:
    """Return the microseconds since 1970, as if the time were in UTC."""
    cdef int64_t day = days_before(PyDateTime_GET_YEAR(at), PyDateTime_GET_MONTH(at), PyDateTime_GET_DAY(at))
    cdef int64_t secs = PyDateTime_DATE_GET_HOUR(at) * 3_600 + PyDateTime_DATE_GET_MINUTE(at) * 60 + PyDateTime_DATE_GET_SECOND(at)
    return (day * DAY_SECS + secs) * 1_000_000 + PyDateTime_DATE_GET_MICROSECOND(at)


cdef int64_t days_before(int64_t year, int64_t month, int64_t day) noexcept:
    """Return the days from 1970-01-01 to a day of the years 1 to 9999.

    The year begins in March here, so that the leap day is its last day.
    """
    cdef int64_t of_year, months = month - 3 if month > 2 else month + 9
    if month <= 2:
        year -= 1
    of_year = (153 * months + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468
