"""Tuples of batches at one task. The task counts arriving tuples, passes them to the bolt, and counts sent tuples (TX-5).

A tuple of a batch belongs to no tree. Every attempt has a TaskBatch at every task. The TaskBatch counts the tuples from each source and to
each target. The runner, in Python, handles the rare cases.
"""
from asyncio import CancelledError
from types import GeneratorType as _GeneratorType

from cpython.object cimport Py_TYPE, PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_GetSlice, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free
cimport cython

from _native.bolt cimport BoltCore
from _native.burst cimport Burst
from _native.hash cimport stable_hash_of
from _native.queues cimport REPLY, Backpressure, Mailbox, SignalRing, has_drained, post_tuple, send_signal_with, take_tuple
from _native.task cimport COUNTS_SENT, OutStream, SentCounts, UserMethod, call_one, check_thread
from _native.tuples cimport FAILED_WITH_TASK, IS_CONTROL, MANY_ROOTS, TAKEN, Source, Tuple, new_tuple, values_of

cdef type GeneratorType = _GeneratorType
cdef str DEFAULT = "default"


cdef extern from "Python.h":
    bint PyType_IS_GC(PyTypeObject* kind)
    void PyObject_GC_UnTrack(void* value)


cdef inline tuple attempt_and(object attempt, object given):
    """Return (attempt, *given) for a tuple or a list.

    Many of these tuples wait at the same time. The garbage collector stops tracking a tuple that cannot be part of a cycle.
    """
    cdef tuple values = given if type(given) is tuple else tuple(given)
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(values)
    cdef tuple made = PyTuple_New(count + 1)
    cdef bint is_tracked = False     # an attempt is two ints, and cannot be part of a cycle
    Py_INCREF(attempt)
    PyTuple_SET_ITEM(made, 0, attempt)
    for i in range(count):
        value = <object>PyTuple_GET_ITEM(values, i)
        Py_INCREF(value)
        PyTuple_SET_ITEM(made, i + 1, value)
        is_tracked = is_tracked or PyType_IS_GC(Py_TYPE(value))
    if not is_tracked:
        PyObject_GC_UnTrack(<void*>made)
    return made


@cython.final
cdef class TaskBatch:
    """The batch of one attempt at one task. It has the tuple counts and the waiting tuples."""

    def __cinit__(self, BatchFeed feed not None, attempt, execute=None):
        self.feed, self.attempt = feed, attempt
        self.method = None if execute is None else UserMethod(execute)
        self.sent = SentCounts(feed.core.targets)
        self.received = <uint64_t*>calloc(feed.sources + 1, sizeof(uint64_t))
        if self.received == NULL:
            raise MemoryError("no memory for the counts of a batch")

    def __dealloc__(self):
        free(self.received)

    def received_from(self, int32_t source):
        """Return the number of tuples that came from a task."""
        return self.received[source - self.feed.first_source]

    def sent_by_task(self):
        """Return task id -> number of tuples sent to the task. Omits tasks that got none."""
        return self.feed.core.counts_by_task(self.sent)

    def execute_by(self, execute):
        """Pass each tuple to this method of the attempt's instance."""
        self.method = UserMethod(execute)

    def execute_many_by(self, execute_many, settler, Py_ssize_t burst_rows):
        """Pass up to burst_rows tuples at once to this method, as a Burst with this settler."""
        self.execute_many, self.settler, self.burst_rows, self.tuples = execute_many, settler, burst_rows, []


