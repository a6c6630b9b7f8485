"""What the core of a spout does to each row with an event time: it makes the row to emit, and notes its time."""
from libc.stdint cimport int64_t, uint64_t

cdef class PartitionTime:
    cdef readonly object partition
    cdef readonly int64_t greatest      # microseconds since 1970, of the rows that are not too far ahead
    cdef readonly uint64_t rows

cdef class SourceTimes:
    cdef readonly dict partitions       # partition -> PartitionTime
    cdef PartitionTime last             # that of the row before
    cdef public int64_t limit           # a later time is ahead: it does not move the watermark
    cdef readonly uint64_t ahead        # number of such rows
    cdef bint comes_again               # the row was noted before, and only its spout could say of which partition it is

    cdef int note(self, object partition, int64_t time) except -1

cdef class RowStamp:
    cdef SourceTimes times
    cdef Py_ssize_t time_at             # index of the time in the values, if `read` is None
    cdef type row_class                 # the row is a tuple of this class with the values; None: `read` makes it
    cdef object read                    # (values) -> the row of a flow, or a list of rows (`many`); None: the values are emitted as they are
    cdef bint many
    cdef object key_of                  # (row) -> key; None: the tuple has no key
    cdef object check_key               # (row, key) of a key that is no str, int or bytes: raises an error for what cannot be a key
    cdef object time_of                 # (row) -> time
    cdef Py_ssize_t row_key_at, row_time_at    # index of the key and of the time in a row that is a tuple; -1: the functions read them
    cdef int64_t per_unit               # microseconds of an integer time; 0: `convert` takes integers, too
    cdef object convert                 # any other time -> microseconds
    cdef object partition_of            # (message id) -> partition; None: the source has one
    cdef bint checked                   # the first time has been checked

    cdef object stamp(self, object values, object message_id)
    cdef object time_in(self, object row)
    cdef tuple timed(self, object row, object message_id)
    cdef int64_t note(self, object value, object message_id) except? -1
