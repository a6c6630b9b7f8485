"""A batch's tuples at one task: counted as they come, handed to the bolt, counted as they are sent (TX-5).

A tuple of a batch belongs to no tree. Every attempt has a part at every task: how many tuples came of it from each source, and how many
were sent to each target. What is rare is the host's, in Python.
"""
from asyncio import CancelledError
from types import GeneratorType as _GeneratorType

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free
cimport cython

from _native.bolt_core cimport BoltCore
from _native.dispatch cimport OutStream, SentCounts
from _native.mailbox cimport REPLY, SignalRing, signal_with
from _native.method cimport Method, call_one
from _native.stable_hash cimport stable_hash_of
from _native.task_core cimport COUNTS_SENT, check_thread
from _native.tuples cimport FAILED_WITH_TASK, MANY_ROOTS, TAKEN, Tuple

cdef type GeneratorType = _GeneratorType
cdef str DEFAULT = "default"


cdef extern from "Python.h":
    bint PyObject_IS_GC(object value)
    void PyObject_GC_UnTrack(void* value)


cdef inline tuple behind(object attempt, object given):
    """(attempt, *given), for a tuple or a list. A batch of these waits, so that the collector is to walk none that cannot be in a cycle."""
    cdef tuple values = given if type(given) is tuple else tuple(given)
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(values)
    cdef tuple made = PyTuple_New(count + 1)
    cdef bint leads_on = False     # an attempt is two ints, and leads nowhere
    Py_INCREF(attempt)
    PyTuple_SET_ITEM(made, 0, attempt)
    for i in range(count):
        value = <object>PyTuple_GET_ITEM(values, i)
        Py_INCREF(value)
        PyTuple_SET_ITEM(made, i + 1, value)
        leads_on = leads_on or PyObject_IS_GC(value)
    if not leads_on:
        PyObject_GC_UnTrack(<void*>made)
    return made


@cython.final
cdef class BatchPart:
    """One attempt at one task."""

    def __cinit__(self, BatchFeed feed not None, attempt, execute=None):
        self.feed, self.attempt = feed, attempt
        self.method = None if execute is None else Method(execute)
        self.sent = SentCounts(feed.core.targets)
        self.received = <uint64_t*>calloc(feed.sources + 1, sizeof(uint64_t))
        if self.received == NULL:
            raise MemoryError("no memory for the counts of a batch")

    def __dealloc__(self):
        free(self.received)

    def received_from(self, int32_t source):
        """How many tuples of this attempt came from a task."""
        return self.received[source - self.feed.first_source]

    def sent_by_task(self):
        """How many tuples of this attempt were sent to each task: those that got any."""
        return self.feed.core.counts_by_task(self.sent)

    def execute_by(self, execute):
        """Hand what comes to this method of the attempt's instance."""
        self.method = Method(execute)

    def execute_many_by(self, execute_many, Py_ssize_t burst_rows):
        """Hand the values of what comes to this method, so many at once, with their fields."""
        self.execute_many, self.burst_rows, self.rows = execute_many, burst_rows, []