@cython.final
cdef class BatchFeed:
    """Passes the tuples of batches to the instances of a task. Its `execute` is called for every tuple.

    Methods of `runner`:
    - `begin(attempt)` returns the TaskBatch of an attempt that is new here, None for an old one.
    - `call_failed(batch, error, tup)` handles an error of execute.
    - `returned(batch, tup, result)` handles an awaitable or invalid result.
    - `crowded()` returns None, or an awaitable while too many tuples wait.
    - `lost(batch)` handles a tuple that a test has dropped.
    - `wrong_values(stream, values)` and `wrong_time(batch)` return the errors of a wrong emit.

    In `call_failed` and `returned` of a burst, `tup` is the list of its tuples.
    """

    def __cinit__(self, BoltCore core not None, runner, sources, *, bint emits_results=False):
        self.core, self.runner = core, runner
        self.batches = {}
        self.first_source = min(sources, default=0)
        self.sources = max(sources, default=-1) - self.first_source + 1
        self.emits_results = emits_results
        core.rare_paths |= COUNTS_SENT
        core.counting = SentCounts(core.targets)      # of emits before the first batch, such as control tuples

    def execute(self, Tuple tup):
        """Count a tuple, and pass it to the instance of its attempt, or queue it behind an awaited call."""
        cdef TaskBatch batch = self.batch_of(values_of(tup)[0])
        if batch is None:
            self.core.ack_tuple(tup)
            return None
        batch.received[tup.origin.task_id - self.first_source] += 1
        if batch.dead:
            self.core.ack_tuple(tup)
            return None
        if batch.waiting is not None:
            batch.waiting.append(tup)
            return self.runner.crowded()
        self.handle_tuple(batch, tup)
        return None

    def count_received(self, Tuple tup):
        """Count a tuple, and return its batch. None if the tuple was dropped and acked. For bolts whose calls the executor awaits."""
        cdef TaskBatch batch = self.batch_of(values_of(tup)[0])
        if batch is not None:
            batch.received[tup.origin.task_id - self.first_source] += 1
        if batch is None or batch.dead:
            self.core.ack_tuple(tup)
            return None
        return batch

    cdef TaskBatch batch_of(self, object attempt):
        """Return the batch of an attempt. Create the batch if the attempt is new. None for an old attempt."""
        cdef TaskBatch batch = self.current
        if batch is not None and batch.attempt is attempt:
            return batch
        batch = self.batches.get(attempt)
        if batch is None:
            batch = self.runner.begin(attempt)
            if batch is None:
                return None
            self.batches[attempt] = batch
        self.current = batch
        return batch

    def batch_or_begin(self, attempt):
        """Return the batch of an attempt. Create the batch if the attempt is new. None for an old attempt."""
        return self.batch_of(attempt)

    def drop_batch(self, attempt):
        """Forget an attempt."""
        cdef TaskBatch batch = self.batches.pop(attempt, None)
        if batch is not None:
            batch.dead = batch.over = True
            batch.waiting = batch.tuples = None
            if self.current is batch:
                self.current = None

    cdef int handle_tuple(self, TaskBatch batch, Tuple tup) except -1:
        return self.call(batch, tup) if batch.tuples is None else self.gather(batch, tup)

    cdef int gather(self, TaskBatch batch, Tuple tup) except -1:
        """Collect tuples until there are enough, or until a tuple with other fields arrives."""
        if tup.origin.fields is not batch.fields:
            if batch.tuples:
                self.call_many(batch)
                if batch.dead:
                    return self.ack_taken(tup)
                if batch.waiting is not None:      # an awaited call may still run: this tuple waits before the others
                    batch.waiting.appendleft(tup)
                    return 0
            batch.fields = tup.origin.fields
        batch.tuples.append(tup)
        self.ack_taken(tup)
        return self.call_many(batch) if len(batch.tuples) >= batch.burst_rows else 0

    cdef int ack_taken(self, Tuple tup) except -1:
        return self.core.ack_tuple(tup) if tup.state == TAKEN else 0      # else it was in a burst that raised

    cdef int call_many(self, TaskBatch batch) except -1:
        tuples, batch.tuples, self.calling = batch.tuples, [], batch
        try:
            result = batch.execute_many(Burst(tuples, batch.settler))
            if result is not None:
                self.runner.returned(batch, tuples, result)
        except (Exception, CancelledError, GeneratorExit) as error:
            self.runner.call_failed(batch, error, tuples)
        self.calling = None
        return 0

    def flush_burst(self, TaskBatch batch not None):
        """Pass the tuples that wait for a burst to the instance, because no more will arrive."""
        if batch.tuples and not batch.dead:
            self.call_many(batch)

    cdef int call(self, TaskBatch batch, Tuple tup) except -1:
        self.calling = batch
        try:
            result = call_one(batch.method, tup)
            if result is not None:
                self.emit_result(batch, tup, result)
        except (Exception, CancelledError, GeneratorExit) as error:
            self.runner.call_failed(batch, error, tup)
        self.calling = None
        if tup.state == TAKEN:
            self.core.ack_tuple(tup)
        else:
            self.end_tuple(batch, tup)
        return 0

    def end_tuple(self, TaskBatch batch not None, Tuple tup not None):
        """Ack the tuple of a call that has returned."""
        if tup.state == TAKEN:
            self.core.ack_tuple(tup)
        elif tup.state == FAILED_WITH_TASK:      # a test dropped the tuple, as if it had never arrived
            batch.received[tup.origin.task_id - self.first_source] -= 1
            self.runner.lost(batch)

    def call_next(self, TaskBatch batch not None, Tuple tup not None):
        """Pass a waiting tuple to the instance."""
        self.handle_tuple(batch, tup)

    cdef int emit_result(self, TaskBatch batch, Tuple tup, object result) except -1:
        if self.emits_results:
            if type(result) is tuple:
                self.emit_values(batch, result, DEFAULT)
                return 0
            if type(result) is GeneratorType:
                for values in result:
                    self.emit_values(batch, values, DEFAULT)
                return 0
        self.runner.returned(batch, tup, result)
        return 0

    cdef int emit_values(self, TaskBatch batch, object values, object stream) except -1:
        """Send the attempt and values to every subscriber of a stream."""
        cdef BoltCore core = self.core
        cdef OutStream out
        check_thread(core)
        if batch.over:
            raise self.runner.wrong_time(batch)
        out = core.default_stream if stream is DEFAULT else core.stream_of(stream)
        if out is not None:
            values = self.with_attempt(batch, values, out)
        core.counting = batch.sent
        return core.emit_values(values, out, None, None)

    cdef tuple with_attempt(self, TaskBatch batch, object values, OutStream out):
        """Return the attempt and values, if they match the number of fields of the stream."""
        if not isinstance(values, (tuple, list)) or len(values) + 1 != out.arity:
            raise self.runner.wrong_values(out.origin.stream, values)
        return attempt_and(batch.attempt, values)


