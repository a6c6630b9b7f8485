"""Records in the answers of Kafka brokers. Decodes batches of the format v2 without Python code for each record.

`codec` has the parts that need other libraries:

- `crc32c(view)` returns the checksum of a batch.
- `decompress(kind, data)` returns the records of a compressed batch.
- `old_batch(data)` returns an aiokafka batch of the formats v0 and v1, which has `validate_crc()` and iterates over its records.
- `corrupt(message)` returns the exception for damaged data.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
cimport cython

cdef enum:
    LENGTH_AT = 8                       # positions in a batch, the same in all formats
    LENGTH_END = 12
    EPOCH_AT = 12                       # only in the format v2
    MAGIC_AT = 16
    CRC_AT = 17                         # positions in a batch of the format v2
    ATTRIBUTES_AT = 21
    LAST_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_AT = 43
    COUNT_AT = 57
    HEADER_SIZE = 61
    LEAST_OLD_SIZE = 26
    CODEC_MASK = 0x07                   # bits of the attributes
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


cdef inline int64_t big_endian(const uint8_t* at, int size) noexcept:
    """Return a signed big-endian number."""
    cdef uint64_t found = 0
    cdef int i
    for i in range(size):
        found = found << 8 | at[i]
    if size < 8 and at[0] & 0x80:
        found |= ~<uint64_t>0 << (8 * size)
    return <int64_t>found


@cython.final
@cython.no_gc
cdef class Topic:
    """Name and id of a topic."""

    def __cinit__(self, str name, str id):
        self.name, self.id = name, id


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class FetchedRecord:
    """One record, with the attributes of aiokafka's `ConsumerRecord`. The garbage collector does not track it, because it has no cycles."""

    def __init__(self, str topic, int32_t partition, int64_t offset, int64_t timestamp, int32_t timestamp_type, bytes key, bytes value,
                 tuple headers=(), checksum=None, str topic_id=None):
        self.origin, self.partition, self.offset = Topic(topic, topic_id), partition, offset
        self.timestamp, self.timestamp_type, self.checksum = timestamp, timestamp_type, checksum
        self.key, self.value, self.headers = key, value, headers

    @property
    def topic(self):
        """Name of the topic."""
        return self.origin.name

    @property
    def topic_id(self):
        """Id of the topic, as Kafka's tools show it. None: the brokers have no ids."""
        return self.origin.id

    @property
    def serialized_key_size(self):
        """Number of bytes of the key, -1 without a key."""
        return -1 if self.key is None else len(self.key)

    @property
    def serialized_value_size(self):
        """Number of bytes of the value, -1 without a value."""
        return -1 if self.value is None else len(self.value)

    def fields(self):
        """Return all fields in the order of the constructor."""
        return (self.topic, self.partition, self.offset, self.timestamp, self.timestamp_type, self.key, self.value, self.headers,
                self.checksum, self.topic_id)

    def __reduce__(self):
        return FetchedRecord, self.fields()

    def __eq__(self, other):
        return isinstance(other, FetchedRecord) and self.fields() == (<FetchedRecord>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return (f"FetchedRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, timestamp={self.timestamp}, "
                f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})")


