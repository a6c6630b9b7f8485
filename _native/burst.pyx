"""Bursts of tuples for one call, and a mark to take back the emits of a failed call."""
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
cimport cython

from _native.queues cimport Mailbox, has_drained
from _native.task cimport COUNTS_SENT, TRACES, Outlet, OutStream, SentCounts, TaskCore
from _native.tuples cimport IS_TICK, ONE_VALUE, Source, Tuple, values_of


@cython.final
cdef class Burst:
    """Tuples for one call of `BurstBolt.execute_many`, in order of arrival.

    A sequence of tuples: `len(burst)`, `burst[0]`, iteration. With the name of a field it gives a column: `burst["word"]` is a list of one
    value for each tuple. `settler` is the collector of the instance, which acks and fails the tuples.
    """

    def __init__(self, list tuples, settler):
        self.tuples, self.settler = tuples, settler

    def __len__(self):
        return PyList_GET_SIZE(self.tuples)

    def __iter__(self):
        return iter(self.tuples)

    def __getitem__(self, key):
        return self.column(key) if isinstance(key, str) else self.tuples[key]

    def __contains__(self, tup):
        return tup in self.tuples

    def __repr__(self):
        return f"<Burst of {len(self)} tuples: {self.tuples[:3]}{'...' if len(self) > 3 else ''}>"

    cdef list column(self, object name):
        """Return the values of a field. Raises UsageError if a tuple does not have the field."""
        cdef Py_ssize_t i, position = 0, count = PyList_GET_SIZE(self.tuples)
        cdef list found = PyList_New(count)
        cdef Source origin = None
        cdef Tuple tup
        for i in range(count):
            tup = <Tuple?><object>PyList_GET_ITEM(self.tuples, i)
            if tup.origin is not origin:
                origin = tup.origin
                at = origin.positions.get(name)
                position = origin.fields.index(name) if at is None else at      # index raises an error that names the nearest field
            value = tup.held if tup.flags & ONE_VALUE else <object>PyTuple_GET_ITEM(tup.held, position)
            Py_INCREF(value)
            PyList_SET_ITEM(found, i, value)
        return found

    def items(self, name):
        """Return an iterator over pairs of a tuple and its value of a field."""
        if not isinstance(name, str):
            raise TypeError(f"items() takes the name of a field, not {name!r}")
        return zip(self.tuples, self.column(name))

    @property
    def rows(self):
        """The values of each tuple, as a list of tuples."""
        cdef Tuple tup
        return [values_of(tup) for tup in self.tuples]

    @property
    def fields(self):
        """The Fields of the first tuple."""
        return (<Tuple?>self.tuples[0]).origin.fields

    @property
    def is_tick(self):
        """True if the burst is a tick, which always comes alone."""
        return PyList_GET_SIZE(self.tuples) == 1 and ((<Tuple?>self.tuples[0]).flags & IS_TICK) != 0

    def ack(self, tup):
        """Ack a tuple now. Tuples that are neither acked nor failed are acked when the call returns."""
        self.settler.ack(tup)

    def fail(self, tup, error=None):
        """Fail one tuple. `error` is a text or an exception for `Failure.error`."""
        self.settler.fail(tup, error)


@cython.final
cdef class SentMark:
    """Numbers of tuples that a core has sent to each target, to take back what is sent after the mark.

    Between the mark and `take_back`, no consumer of a target may run. So it serves only calls that never await.
    """

    def __cinit__(self, TaskCore core not None):
        cdef OutStream stream
        cdef Outlet outlet
        self.outlets = [outlet for stream in core.streams.values() for outlet in stream.outlets]
        self.boxes = list({id(box): box for outlet in self.outlets for box in outlet.to.boxes}.values())
        self.waiting = <uint64_t*>calloc(len(self.boxes) + 1, sizeof(uint64_t))
        self.sent = <uint64_t*>calloc(len(self.outlets) + 1, sizeof(uint64_t))
        if self.waiting == NULL or self.sent == NULL:
            raise MemoryError("no memory for a mark")

    def __dealloc__(self):
        free(self.waiting)
        free(self.sent)

    cdef int set_at(self, TaskCore core) except -1:
        """Set the mark."""
        cdef Py_ssize_t i
        cdef Mailbox box
        for i in range(PyList_GET_SIZE(self.boxes)):
            box = <Mailbox>PyList_GET_ITEM(self.boxes, i)
            self.waiting[i] = box.tail - box.head
        for i in range(PyList_GET_SIZE(self.outlets)):
            self.sent[i] = (<Outlet>PyList_GET_ITEM(self.outlets, i)).sent
        self.emitted = core.emitted
        self.counts = None
        if core.rare_paths & COUNTS_SENT:
            self.counts = SentCounts(core.targets)
            memcpy(self.counts.count, core.counting.count, core.targets * sizeof(uint64_t))
        return 0

    cdef bint can_take_back(self, TaskCore core) noexcept:
        """Return False if code of the call has let another task send to a target.

        Then nothing is taken back, because the tuples that stay would have edges that their anchors no longer know.
        """
        cdef Py_ssize_t i, at
        cdef Mailbox box
        for i in range(PyList_GET_SIZE(self.boxes)):
            box = <Mailbox>PyList_GET_ITEM(self.boxes, i)
            for at in range(box.head + <Py_ssize_t>self.waiting[i], box.tail):
                if (<Tuple>box.ring[at & box.mask]).origin.task_id != core.task_id:
                    return False
        return True

    cdef int take_back(self, TaskCore core) except -1:
        """Remove the tuples that were sent since the mark from the mailboxes of their targets. Called if `can_take_back`."""
        cdef Py_ssize_t i
        cdef Mailbox box
        cdef PyObject* raw
        for i in range(PyList_GET_SIZE(self.boxes)):
            box = <Mailbox>PyList_GET_ITEM(self.boxes, i)
            while <uint64_t>(box.tail - box.head) > self.waiting[i]:
                raw = box.ring[(box.tail - 1) & box.mask]
                box.tail -= 1
                if core.rare_paths & TRACES and (<Tuple>raw).root != 0:
                    core.trace("taken back", (<Tuple>raw).roots, core.task_id)
                Py_DECREF(<object>raw)
            if has_drained(box):
                box.resume_senders()
        for i in range(PyList_GET_SIZE(self.outlets)):
            (<Outlet>PyList_GET_ITEM(self.outlets, i)).sent = self.sent[i]
        if self.counts is not None and core.rare_paths & COUNTS_SENT:
            memcpy(core.counting.count, self.counts.count, core.targets * sizeof(uint64_t))
        core.emitted = self.emitted
        return 0