cdef class BatchEmitter:
    """Emits for one attempt. Base of the runners' collectors."""

    def __init__(self, TaskBatch batch not None):
        self.feed, self.batch = batch.feed, batch

    def emit(self, values, stream=DEFAULT):
        self.feed.emit_values(self.batch, values, stream)

    def emit_many(self, rows, stream=DEFAULT):
        for values in self.checked(rows, "emit_many"):
            self.feed.emit_values(self.batch, values, stream)

    def emit_each(self, values, stream=DEFAULT):
        self.emit_many([(value,) for value in self.checked(values, "emit_each")], stream)

    cdef object checked(self, object rows, str method):
        """Return an iterable of rows or values. Raises UsageError for anything else."""
        if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
            raise self.feed.core.misuse("not_rows", method=method, given=rows)
        return rows

    def emit_direct(self, int32_t task, values, stream=DEFAULT):
        cdef BatchFeed feed = self.feed
        if self.batch.over:
            raise feed.runner.wrong_time(self.batch)
        made = feed.with_attempt(self.batch, values, feed.core.stream_of(stream))
        feed.core.counting = self.batch.sent
        feed.core.emit_direct(task, made, None, stream)


cdef class DigestingEmitter(BatchEmitter):
    """Counts and digests the tuples that a user's emitter sends. So a replay with other tuples is detected.

    The digest is the sum of the stable hashes of the tuples' values. It does not depend on the order of the tuples, or on the task that
    emits a tuple.
    """

    def __init__(self, TaskBatch batch not None, *, bint digests=True):
        BatchEmitter.__init__(self, batch)
        self.digests = digests

    cdef int add_to_digest(self, object values) except -1:
        self.emitted += 1
        if self.digests:
            try:
                self.hashes += stable_hash_of(values)
            except Exception:      # the value has no stable hash, or __stable_hash__ raises: only count the tuple
                self.digests = False
        return 0

    def emit(self, values, stream=DEFAULT):
        self.feed.emit_values(self.batch, values, stream)
        self.add_to_digest(values)

    def emit_many(self, rows, stream=DEFAULT):
        for values in self.checked(rows, "emit_many"):
            self.feed.emit_values(self.batch, values, stream)
            self.add_to_digest(values)

    def emit_direct(self, int32_t task, values, stream=DEFAULT):
        BatchEmitter.emit_direct(self, task, values, stream)
        self.add_to_digest(values)

    def take_digest(self):
        """Return (number of tuples, digest) since the last call. The digest is None if a tuple has no stable hash."""
        taken = (self.emitted, self.hashes if self.digests else None)
        self.emitted = self.hashes = 0
        return taken