@cython.final
cdef class RecordReader:
    """Reads the records of one partition from the answer to a fetch, like aiokafka's `PartitionRecords`.

    aborted: pairs of a producer id and the first offset of an aborted transaction, ascending by offset. Skips records below
    `fetch_offset`, control batches and, with `read_committed`, aborted transactions. `next_fetch_offset` passes all of these.
    """

    def __init__(self, str topic, int32_t partition, bytes answer not None, int64_t fetch_offset, *, codec, aborted=(),
                 bint read_committed=False, bint checks_crcs=True, str topic_id=None):
        self.origin, self.partition, self.answer, self.codec = Topic(topic, topic_id), partition, answer, codec
        self.next_fetch_offset = fetch_offset
        self.aborted, self.aborted_producers = list(aborted), set()
        self.read_committed, self.checks_crcs = read_committed, checks_crcs

    def take(self, Py_ssize_t most):
        """Return up to `most` records. Sets `is_done` after the last one.

        An error sets `is_broken`. `next_fetch_offset` is then the lowest possible offset of the record that cannot be decoded. The
        records of this call before it are lost, so the caller has to fetch them again.
        """
        cdef list found = []
        cdef FetchedRecord record
        try:
            while PyList_GET_SIZE(found) < most and not self.is_broken:
                record = self.next_record() if self.body is not None else self.next_old_record() if self.old_records is not None else None
                if record is not None:
                    found.append(record)
                elif not self.open_batch():
                    self.is_done = True
                    break
        except BaseException:
            self.is_broken = True
            raise
        self.is_done = self.is_done or self.is_broken
        return found

    @property
    def after_broken(self):
        """The offset after the batch that cannot be decoded. A fetch from within the batch would fail again. None if it is unknown."""
        return self.after_batch if self.is_broken and self.after_batch > self.next_fetch_offset else None

    def __iter__(self):
        return self

    def __next__(self):
        for record in self.take(1):
            return record
        raise StopIteration

    cdef bint open_batch(self) except -1:
        """Open the next batch, or skip it. False if no whole batch is left."""
        cdef const uint8_t* begin = <const uint8_t*>PyBytes_AS_STRING(self.answer) + self.next_at
        cdef Py_ssize_t size, rest = PyBytes_GET_SIZE(self.answer) - self.next_at
        if rest < LENGTH_END:
            return False
        size = LENGTH_END + big_endian(begin + LENGTH_AT, 4)
        if size > rest:
            return False
        if size < LEAST_OLD_SIZE:
            raise self.codec.corrupt(f"Record size is less than the minimum record overhead ({LEAST_OLD_SIZE - LENGTH_END})")
        self.next_at += size
        if begin[MAGIC_AT] >= 2:
            self.open_current_format(begin, size)
        else:
            self.open_old_format(begin, size)
        return True

    cdef bint open_current_format(self, const uint8_t* begin, Py_ssize_t size) except -1:
        """Open a batch of the format v2. False if its records must be skipped."""
        cdef Py_ssize_t at = self.next_at - size
        cdef int64_t attributes
        cdef int64_t producer
        if size < HEADER_SIZE:
            raise self.codec.corrupt(f"Batch of {size} bytes is smaller than its header")
        self.base_offset = big_endian(begin, 8)
        self.after_batch = self.base_offset + big_endian(begin + LAST_DELTA_AT, 4) + 1
        if self.checks_crcs and self.codec.crc32c(memoryview(self.answer)[at + ATTRIBUTES_AT:at + size]) != <uint32_t>big_endian(begin + CRC_AT, 4):
            raise self.codec.corrupt(f"Invalid CRC - {self.origin.name}-{self.partition}")
        attributes = big_endian(begin + ATTRIBUTES_AT, 2)
        self.base_timestamp, self.max_timestamp = big_endian(begin + BASE_TIMESTAMP_AT, 8), big_endian(begin + MAX_TIMESTAMP_AT, 8)
        self.timestamp_type = 1 if attributes & LOG_APPEND_TIME else 0
        self.left = big_endian(begin + COUNT_AT, 4)
        self.body, self.cursor, self.end = self.answer, begin + HEADER_SIZE, begin + size
        producer = big_endian(begin + PRODUCER_AT, 8)
        if self.read_committed and self.is_aborted(producer, (attributes & TRANSACTIONAL) != 0, (attributes & CONTROL) != 0) \
                or attributes & CONTROL:
            self.body, self.next_fetch_offset = None, max(self.next_fetch_offset, self.after_batch)
            return False
        if attributes & CODEC_MASK:
            self.body = self.codec.decompress(attributes & CODEC_MASK, self.answer[at + HEADER_SIZE:at + size])
            self.cursor = <const uint8_t*>PyBytes_AS_STRING(<bytes?>self.body)
            self.end = self.cursor + PyBytes_GET_SIZE(self.body)
        return True

    cdef bint is_aborted(self, int64_t producer, bint transactional, bint control) except -1:
        """Note the markers of transactions up to this batch. True if the batch belongs to an aborted transaction.

        Compaction empties a control batch whose marker is no longer needed, and keeps the batch for its sequence number. As in Java's
        client, such a batch is no marker. aiokafka differs: it raises.
        """
        cdef FetchedRecord marker
        while self.aborted and self.aborted[0][1] <= self.base_offset:
            self.aborted_producers.add(self.aborted.pop(0)[0])
        if control and self.left > 0:
            marker = self.next_record()
            if marker is None or marker.key is None or len(marker.key) < 4:
                raise self.codec.corrupt("Control batch did not contain a marker")
            if marker.key[:4] == b"\0\0\0\0":       # version 0, abort
                self.aborted_producers.discard(producer)
        return transactional and producer in self.aborted_producers

    cdef int close_batch(self) except -1:
        if self.cursor != self.end:
            raise self.codec.corrupt(f"{self.end - self.cursor} unconsumed bytes after all records consumed")
        self.body, self.next_fetch_offset = None, max(self.next_fetch_offset, self.after_batch)
        return 0

    cdef FetchedRecord next_record(self):
        """Return the next record of the open batch. None at its end, which closes the batch."""
        cdef FetchedRecord made
        cdef const uint8_t* begin
        cdef int64_t length, offset, since
        while self.left > 0:
            length = self.varint()
            begin = self.cursor
            self.varint()                           # attributes, which are not used
            since = self.varint()
            offset = self.base_offset + self.varint()
            made = FetchedRecord.__new__(FetchedRecord)
            made.origin, made.partition, made.offset, made.timestamp_type = self.origin, self.partition, offset, self.timestamp_type
            made.timestamp = self.max_timestamp if self.timestamp_type else self.base_timestamp + since
            made.key = self.nullable_bytes()
            made.value = self.nullable_bytes()
            made.headers = self.read_headers()
            if self.cursor - begin != length:
                raise self.codec.corrupt(
                    f"Invalid record size: expected to read {length} bytes in record payload, but instead read {self.cursor - begin}"
                )
            self.left -= 1
            if offset >= self.next_fetch_offset:    # else the fetch began inside of this batch
                self.next_fetch_offset = offset + 1
                return made
        self.close_batch()
        return None

    cdef int64_t varint(self) except? -1:
        """Return the zigzag number at the cursor."""
        cdef uint64_t found = 0
        cdef int shift = 0
        cdef uint8_t byte
        while self.cursor < self.end and shift < 64:
            byte = self.cursor[0]
            self.cursor += 1
            found |= <uint64_t>(byte & 0x7F) << shift
            if not byte & 0x80:
                return <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
            shift += 7
        raise self.codec.corrupt("Found invalid record structure: a number without its end")

    cdef bytes nullable_bytes(self):
        cdef int64_t size = self.varint()
        if size < 0:
            return None
        if size > self.end - self.cursor:
            raise self.codec.corrupt("Found invalid record structure: a field beyond the end of its batch")
        found = PyBytes_FromStringAndSize(<const char*>self.cursor, size)
        self.cursor += size
        return found

    cdef tuple read_headers(self):
        cdef int64_t size, count = self.varint()
        if count == 0:
            return ()
        if count < 0:
            raise self.codec.corrupt(f"Found invalid number of record headers {count}")
        cdef list found = []
        while count > 0:
            size = self.varint()
            if size < 0:
                raise self.codec.corrupt(f"Invalid negative header key size {size}")
            if size > self.end - self.cursor:
                raise self.codec.corrupt("Found invalid record structure: a header beyond the end of its batch")
            name = PyUnicode_DecodeUTF8(<const char*>self.cursor, size, NULL)
            self.cursor += size
            found.append((name, self.nullable_bytes()))
            count -= 1
        return tuple(found)

    # Formats v0 and v1

    cdef int open_old_format(self, const uint8_t* begin, Py_ssize_t size) except -1:
        batch = self.codec.old_batch(PyBytes_FromStringAndSize(<const char*>begin, size))
        if self.checks_crcs and not batch.validate_crc():
            raise self.codec.corrupt(f"Invalid CRC - {self.origin.name}-{self.partition}")
        self.old_records, self.after_batch = iter(batch), batch.next_offset
        return 0

    cdef FetchedRecord next_old_record(self):
        """Return the next record of the open batch of an old format. None at its end."""
        for record in self.old_records:
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = record.offset + 1
                return FetchedRecord(self.origin.name, self.partition, record.offset, -1 if record.timestamp is None else record.timestamp,
                                     -1 if record.timestamp_type is None else record.timestamp_type, record.key, record.value,
                                     tuple(record.headers), record.checksum, self.origin.id)
        self.old_records, self.next_fetch_offset = None, max(self.next_fetch_offset, self.after_batch)
        return None


def leader_epochs(bytes answer not None):
    """Return the leader epochs of the first and of the last whole batch, and the offset after that last one. -1 is an unknown value."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(answer)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(answer)
    cdef const uint8_t* last = NULL
    cdef int64_t first = -1, size
    while end - at >= HEADER_SIZE and at[MAGIC_AT] >= 2:
        size = LENGTH_END + big_endian(at + LENGTH_AT, 4)
        if size < HEADER_SIZE or size > end - at:
            break
        if last == NULL:
            first = big_endian(at + EPOCH_AT, 4)
        last = at
        at += size
    if last == NULL:
        return -1, -1, -1
    return first, big_endian(last + EPOCH_AT, 4), big_endian(last, 8) + big_endian(last + LAST_DELTA_AT, 4) + 1
