"""The offsets of one partition between the commit and the next fetch (KS-2, KS-3).

Each record that was fetched is an entry, and the message id of its tuple. The entries stand in the order of their offsets: first those that
are done or in flight, then those that wait to be emitted. An ack is one store, and moves the head over all that is done.

In order, a failed entry stops its window. When it is taken again, all that was emitted behind it is emitted again, acked or not; so a done
entry keeps its record until the head passes it.
"""
from libc.stdint cimport int64_t
cimport cython

cdef enum:
    MOST_PASSED = 4096                  # passed entries that stay in the list before their places are given back
    ANY_NUMBER = 0x7FFFFFFF


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Entry:
    """One record between its fetch and its end; the message id of its tuple.

    The garbage collector does not look at it: a window and its entries lead to each other until it passes them, or is closed.
    """

    @property
    def is_done(self):
        """True when it was acked, given up or skipped."""
        return self.state == DONE

    @property
    def is_lost(self):
        """True when its partition was given up: what becomes of it is not ours to say."""
        return self.window.closed

    @property
    def manager(self):
        """The window that it stands in."""
        return self.window

    def __repr__(self):
        return f"<Entry at offset {self.offset}>"


cdef class OffsetWindow:
    """The entries of one partition; base of `OffsetManager`, which adds what is asked once a commit.

    `start`: the first offset that will be fetched. `skips`: flat ascending list of start, stop, start, stop… of offsets that are done already.
    `in_order`: an entry is emitted only when none before it waits for another try.
    """

    def __cinit__(self, *args, **kwargs):
        self.entries = []
        self.room = ANY_NUMBER

    def __init__(self, int64_t start, skips=(), *, bint in_order=False):
        self.position = start
        self.skips = list(skips)
        self.in_order = in_order

    def feed(self, records):
        """Take fetched records in, in the order of their offsets; return how many. What stands below `position` is known already."""
        cdef Entry entry
        cdef int64_t offset
        cdef Py_ssize_t before = len(self.entries)
        cdef Py_ssize_t taken
        if self.closed:
            return 0
        for record in records:
            offset = record.offset
            if offset < self.position:
                continue
            entry = Entry.__new__(Entry)
            entry.window, entry.offset = self, offset
            if self.skips_seen < len(self.skips) and self.is_skipped(offset):
                entry.state = DONE
                self.skipped += 1
            else:
                entry.record = record
            self.entries.append(entry)
            self.position = offset + 1
        taken = len(self.entries) - before
        if self.head == before:
            self.pass_done()            # may give places back
        return taken

    def reach(self, int64_t position):
        """Note that there is nothing below this offset which was not fed: it never existed, or is not to be read."""
        if position > self.position:
            self.position = position

    cdef bint is_skipped(self, int64_t offset):
        while self.skips_seen < len(self.skips) and offset >= <int64_t>self.skips[self.skips_seen + 1]:
            self.skips_seen += 2
        return self.skips_seen < len(self.skips) and offset >= <int64_t>self.skips[self.skips_seen]

    def take(self):
        """Return the next entry to emit, which is in flight from now on; None where there is none."""
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
        """In order: something before the next entry is not clear yet."""
        return self.held > 0 or self.stale > 0 or self.in_flight >= self.room

    @property
    def stopped(self):
        """True where the next entry has to wait for an earlier one."""
        return self.in_order and self.is_stopped()

    def take_again(self, Entry entry not None):
        """Have a failed entry be in flight once more; False where its partition was given up, or, in order, where `take` will return it."""
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
        """Have everything from this entry on be emitted again; what is in flight there has to come back first."""
        cdef Entry later
        cdef Py_ssize_t at
        cdef Py_ssize_t place = self.place_of(entry)
        for at in range(place + 1, self.cursor):
            later = self.entries[at]
            if later.state == IN_FLIGHT:
                later.state = STALE
                self.stale += 1
            elif later.state == DONE and later.record is not None:  # else it was given up
                later.state = WAITING
        self.cursor = min(self.cursor, place)
        return 0

    cdef Py_ssize_t place_of(self, Entry entry) except -1:
        """Where an entry stands that the head has not passed."""
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
        """Hold an entry whose tuple failed, record and all; False where there is nothing to hold."""
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

    cdef int settle(self, Entry entry) except -1:
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
        """In order: note an ack; True where it says nothing, since the entry is emitted again behind an earlier one."""
        if entry.state == STALE:
            self.stale -= 1
            entry.state = WAITING
            self.leave_flight()
            return True
        if entry.state == IN_FLIGHT and self.held == 0 and self.room < ANY_NUMBER:
            self.room += 1                  # after a failure one, then two, four, and so on
        return entry.state == WAITING

    cdef int pass_done(self) except -1:
        """Move the head over all that is done."""
        cdef Py_ssize_t end = len(self.entries)
        while self.head < end and (<Entry>self.entries[self.head]).state == DONE:
            if self.in_order:
                (<Entry>self.entries[self.head]).record = None
            self.entries[self.head] = None
            self.head += 1
            self.passed += 1
        if self.cursor < self.head:
            self.cursor = self.head
        if self.head >= MOST_PASSED and self.head * 2 >= end:
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
        """Have `on_quiet()` called when the last entry in flight has its verdict; None: nobody waits any more."""
        self.on_quiet = on_quiet

    def close(self):
        """Give the partition up: later verdicts have no effect, and the records are let go of."""
        self.closed = True
        self.entries, self.skips = [], []
        self.head = self.cursor = self.in_flight = self.held = self.stale = self.skips_seen = 0
        if self.on_quiet is not None:
            self.on_quiet()

    @property
    def end(self):
        """What may be committed: below it everything is done, or never existed."""
        return (<Entry>self.entries[self.head]).offset if self.head < len(self.entries) else self.position

    @property
    def waiting(self):
        """How many entries wait to be emitted."""
        return len(self.entries) - self.cursor

    @property
    def unpassed(self):
        """How many entries the head has not passed: open ones, and done ones behind an open one."""
        return len(self.entries) - self.head

    def acked_runs(self):
        """Return what is done above `end`, as a flat ascending list: start, stop, start, stop…

        Offsets between two done entries count as done; so does what the acked set names and was not fetched yet.
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


def settle(Entry entry not None):
    """Note that an entry is done: acked, given up, or emitted where nobody waits for a verdict."""
    entry.window.settle(entry)
