"""Records of a Kafka spout. Tracks the offsets of each partition from fetch to commit, and emits records (KS-2, KS-3).

Each fetched record is an entry, and the message id of its tuple. Entries are in the order of their offsets: first those that are done or
in flight, then those that wait to be emitted. An ack is one store, and advances the head past all done entries.

With `in_order`, a failed entry stops its partition. When it is taken again, all emitted entries after it are emitted again, even if they
were acked. So a done entry keeps its record until the head passes it.
"""
from asyncio import CancelledError

from libc.stdint cimport int64_t
cimport cython

from _native.records cimport FetchedRecord
from _native.spout_collector cimport SpoutCollector

cdef str DEFAULT = "default"

cdef enum:
    MOST_PASSED = 4096                  # number of passed entries that stay in the list before their slots are freed
    ANY_NUMBER = 0x7FFFFFFF
    TURN = 64                           # records that one partition emits before the next one gets its turn
    MOST_SKIPS = 64                     # records that one poll of the spout may skip before others get their turn


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Entry:
    """One record from its fetch until it is done. It is the message id of the record's tuple.

    The garbage collector does not track entries. A partition and its entries refer to each other until an entry is passed, or the
    partition is closed.
    """

    @property
    def is_done(self):
        """True if the record was acked, given up or skipped."""
        return self.state == DONE

    @property
    def is_lost(self):
        """True if its partition was given up, so another task decides about the record."""
        return self.partition.closed

    @property
    def manager(self):
        """The offsets of its partition."""
        return self.partition

    def __repr__(self):
        if self.record is None:
            return f"<Entry at offset {self.offset}>"
        return f"{self.record.topic}[{self.record.partition}]@{self.offset}"


