"""From the windows of a spout's partitions to emitted tuples: what a Kafka spout does for every record."""
from asyncio import CancelledError

cimport cython

from _native.offset_window cimport DONE, Entry, OffsetWindow

cdef enum:
    TURN = 64                           # records that one partition emits before it is the next one's turn
    MOST_SKIPS = 64                     # records that one poll of the spout may skip before others get their turn


cdef class Rotation:
    """The windows of a task, of which each emits in its turn; base of `Partitions`."""

    def __cinit__(self, *args, **kwargs):
        self.order = []

    def rotate(self, windows):
        """Take turns among these from now on."""
        self.order, self.current = list(windows), None
        self.next_turn = self.left = 0

    def take(self):
        """Return the next entry to emit, None where there is none: up to TURN of one window, then of the next."""
        return self.take_next()

    def on_low(self, tell, *, Py_ssize_t below):
        """Have `tell()` called once, when fewer than so many records wait; looked at whenever it is another window's turn."""
        self.tell_low, self.low = tell, below

    @property
    def waiting(self):
        """Records that wait to be emitted, and may be."""
        return self.count_waiting()

    cdef Py_ssize_t count_waiting(self) except -1:
        cdef OffsetWindow window
        cdef Py_ssize_t waiting = 0
        for window in self.order:
            if not (window.in_order and window.is_stopped()):  # what waits there keeps no other partition from being read
                waiting += len(window.entries) - window.cursor
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
        self.look_how_many_wait()
        for at in range(len(self.order)):
            self.current = self.order[self.next_turn]
            self.next_turn = (self.next_turn + 1) % len(self.order)
            entry = self.current.take_next()
            if entry is not None:
                self.left = TURN - 1
                return entry
        self.left = 0
        self.look_how_many_wait()       # what waited may have been done already
        return None

    cdef int look_how_many_wait(self) except -1:
        if self.tell_low is not None and self.count_waiting() < self.low:
            tell, self.tell_low = self.tell_low, None
            tell()
        return 0


@cython.final
cdef class RecordFeed:
    """What is called for every record: `next_tuple` is the spout's own.

    `translate(record)`: values, a `to_stream` (stream, values), or None. `emit(values, message_id, stream)`: the collector's. `host` does what is
    rare: `due()` → a failed entry whose time has come, or None; `unreadable(entry, error, values)`; `rest()`: nothing can be emitted; `wake()`.
    """

    def __init__(self, Rotation rotation, *, translate, type to_stream, bint tracked, host):
        self.rotation, self.translate, self.to_stream = rotation, translate, to_stream
        self.tracked, self.host = tracked, host

    def emit_by(self, emit):
        """Emit by this collector's `emit`; None: the spout has ended."""
        self.emit = emit

    def next_tuple(self):
        """Emit a failed record that is due, else the next one."""
        cdef Entry entry
        cdef int skipped
        if self.emit is None:
            return
        for skipped in range(MOST_SKIPS):
            entry = self.host.due() if self.has_retries else None
            if entry is None:
                entry = self.rotation.take_next()
                if entry is None:
                    self.host.rest()
                    return
            if self.emit_entry(entry):
                return
        self.host.wake()

    cdef bint emit_entry(self, Entry entry) except -1:
        """Emit the tuple of a record; False where there is none: it is skipped, or cannot be read."""
        values = None
        try:
            values = self.translate(entry.record)
            if values is None:
                entry.window.settle(entry)
                return False
            message_id = entry if self.tracked else None
            if type(values) is self.to_stream:
                self.emit(values[1], message_id, values[0])
            else:
                self.emit(values, message_id)
        except (Exception, CancelledError) as error:
            self.host.unreadable(entry, error, values)
            return False
        if not self.tracked:
            entry.window.settle(entry)
        return True
