"""What the core of a spout does to each row with an event time: it makes the row to emit, and notes its time (ET-1).

`RowStamp` belongs to one stream of a task, `SourceTimes` to the task. `engine.event_time` decides what the watermark is.
"""
from operator import itemgetter as _itemgetter

from cpython.bytes cimport PyBytes_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint64_t
cimport cython

from _native.named_tuples cimport check_class, tuple_as

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

cdef type itemgetter = _itemgetter

cdef int64_t LATEST = 0x7FFFFFFFFFFFFFFF
cdef int64_t EARLIEST = -LATEST - 1
cdef int64_t MOST_UNITS = <int64_t>1 << 41


@cython.final
cdef class PartitionTime:
    """The greatest time of a partition, and the number of its rows."""

    def __init__(self, partition, int64_t greatest=EARLIEST):
        self.partition, self.greatest = partition, greatest


@cython.final
cdef class SourceTimes:
    """The times of one task of a spout, by partition."""

    def __init__(self):
        self.partitions = {}
        self.limit = LATEST

    cdef int note(self, object partition, int64_t time) except -1:
        cdef PartitionTime at = self.last
        if at is None or at.partition is not partition:
            at = self.partitions.get(partition)
            if at is None:
                at = self.partitions[partition] = PartitionTime(partition)
            self.last = at
        at.rows += 1
        if time > at.greatest:
            if time > self.limit:
                self.ahead += 1
            else:
                at.greatest = time
        return 0

    def greatest(self):
        """Return the greatest time of each partition."""
        return {partition: (<PartitionTime>at).greatest for partition, at in self.partitions.items()}

    def forget(self):
        """Start anew, because the source goes back."""
        self.last = None
        self.partitions = {}


@cython.final
cdef class RowStamp:
    """Makes the rows of one stream, and notes their times.

    A row of a plain topology is emitted as it is, and has its time at an index. The tuple of a flow's row is (row, time) or (row, key, time),
    with the time in microseconds. per_unit: microseconds of one unit of an integer time. convert: any other time -> microseconds. It raises for
    what is no time, and gets all times up to the first one that is not 0.
    """

    def __init__(self, SourceTimes times not None, convert, *, int64_t per_unit=0, partition_of=None, Py_ssize_t time_at=0, tuple parts=None):
        """parts: how the row of a flow is made (`engine.event_time.RowParts`). None: the row of a plain topology."""
        self.times, self.convert, self.per_unit, self.partition_of, self.time_at = times, convert, per_unit, partition_of, time_at
        self.row_key_at = self.row_time_at = -1
        if parts is not None:
            self.read, self.many, self.key_of, self.check_key, self.time_of, self.row_class = parts
        if self.row_class is not None:
            check_class(self.row_class)
            if (<object>self.row_class).__getitem__ is tuple.__getitem__:
                self.row_key_at, self.row_time_at = index_of(self.key_of), index_of(self.time_of)

    cdef object stamp(self, object values, object message_id):
        """Return the tuple to emit, or a list of tuples. Raises the errors of the callables. values: a tuple, or an instance of `row_class`."""
        if self.row_class is not None:
            return self.timed(values if type(values) is self.row_class else tuple_as(self.row_class, values), message_id)
        if self.read is None:
            self.note(values[self.time_at], message_id)
            return values
        if not self.many:
            return self.timed(self.read(values), message_id)
        return [self.timed(row, message_id) for row in self.read(values)]

    cdef tuple timed(self, object row, object message_id):
        if self.key_of is None:
            return (row, self.note(self.time_in(row), message_id))
        if 0 <= self.row_key_at < PyTuple_GET_SIZE(row):
            key = <object>PyTuple_GET_ITEM(row, self.row_key_at)
        else:
            key = self.key_of(row)
        if not (PyUnicode_CheckExact(key) or PyLong_CheckExact(key) or PyBytes_CheckExact(key)) and self.check_key is not None:
            self.check_key(row, key)
        return (row, key, self.note(self.time_in(row), message_id))

    cdef inline object time_in(self, object row):
        """Return the time of a row, as the row has it."""
        if 0 <= self.row_time_at < PyTuple_GET_SIZE(row):
            return <object>PyTuple_GET_ITEM(row, self.row_time_at)
        return self.time_of(row)

    cdef int64_t note(self, object value, object message_id) except? -1:
        """Note a time, and return it in microseconds."""
        cdef int64_t time = MOST_UNITS
        cdef int overflow = 0
        if PyLong_CheckExact(value) and self.per_unit != 0 and self.checked:
            time = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and -MOST_UNITS < time < MOST_UNITS:
            time *= self.per_unit      # up to 10**6 times 2**41, which is in the range of times
        else:
            time = self.convert(value)
            self.checked = self.checked or time != 0
        if not self.times.comes_again:
            self.times.note(None if self.partition_of is None else self.partition_of(message_id), time)
        return time

    def apply(self, tuple values not None, message_id=None):
        """Return what is emitted for these values, for tests."""
        return self.stamp(values, message_id)


def span_of(list times not None):
    """Return the least and the greatest of some times, in microseconds."""
    cdef int64_t least = LATEST, greatest = EARLIEST, time
    for each in times:
        time = each
        if time < least:
            least = time
        if time > greatest:
            greatest = time
    return least, greatest


cdef Py_ssize_t index_of(object getter) except -2:
    """Return the index of the item that a function reads. -1: it does something else."""
    if type(getter) is not itemgetter:
        return -1
    items = getter.__reduce__()[1]
    return items[0] if len(items) == 1 and type(items[0]) is int and items[0] >= 0 else -1