@cython.final
cdef class BatchFeed:
    """What is called for every tuple: `execute` is the bolt's own.

    `host`: `begin(attempt)` makes the part of an attempt that is new here, None for an old one; `call_failed(part, error, tup)`;
    `returned(part, tup, result)`: what execute gave is awaited, or wrong (of a burst tup is None in both); `crowded()`: None, or an awaitable while too much waits;
    `lost(part)`: a test has had a tuple lost; `wrong_values(stream, values)`, `wrong_time(part)`: the errors of a wrong emit.
    """

    def __cinit__(self, BoltCore core not None, host, sources, *, bint emits_results=False):
        self.core, self.host = core, host
        self.parts = {}
        self.first_source = min(sources, default=0)
        self.sources = max(sources, default=-1) - self.first_source + 1
        self.emits_results = emits_results
        core.rare |= COUNTS_SENT

    def execute(self, Tuple tup):
        """Count a tuple, and hand it to the instance of its attempt, or put it behind a call of that which is awaited."""
        cdef BatchPart part = self.part_of(tup.values[0])
        if part is None:
            self.core.ack_tuple(tup)
            return None
        part.received[tup.origin.task_id - self.first_source] += 1
        if part.dead:
            self.core.ack_tuple(tup)
            return None
        if part.waiting is not None:
            part.waiting.append(tup)
            return self.host.crowded()
        self.take(part, tup)
        return None

    def receive(self, Tuple tup):
        """Count a tuple; its part, None where it is dropped, which acks it. For bolts whose calls the executor awaits."""
        cdef BatchPart part = self.part_of(tup.values[0])
        if part is not None:
            part.received[tup.origin.task_id - self.first_source] += 1
        if part is None or part.dead:
            self.core.ack_tuple(tup)
            return None
        return part

    cdef BatchPart part_of(self, object attempt):
        """The part of an attempt, made where it is new; None for an old one."""
        cdef BatchPart part = self.current
        if part is not None and part.attempt is attempt:
            return part
        part = self.parts.get(attempt)
        if part is None:
            part = self.host.begin(attempt)
            if part is None:
                return None
            self.parts[attempt] = part
        self.current = part
        return part

    def find(self, attempt):
        """The part of an attempt, made where it is new; None for an old one."""
        return self.part_of(attempt)

    def drop(self, attempt):
        """Forget an attempt."""
        cdef BatchPart part = self.parts.pop(attempt, None)
        if part is not None:
            part.dead = part.over = True
            part.waiting = part.rows = None
            if self.current is part:
                self.current = None

    cdef int take(self, BatchPart part, Tuple tup) except -1:
        return self.call(part, tup) if part.rows is None else self.gather(part, tup)

    cdef int gather(self, BatchPart part, Tuple tup) except -1:
        """Keep a tuple's values until there are enough of them, or some of other fields come."""
        if tup.origin.fields is not part.row_fields:
            if part.rows:
                self.call_many(part)
                if part.dead:
                    return self.core.ack_tuple(tup)
                if part.waiting is not None:      # the call is awaited, or this tuple has waited itself: it is the next
                    part.waiting.appendleft(tup)
                    return 0
            part.row_fields = tup.origin.fields
        part.rows.append(tup.values)
        self.core.ack_tuple(tup)
        return self.call_many(part) if len(part.rows) >= part.burst_rows else 0

    cdef int call_many(self, BatchPart part) except -1:
        rows, part.rows = part.rows, []
        self.calling = part
        try:
            result = part.execute_many(rows, part.row_fields)
            if result is not None:
                self.host.returned(part, None, result)
        except (Exception, CancelledError) as error:
            self.host.call_failed(part, error, None)
        self.calling = None
        return 0

    def flush(self, BatchPart part not None):
        """Hand on what waits for a burst: no more comes."""
        if part.rows and not part.dead:
            self.call_many(part)

    cdef int call(self, BatchPart part, Tuple tup) except -1:
        self.calling = part
        try:
            result = call_one(part.method, tup)
            if result is not None:
                self.emit_result(part, tup, result)
        except (Exception, CancelledError) as error:
            self.host.call_failed(part, error, tup)
        self.calling = None
        if tup.state == TAKEN:
            self.core.ack_tuple(tup)
        else:
            self.settle(part, tup)
        return 0

    def settle(self, BatchPart part not None, Tuple tup not None):
        """A call has returned: let go of its tuple."""
        if tup.state == TAKEN:
            self.core.ack_tuple(tup)
        elif tup.state == FAILED_WITH_TASK:      # lost, for a test: as if it had never come
            part.received[tup.origin.task_id - self.first_source] -= 1
            self.host.lost(part)

    def call_next(self, BatchPart part not None, Tuple tup not None):
        """Hand on a tuple that waited."""
        self.take(part, tup)

    cdef int emit_result(self, BatchPart part, Tuple tup, object result) except -1:
        if self.emits_results:
            if type(result) is tuple:
                self.emit_values(part, result, DEFAULT)
                return 0
            if type(result) is GeneratorType:
                for values in result:
                    self.emit_values(part, values, DEFAULT)
                return 0
        self.host.returned(part, tup, result)
        return 0

    cdef int emit_values(self, BatchPart part, object values, object stream) except -1:
        """Send the attempt and values to every subscriber of a stream."""
        cdef BoltCore core = self.core
        cdef OutStream out
        check_thread(core)
        if part.over:
            raise self.host.wrong_time(part)
        out = core.default_stream if stream is DEFAULT else core.stream_of(stream)
        if out is not None:
            values = self.with_attempt(part, values, out)
        core.counting = part.sent
        return core.emit_values(values, out, None, None)

    cdef tuple with_attempt(self, BatchPart part, object values, OutStream out):
        """The attempt and values, where they are as many as the stream has fields."""
        if not isinstance(values, (tuple, list)) or len(values) + 1 != out.arity:
            raise self.host.wrong_values(out.origin.stream, values)
        return behind(part.attempt, values)


cdef class BatchEmitter:
    """What an instance emits with: base of the host's collectors. One for each attempt."""

    def __init__(self, BatchPart part not None):
        self.feed, self.part = part.feed, part

    def emit(self, values, stream=DEFAULT):
        self.feed.emit_values(self.part, values, stream)

    def emit_many(self, rows, stream=DEFAULT):
        for values in rows:
            self.feed.emit_values(self.part, values, stream)

    def emit_direct(self, int32_t task, values, stream=DEFAULT):
        cdef BatchFeed feed = self.feed
        if self.part.over:
            raise feed.host.wrong_time(self.part)
        made = feed.with_attempt(self.part, values, feed.core.stream_of(stream))
        feed.core.counting = self.part.sent
        feed.core.emit_direct(task, made, None, stream)


cdef class DigestingEmitter(BatchEmitter):
    """What an emitter emits with: counts and digests what it sends, so that a replay that differs is seen.

    The digest is the sum of the stable hashes of the tuples' values: it does not depend on their order, nor on who of several tasks emits which.
    """

    def __init__(self, BatchPart part not None, *, bint digests=True):
        BatchEmitter.__init__(self, part)
        self.digests = digests

    cdef int digest(self, object values) except -1:
        self.emitted += 1
        if self.digests:
            try:
                self.hashes += stable_hash_of(values)
            except Exception:      # values of a type without a stable hash, or a __stable_hash__ that raises: only counted
                self.digests = False
        return 0

    def emit(self, values, stream=DEFAULT):
        self.feed.emit_values(self.part, values, stream)
        self.digest(values)

    def emit_many(self, rows, stream=DEFAULT):
        for values in rows:
            self.feed.emit_values(self.part, values, stream)
            self.digest(values)

    def emit_direct(self, int32_t task, values, stream=DEFAULT):
        BatchEmitter.emit_direct(self, task, values, stream)
        self.digest(values)

    def take_digest(self):
        """(tuples, digest) since this was last asked; the digest is None where a tuple had none."""
        taken = (self.emitted, self.hashes if self.digests else None)
        self.emitted = self.hashes = 0
        return taken


def reply(BoltCore core not None, Tuple tup not None, answer):
    """Tell the spout task that emitted a control tuple something about its tree, before the verdict of it can come (task_port.reply)."""
    ring = core.settle_rings.get(tup.origin.task_id)
    if ring is not None and tup.root != 0 and not tup.flags & MANY_ROOTS:
        signal_with(<SignalRing>ring, REPLY, tup.root, core.task_id, answer)