cdef class PartitionOffsets:
    """The entries of one partition. Base of `OffsetManager`, which has the methods that run once per commit.

    `start`: the first offset to fetch. `skips`: flat ascending list of start, stop, start, stop… of offsets that are done already.
    `in_order`: an entry is emitted only if no earlier entry waits for a retry.
    """

    def __cinit__(self, *args, **kwargs):
        self.entries = []
        self.room = ANY_NUMBER

    def __init__(self, int64_t start, skips=(), *, bint in_order=False):
        self.position = start
        self.skips = list(skips)
        self.in_order = in_order

    def feed(self, records):
        """Add fetched records in the order of their offsets, and return their number. Records below `position` are already known."""
        cdef Entry entry
        cdef int64_t offset
        cdef Py_ssize_t before = len(self.entries)
        cdef Py_ssize_t taken
        if self.closed:
            return 0
        for record in records:
            offset = (<FetchedRecord>record).offset if type(record) is FetchedRecord else record.offset
            if offset < self.position:
                continue
            entry = Entry.__new__(Entry)
            entry.partition, entry.offset = self, offset
            if self.skips_seen < len(self.skips) and self.is_skipped(offset):
                entry.state = DONE
                self.skipped += 1
            else:
                entry.record = record
            self.entries.append(entry)
            self.position = offset + 1
        taken = len(self.entries) - before
        if self.head == before:
            self.pass_done()            # may free slots
        return taken

    def reach(self, int64_t position):
        """Advance `position`, because offsets below the new one do not exist, or must not be read."""
        if position > self.position:
            self.position = position

    cdef bint is_skipped(self, int64_t offset):
        while self.skips_seen < len(self.skips) and offset >= <int64_t>self.skips[self.skips_seen + 1]:
            self.skips_seen += 2
        return self.skips_seen < len(self.skips) and offset >= <int64_t>self.skips[self.skips_seen]

    def take(self):
        """Return the next entry to emit, and count it as in flight. None if there is none."""
        return self.take_next()

    cdef Entry take_next(self):
        cdef Entry entry
        if self.in_order and self.is_stopped():
            return None
        while self.cursor < len(self.entries):
            entry = self.entries[self.cursor]
            self.cursor += 1
            if entry.state == WAITING:
                entry.state = IN_FLIGHT
                self.in_flight += 1
                return entry
        return None

    cdef bint is_stopped(self):
        """Tell whether the next entry has to wait for an earlier one. Only for `in_order`."""
        return self.held > 0 or self.stale > 0 or self.in_flight >= self.room

    @property
    def stopped(self):
        """True if the next entry has to wait for an earlier one."""
        return self.in_order and self.is_stopped()

    def take_again(self, Entry entry not None):
        """Count a failed entry as in flight once more.

        False if its partition was given up. With `in_order` also False if `take` will return the entry.
        """
        if self.closed or entry.state != HELD:
            return False
        self.held -= 1
        if self.in_order:
            self.rewind(entry)
            entry.state = WAITING
            return False
        entry.state = IN_FLIGHT
        self.in_flight += 1
        return True

    cdef int rewind(self, Entry entry) except -1:
        """Emit this entry and all later entries again. Entries in flight must get their verdict first."""
        cdef Entry later
        cdef Py_ssize_t at
        cdef Py_ssize_t index = self.index_of(entry)
        for at in range(index + 1, self.cursor):
            later = self.entries[at]
            if later.state == IN_FLIGHT:
                later.state = STALE
                self.stale += 1
            elif later.state == DONE and later.record is not None:  # an entry without a record was given up
                later.state = WAITING
        self.cursor = min(self.cursor, index)
        return 0

    cdef Py_ssize_t index_of(self, Entry entry) except -1:
        """Return the index of an entry that the head has not passed."""
        cdef Py_ssize_t low = self.head
        cdef Py_ssize_t high = len(self.entries)
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) // 2
            if (<Entry>self.entries[middle]).offset < entry.offset:
                low = middle + 1
            else:
                high = middle
        return low

    def fail(self, Entry entry not None):
        """Hold an entry whose tuple failed, with its record. False if the entry is not in flight."""
        if self.closed or (entry.state != IN_FLIGHT and entry.state != STALE):
            return False
        if entry.state == STALE:
            self.stale -= 1
        self.room = 1
        entry.state = HELD
        entry.failures += 1
        self.held += 1
        self.leave_flight()
        return True

    cdef int settle_entry(self, Entry entry) except -1:
        if self.closed or entry.state == DONE:
            return 0
        if self.in_order and self.is_superseded(entry):
            return 0
        if entry.state == HELD:
            self.held -= 1
        was_in_flight = entry.state == IN_FLIGHT
        entry.state = DONE
        if not self.in_order or not was_in_flight:
            entry.record = None
        if self.head < len(self.entries) and self.entries[self.head] is entry:
            self.pass_done()
        if was_in_flight:
            self.leave_flight()
        return 0

    cdef bint is_superseded(self, Entry entry) except -1:
        """Note an ack with `in_order`. True if the ack does not count, because the entry is emitted again after an earlier one."""
        if entry.state == STALE:
            self.stale -= 1
            entry.state = WAITING
            self.leave_flight()
            return True
        if entry.state == IN_FLIGHT and self.held == 0 and self.room < ANY_NUMBER:
            self.room += 1                  # `room` is 1 after a failure, and grows with each ack
        return entry.state == WAITING

    cdef int pass_done(self) except -1:
        """Advance the head past all done entries."""
        cdef Py_ssize_t count = len(self.entries)
        while self.head < count and (<Entry>self.entries[self.head]).state == DONE:
            if self.in_order:
                (<Entry>self.entries[self.head]).record = None
            self.entries[self.head] = None
            self.head += 1
            self.passed += 1
        if self.cursor < self.head:
            self.cursor = self.head
        if self.head >= MOST_PASSED and self.head * 2 >= count:
            del self.entries[:self.head]
            self.cursor -= self.head
            self.head = 0
        return 0

    cdef int leave_flight(self) except -1:
        self.in_flight -= 1
        if self.in_flight == 0 and self.on_quiet is not None:
            self.on_quiet()
        return 0

    def when_quiet(self, on_quiet):
        """Call `on_quiet()` when the last entry in flight has its verdict. None cancels the request."""
        self.on_quiet = on_quiet

    def close(self):
        """Give the partition up. Later verdicts have no effect, and the records are released."""
        self.closed = True
        self.entries, self.skips = [], []
        self.head = self.cursor = self.in_flight = self.held = self.stale = self.skips_seen = 0
        if self.on_quiet is not None:
            self.on_quiet()

    @property
    def committable(self):
        """Offset that may be committed. All records below it are done, or never existed."""
        return (<Entry>self.entries[self.head]).offset if self.head < len(self.entries) else self.position

    @property
    def waiting(self):
        """Number of entries that wait to be emitted."""
        return len(self.entries) - self.cursor

    @property
    def unpassed(self):
        """Number of entries that the head has not passed. These are open entries, and done entries behind an open one."""
        return len(self.entries) - self.head

    def acked_runs(self):
        """Return the done ranges above `committable`, as a flat ascending list: start, stop, start, stop…

        Offsets between two done entries count as done. So do offsets of the acked set that are not fetched yet.
        """
        cdef list runs = []
        cdef Entry entry
        cdef Py_ssize_t at
        cdef bint in_run = False
        cdef int64_t start, stop = 0
        for at in range(self.head, len(self.entries)):
            entry = self.entries[at]
            if entry.state == DONE:
                if not in_run:
                    runs.append(entry.offset)
                    in_run = True
                stop = entry.offset + 1
            elif in_run:
                runs.append(stop)
                in_run = False
        for at in range(self.skips_seen, len(self.skips), 2):
            if <int64_t>self.skips[at + 1] <= self.position:
                continue
            start = max(<int64_t>self.skips[at], self.position)
            if in_run and start > self.position:
                runs.append(stop)
                in_run = False
            if not in_run:
                runs.append(start)
            in_run, stop = True, self.skips[at + 1]
        if in_run:
            runs.append(stop)
        return runs


