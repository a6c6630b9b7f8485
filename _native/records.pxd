"""Records in the answers of Kafka brokers. Decodes batches of the format v2."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t


cdef class Topic:
    cdef str name
    cdef str id                         # as Kafka's tools show it. None: the brokers have no ids


cdef class FetchedRecord:
    cdef Topic origin                   # shared by all records of an answer, so that a record stays small
    cdef readonly int32_t partition
    cdef readonly int32_t timestamp_type
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp     # milliseconds since the epoch
    cdef readonly bytes key             # None without one
    cdef readonly bytes value           # None for a tombstone
    cdef readonly tuple headers         # pairs of a name and bytes or None
    cdef readonly object checksum       # of a record of an old format, None in the format v2


cdef class RecordReader:
    cdef Topic origin
    cdef int32_t partition
    cdef bytes answer                   # the batches
    cdef Py_ssize_t next_at             # position of the next batch in `answer`
    cdef object codec                   # decompresses, checks, and reads old formats
    cdef bint checks_crcs, read_committed
    cdef list aborted                   # (producer id, first offset) of aborted transactions, ascending by offset
    cdef set aborted_producers          # whose transactions end with an abort marker that is not read yet
    cdef readonly int64_t next_fetch_offset
    cdef readonly bint is_broken        # a batch or a record cannot be decoded
    cdef readonly bint is_done          # all records were taken
    # the batch that is being read
    cdef object body                    # owner of the bytes at `cursor`. None: no batch is open
    cdef object old_records             # iterator of the records of an old format
    cdef const uint8_t* cursor
    cdef const uint8_t* end
    cdef int32_t left, timestamp_type   # number of records that were not taken
    cdef int64_t base_offset, base_timestamp, max_timestamp, after_batch

    cdef bint open_batch(self) except -1
    cdef bint open_current_format(self, const uint8_t* begin, Py_ssize_t size) except -1
    cdef int open_old_format(self, const uint8_t* begin, Py_ssize_t size) except -1
    cdef int close_batch(self) except -1
    cdef bint is_aborted(self, int64_t producer, bint transactional, bint control) except -1
    cdef FetchedRecord next_record(self)
    cdef FetchedRecord next_old_record(self)
    cdef int64_t varint(self) except? -1
    cdef bytes nullable_bytes(self)
    cdef tuple read_headers(self)
