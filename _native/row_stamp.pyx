"""What the core of a spout does to each row with an event time: it makes the row to emit, and notes its time (ET-1).

`RowStamp` belongs to one stream of a task, `SourceTimes` to the task. `engine.event_time` decides what the watermark is.
"""
from libc.stdint cimport int64_t, uint64_t
cimport cython

cdef int64_t LATEST = 0x7FFFFFFFFFFFFFFF
cdef int64_t EARLIEST = -LATEST - 1


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

    def restore(self, dict greatest not None):
        """Start anew with these times, because the source goes back."""
        self.last = None
        self.partitions = {partition: PartitionTime(partition, time) for partition, time in greatest.items()}


@cython.final
cdef class RowStamp:
    """Makes the rows of one stream, and notes their times.

    make: values -> the row to emit, or a list of such rows. per_unit: microseconds of one unit of an integer time.
    convert: any other time -> microseconds. It raises for what is no time, and gets the first time of all.
    """

    def __init__(self, SourceTimes times not None, Py_ssize_t time_at, convert, *, int64_t per_unit=0, make=None, partition_of=None):
        self.times, self.time_at, self.convert, self.per_unit = times, time_at, convert, per_unit
        self.make, self.partition_of = make, partition_of

    cdef object stamp(self, tuple values, object message_id):
        """Return the row to emit, or a list of rows. Raises the errors of `make`, of `convert` and of `partition_of`."""
        if self.make is None:
            self.note_row(values, message_id)
            return values
        made = self.make(values)
        if type(made) is tuple:
            self.note_row(<tuple>made, message_id)
        else:
            for row in <list?>made:
                self.note_row(<tuple?>row, message_id)
        return made

    cdef int note_row(self, tuple row, object message_id) except -1:
        cdef int64_t time
        value = row[self.time_at]
        if type(value) is int and self.per_unit != 0 and self.checked and -(1 << 41) < value < (1 << 41):
            time = <int64_t>value * self.per_unit      # up to 10**6 times 2**41, which is in the range of times
        else:
            time = self.convert(value)
            self.checked = True
        return self.times.note(None if self.partition_of is None else self.partition_of(message_id), time)

    def apply(self, tuple values not None, message_id=None):
        """Return what is emitted for these values, for tests."""
        return self.stamp(values, message_id)