def mark_done(Entry entry not None):
    """Mark an entry as done, because it was acked or given up, or emitted without tracking."""
    entry.partition.settle_entry(entry)


def mark_all_done(list entries):
    """Mark these entries as done, because their trees were acked."""
    cdef Entry entry
    for entry in entries:
        entry.partition.settle_entry(entry)


cdef class RoundRobin:
    """The partitions of a task, which emit in turn. Base of `Partitions`."""

    def __cinit__(self, *args, **kwargs):
        self.partitions = []

    def set_turns(self, partitions):
        """Take turns among these partitions from now on."""
        self.partitions, self.current = list(partitions), None
        self.next_turn = self.left = 0

    def take(self):
        """Return the next entry to emit, or None. A turn is up to TURN entries of one partition."""
        return self.take_next()

    def on_low(self, notify, *, Py_ssize_t below):
        """Call `notify()` once, when fewer than `below` records wait. Checked whenever the turn passes to another partition."""
        self.notify_low, self.low = notify, below

    @property
    def waiting(self):
        """Number of records that wait and may be emitted."""
        return self.count_waiting()

    cdef Py_ssize_t count_waiting(self) except -1:
        cdef PartitionOffsets partition
        cdef Py_ssize_t waiting = 0
        for partition in self.partitions:
            if not (partition.in_order and partition.is_stopped()):  # its waiting records must not delay other partitions
                waiting += len(partition.entries) - partition.cursor
        return waiting

    cdef Entry take_next(self):
        cdef Entry entry
        cdef Py_ssize_t at
        if self.suspended:
            return None
        if self.left > 0:
            entry = self.current.take_next()
            if entry is not None:
                self.left -= 1
                return entry
        self.check_waiting()
        for at in range(len(self.partitions)):
            self.current = self.partitions[self.next_turn]
            self.next_turn = (self.next_turn + 1) % len(self.partitions)
            entry = self.current.take_next()
            if entry is not None:
                self.left = TURN - 1
                return entry
        self.left = 0
        self.check_waiting()       # waiting entries may already be done
        return None

    cdef int check_waiting(self) except -1:
        if self.notify_low is not None and self.count_waiting() < self.low:
            notify, self.notify_low = self.notify_low, None
            notify()
        return 0


