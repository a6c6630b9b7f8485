"""Converts one field of many rows to the buffers of an Arrow array.

Each function reads `rows[i][index]`, or `rows[i]` itself if the index is negative. It returns (number of nulls, buffers for
`pyarrow.Array.from_buffers`). It returns None if a value is neither None nor plain, which means that the type holds exactly this value, and
that no code of the value's class is needed to find out. The caller then makes the values plain, or explains the fault.
"""
from datetime import timezone
from sys import modules

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (PyDate_CheckExact, PyDateTime_CheckExact, PyDateTime_DATE_GET_HOUR, PyDateTime_DATE_GET_MICROSECOND, PyDateTime_DATE_GET_MINUTE,
                               PyDateTime_DATE_GET_SECOND, PyDateTime_GET_DAY, PyDateTime_GET_MONTH, PyDateTime_GET_YEAR,
                               datetime_tzinfo, import_datetime, timedelta_days, timedelta_microseconds, timedelta_seconds)
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.unicode cimport PyUnicode_Check
from libc.math cimport fabs
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t
from libc.string cimport memcpy, memset
cimport cython

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    const char* PyUnicode_AsUTF8AndSize(object value, Py_ssize_t* size) except NULL

import_datetime()
cdef object UTC = timezone.utc
cdef double FLOAT_ROUNDING = 2.0 ** -24     # the rounding of a float to 32 bits, relative to it, where no digits are lost
cdef int64_t DAY_SECS = 86_400
cdef int64_t FIRST_MICROSECOND = -62_135_596_800_000_000    # 0001-01-01, the first day that Python's datetime has
cdef int64_t LAST_MICROSECOND = 253_402_300_799_999_999     # the end of 9999-12-31


cdef inline bint is_int_within(object item, int64_t least, int64_t most, int64_t* value) except -1:
    """Read an int that is not a bool. A subclass, such as IntEnum, is read without its own code."""
    cdef int overflow = 0
    if not PyLong_CheckExact(item) and (not PyLong_Check(item) or item is True or item is False):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(item, &overflow)
    return not overflow and least <= value[0] <= most


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
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if not is_int_within(item, -most - 1, most, &value):
            if item is not None:
                return None
            value = 0
            validity.add_null(i)
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
    """Return the buffers of floats, and of ints that each float up to them holds."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(double))
    cdef double* to = <double*>PyBytes_AS_STRING(made)
    cdef int64_t number
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if PyFloat_Check(item):
            to[i] = PyFloat_AS_DOUBLE(item)
        elif is_int_within(item, -(<int64_t>1 << 53), <int64_t>1 << 53, &number):
            to[i] = <double>number
        elif item is None:
            to[i] = 0
            validity.add_null(i)
        else:
            return None
    return validity.nulls, [validity.bits, made]


def float_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of floats in the range of 32 bits, which keep the nearest number, and of ints that 32 bits hold exactly."""
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(float))
    cdef float* to = <float*>PyBytes_AS_STRING(made)
    cdef double value
    cdef int64_t number
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if PyFloat_Check(item):
            value = PyFloat_AS_DOUBLE(item)
            to[i] = <float>value
            if <double>to[i] != value and value == value and not fabs(<double>to[i] - value) <= fabs(value) * FLOAT_ROUNDING:
                return None
        elif is_int_within(item, -(<int64_t>1 << 24), <int64_t>1 << 24, &number):
            to[i] = <float>number
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
        item = <object>item_at(rows, i, index)
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
        item = <object>item_at(rows, i, index)
        if PyUnicode_Check(item):
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
        item = <object>item_at(rows, i, index)
        if item is not None:
            text = PyUnicode_AsUTF8AndSize(item, &size)
            memcpy(to + offsets[i], text, size)
    return validity.nulls, [validity.bits, ends, made]


def binary_buffers(list rows not None, Py_ssize_t index):
    """Return the buffers of bytes, with 32-bit offsets."""
    cdef Py_ssize_t i, total = 0, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t)), made
    cdef int32_t* offsets = <int32_t*>PyBytes_AS_STRING(ends)
    cdef char* to
    offsets[0] = 0
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if PyBytes_Check(item):
            total += PyBytes_GET_SIZE(item)
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
        item = <object>item_at(rows, i, index)
        if item is not None:
            memcpy(to + offsets[i], PyBytes_AS_STRING(item), PyBytes_GET_SIZE(item))
    return validity.nulls, [validity.bits, ends, made]


def timestamp_buffers(list rows not None, Py_ssize_t index, *, bint in_utc):
    """Return the buffers of datetimes as microseconds since 1970, and of ints of microseconds.

    A datetime has no zone. With `in_utc` it may also have a zone of Python's own classes, and be within the years 1 to 9999 in UTC.
    """
    cdef Py_ssize_t i, count = len(rows)
    cdef _Validity validity = _Validity(count)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))
    cdef int64_t* to = <int64_t*>PyBytes_AS_STRING(made)
    for i in range(count):
        item = <object>item_at(rows, i, index)
        if PyDateTime_CheckExact(item):
            zone = datetime_tzinfo(item)
            to[i] = microseconds(item)
            if zone is not None and zone is not UTC:
                if not is_of_python(zone):
                    return None
                to[i] -= offset_microseconds(item)
                if to[i] < FIRST_MICROSECOND or to[i] > LAST_MICROSECOND:
                    return None
            if zone is not None and not in_utc:
                return None
        elif is_int_within(item, FIRST_MICROSECOND, LAST_MICROSECOND, to + i):
            continue
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
        item = <object>item_at(rows, i, index)
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


cdef bint is_of_python(object zone) except -1:
    """Tell whether a zone is of one of Python's own classes."""
    if type(zone) is timezone:
        return True
    zoneinfo = modules.get("zoneinfo")      # a zone of it exists only if it was imported, which takes time
    return zoneinfo is not None and type(zone) is zoneinfo.ZoneInfo


cdef int64_t offset_microseconds(object at) except? -1:
    """Return the offset from UTC, of a zone of Python's own classes."""
    offset = at.utcoffset()
    return (timedelta_days(offset) * DAY_SECS + timedelta_seconds(offset)) * 1_000_000 + timedelta_microseconds(offset)


cdef int64_t days_before(int64_t year, int64_t month, int64_t day) noexcept:
    """Return the days from 1970-01-01 to a day of the years 1 to 9999.

    The year begins in March here, so that the leap day is its last day.
    """
    cdef int64_t of_year, months = month - 3 if month > 2 else month + 9
    if month <= 2:
        year -= 1
    of_year = (153 * months + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468