def emit_batch_rows(BatchFeed feed not None, str stream, list rows not None, target):
    """Emit rows that another process has made, and count them for the attempt that each begins with.

    target: task id for a direct stream, else None. Returns (attempt, error) for each attempt of which a row could not be emitted. Drops the
    later rows of such an attempt.
    """
    cdef BoltCore core = feed.core
    cdef OutStream out = core.stream_of(stream)
    cdef TaskBatch batch
    cdef list refused = []
    for values in rows:
        batch = feed.batch_of((<tuple?>values)[0])
        if batch.dead:
            continue
        core.counting = batch.sent
        try:
            if target is None:
                core.emit_values(values, out, None, None)
            else:
                core.emit_direct(target, values, None, stream)
        except Exception as error:
            batch.dead = True
            refused.append((batch.attempt, error))
    return refused


def reply(BoltCore core not None, Tuple tup not None, answer):
    """Send an answer to the spout task whose tree a control tuple belongs to. It arrives before the verdict (task_port.reply)."""
    if tup.root != 0 and not tup.flags & MANY_ROOTS:
        for ring in core.settle_rings.values():      # of the spouts that this task subscribes to, only the one with the tree takes it
            send_signal_with(<SignalRing>ring, REPLY, tup.root, core.task_id, answer)


# Tuples of batches that come from tasks of other processes, or go there


def post_rows(Mailbox box not None, attempt, list rows not None, Py_ssize_t begin, Source origin not None, Backpressure sender):
    """Post rows from `begin` on as tuples of an attempt, until the mailbox is full. Return the position of the next row."""
    cdef Py_ssize_t i
    for i in range(begin, len(rows)):
        if box.tail - box.head >= box.capacity:
            return i
        post_tuple(box, new_tuple(attempt_and(attempt, rows[i]), origin, 0), <PyObject*>sender if sender is not None else NULL)
    return len(rows)


def post_control(Mailbox box not None, tuple values not None, Source origin not None):
    """Post a control tuple that belongs to no tree."""
    post_tuple(box, new_tuple(values, origin, IS_CONTROL), NULL)


def take_runs(Mailbox box not None):
    """Take all tuples. Return runs of (origin, rows without the attempt), in order. The rows of a control tuple are its values alone.

    A run ends where the next tuple has another origin.
    """
    cdef list runs = [], rows = None
    cdef PyObject* raw
    cdef Tuple tup
    cdef Source origin = None
    while (raw := take_tuple(box)) != NULL:
        tup = <Tuple>raw
        Py_DECREF(tup)
        if tup.origin is not origin or rows is None:
            origin, rows = tup.origin, []
            runs.append((origin, rows))
        values = values_of(tup)
        rows.append(values if tup.flags & IS_CONTROL else PyTuple_GetSlice(values, 1, PyTuple_GET_SIZE(values)))
    if has_drained(box):
        box.resume_senders()
    return runs