@cython.final
cdef class RecordFeed:
    """Emits the records of a Kafka spout. The spout uses its `next_tuples` directly.

    `translate(record)` returns values, a `to_stream` (stream, values), or None. `translate=None`: the values are `RECORD_FIELDS`.

    Methods of `spout`:
    - `due()` returns a failed entry that is due, or None.
    - `unreadable(entry, error, values)` handles a record that cannot be translated or emitted.
    - `partition_at(place)` returns the partition of a place that this task does not read.
    - `rest()` is called if nothing can be emitted, `wake()` if a poll ends early.
    """

    def __init__(self, RoundRobin partitions, *, translate, type to_stream, bint tracked, spout):
        self.partitions, self.translate, self.to_stream = partitions, translate, to_stream
        self.tracked, self.spout = tracked, spout

    def emit_by(self, collector):
        """Emit with this collector. None: the spout has ended."""
        self.emit = None if collector is None else collector.emit
        self.emitter = collector if isinstance(collector, SpoutCollector) else None

    def let_engine_track_rows(self):
        """Emit with (topic, partition, offset) as message id. A record is then done when it is emitted."""
        self.tracked, self.by_place = False, True

    def partition_of(self, message_id):
        """Return the partition of a row by its message id. None: that of the record that is being emitted.

        A record without a message id is never retried, so it belongs to the partition whose turn it is.
        """
        cdef PartitionOffsets offsets = self.partitions.current
        if type(message_id) is Entry:
            return (<Entry>message_id).partition.partition
        if message_id is None:
            return None if offsets is None else offsets.partition
        place = message_id[:2]
        if offsets is not None and offsets.partition == place:
            return offsets.partition
        for offsets in self.partitions.partitions:
            if offsets.partition == place:
                return offsets.partition
        return self.spout.partition_at(message_id)

    def next_tuples(self, Py_ssize_t limit):
        """Emit up to `limit` records: failed records that are due, and the next records."""
        cdef Entry entry
        cdef Py_ssize_t emitted = 0
        cdef int skipped = 0
        while self.emit is not None and emitted < limit:
            entry = self.spout.due() if self.has_retries else None
            if entry is None:
                entry = self.partitions.take_next()
                if entry is None:
                    if emitted == 0:
                        self.spout.rest()
                    return
            if self.emit_entry(entry):
                emitted += 1
            else:
                skipped += 1
                if skipped == MOST_SKIPS:
                    self.spout.wake()
                    return

    cdef bint emit_entry(self, Entry entry) except -1:
        """Emit the tuple of a record. False if the record is skipped, or cannot be read."""
        values = None
        try:
            values = self.translate(entry.record) if self.translate is not None else whole_record(entry.record)
            if values is None:
                entry.partition.settle_entry(entry)
                return False
            message_id = entry if self.tracked else place_of(entry.record) if self.by_place else None
            if type(values) is self.to_stream:
                self.emit(values[1], message_id, values[0])
            elif self.emitter is not None and not self.emitter.diverts:
                self.emitter.core.emit(values, message_id, DEFAULT)
            else:
                self.emit(values, message_id)
        except (Exception, CancelledError, GeneratorExit) as error:
            self.spout.unreadable(entry, error, values)
            return False
        if not self.tracked:
            entry.partition.settle_entry(entry)
        return True


cdef inline tuple place_of(record):
    """Return the topic, partition and offset of a record."""
    cdef FetchedRecord fetched
    if type(record) is FetchedRecord:
        fetched = record
        return fetched.origin.name, fetched.partition, fetched.offset
    return record.topic, record.partition, record.offset


cdef inline tuple whole_record(record):
    """Return the values of the default translator."""
    cdef FetchedRecord fetched
    if type(record) is FetchedRecord:
        fetched = record
        return fetched.origin.name, fetched.partition, fetched.offset, fetched.key, fetched.value
    return record.topic, record.partition, record.offset, record.key, record.value
