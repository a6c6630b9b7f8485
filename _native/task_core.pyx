"""TaskCore: the C side of an executor, as far as spouts and bolts are alike."""
from cpython.object cimport PyObject
from cpython.pystate cimport PyThreadState_Get
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from _native.dispatch cimport CUSTOM, Outlet, OutStream, Pulse, SentCounts
from _native.edge_ids cimport EdgeIds
from _native.mailbox cimport Emitter, Mailbox, SignalRing
from _native.tuples cimport IS_CONTROL, TakenList, Tuple

cdef enum:
    MOST_CALLS_PER_LAP = 32

cdef double TURN_SECS = 0.005      # BP-4: a turn ends after this long
cdef double SHORT_LAP = 0.000_1    # the stride between two readings of the clock doubles below it ...
cdef double LONG_LAP = 0.000_5     # ... and shrinks above it


cdef class TaskCore(TakenList):
    """Base of a spout's and a bolt's core.

    `now()` gives seconds; `misuse(kind, **what)` builds the error for a wrong use of the API; `ackers` is a list of SignalRing.
    """

    def __init__(self, int32_t task_id, *, Mailbox mailbox, EdgeIds ids, list ackers, now, misuse, Pulse pulse,
                 double slow_call_secs=0.5):
        self.task_id = task_id
        self.mailbox = mailbox
        self.emitter = Emitter()
        self.ids = ids
        self.ackers = ackers
        self.acker_count = len(ackers)
        free(self.acker)
        self.acker = <PyObject**>calloc(len(ackers) + 1, sizeof(PyObject*))
        if self.acker == NULL:
            raise MemoryError("no memory for a task")
        for i in range(len(ackers)):
            if not isinstance(ackers[i], SignalRing):
                raise TypeError(f"acker {i} is reached through a SignalRing, not {ackers[i]!r}")
            self.acker[i] = <PyObject*>ackers[i]
        self.streams = {}
        self.now = now
        self.misuse = misuse
        self.pulse = pulse
        self.slow_call_secs = slow_call_secs
        self.stride = 1
        self.thread = PyThreadState_Get()

    def __dealloc__(self):
        free(self.acker)

    def wire(self, dict streams):
        """Give the core its streams: name -> OutStream."""
        cdef OutStream stream
        cdef Outlet outlet
        self.streams = streams
        self.default_stream = streams.get("default")
        self.targets = 0
        for stream in streams.values():
            for outlet in stream.outlets:
                outlet.first = self.targets
                self.targets += outlet.tasks

    cdef OutStream stream_of(self, object stream):
        found = self.streams.get(stream)
        if found is None:
            raise self.misuse("unknown_stream", stream=stream)
        return <OutStream>found

    cdef tuple checked(self, object values, OutStream stream):
        """values as a tuple of the stream's arity."""
        if type(values) is not tuple:
            if not isinstance(values, (tuple, list)):
                raise self.misuse("not_values", stream=stream.origin.stream, values=values)
            values = tuple(values)
        if len(<tuple>values) != stream.origin.arity:
            raise self.misuse("arity", stream=stream.origin.stream, values=values, fields=stream.origin.fields)
        return <tuple>values

    cdef int wrong_thread(self) except -1:
        raise self.misuse("thread")

    cdef Py_ssize_t target_of(self, Outlet outlet, tuple values) except -1:
        try:
            return outlet.one(values)
        except Exception as error:
            keys = [values[outlet.positions[i]] for i in range(outlet.keys)]
            raise self.misuse("key", names=outlet.names, keys=keys, error=error) from error

    cdef list targets_of(self, Outlet outlet, tuple values):
        if outlet.choice != CUSTOM:
            return outlet.several(values)
        chosen = outlet.chooser(values)
        try:
            return [outlet.index_of[task] for task in chosen]
        except (KeyError, TypeError) as error:
            raise self.misuse("custom_target", chosen=chosen, targets=outlet.task_ids) from error

    cdef int note_sent(self, Outlet outlet, Py_ssize_t target, Tuple tup) except -1:
        """Count or trace a delivery; only where a mark or a trace asks for it."""
        if self.rare & COUNTS_SENT and not tup.flags & IS_CONTROL:
            self.counting.count[outlet.first + target] += 1
        if self.rare & TRACES and tup.root != 0:
            self.trace("sent", tup.roots, outlet.ids[target])
        return 0

    # Time. A turn is one run_burst; a lap is the calls between two readings of the clock.

    cdef int begin_turn(self) except -1:
        self.turn_start = self.lap_start = self.now()
        self.now_ms = <uint32_t><uint64_t>(self.turn_start * 1000.0)
        return 0

    cdef bint lap(self, Py_ssize_t calls) except -1:
        """Read the clock after some calls, adapt the stride; True when the turn is over."""
        cdef double at = self.now()
        cdef double took = at - self.lap_start
        self.lap_start = at
        self.now_ms = <uint32_t><uint64_t>(at * 1000.0)
        self.busy_secs += took
        if took >= self.slow_call_secs or self.suspect != 0.0:
            self.note_slow(took, calls)
        if calls > 0:
            self.usual_call = took / calls
        if took > LONG_LAP:
            self.stride = max(1, <Py_ssize_t>(self.stride * LONG_LAP / took))
        elif took < SHORT_LAP and calls >= self.stride and self.stride < MOST_CALLS_PER_LAP:
            self.stride *= 2
        return at - self.turn_start >= TURN_SECS

    cdef int note_slow(self, double took, Py_ssize_t calls) except -1:
        """Note a call that was too long. In a lap of several it may have been one, or all a little: the next lap tells, whose stride is 1."""
        cdef double slow = took if calls == 1 else 0.0
        if self.suspect != 0.0 and took < self.suspect_mean / 2:
            slow = self.suspect
        self.suspect = 0.0
        if calls > 1:
            self.suspect = took - (calls - 1) * self.usual_call
            self.suspect_mean = took / calls
            if self.suspect < self.slow_call_secs:
                self.suspect = 0.0
        if slow >= self.slow_call_secs and slow > self.slowest_call:
            self.slowest_call = slow
        return 0

    def take_slow_call(self):
        """The longest call over slow_call_secs since this was last asked, in seconds, else 0."""
        slowest, self.slowest_call = self.slowest_call, 0.0
        return slowest

    def count_sent(self, bint on):
        """Begin to count the tuples sent per target task (a mark), or stop it. Gives the counts since the last mark."""
        counted = self.counts_by_task(self.counting) if self.rare & COUNTS_SENT else {}
        self.counting = SentCounts(self.targets) if on else None
        self.rare = self.rare | COUNTS_SENT if on else self.rare & ~<uint32_t>COUNTS_SENT
        return counted

    cdef dict counts_by_task(self, SentCounts counts):
        """The targets that got any: task id -> tuples, over all streams."""
        cdef OutStream stream
        cdef Outlet outlet
        cdef Py_ssize_t i
        found = {}
        for stream in self.streams.values():
            for outlet in stream.outlets:
                for i in range(outlet.tasks):
                    if counts.count[outlet.first + i]:
                        found[outlet.ids[i]] = found.get(outlet.ids[i], 0) + counts.count[outlet.first + i]
        return found

    def set_trace(self, trace):
        """Tell trace(event, roots, task) of every delivery and settle of a tracked tuple; None stops it."""
        self.trace = trace
        self.rare = self.rare | TRACES if trace is not None else self.rare & ~<uint32_t>TRACES

    @property
    def waiting(self):
        """Tuples in the mailbox."""
        return self.mailbox.tail - self.mailbox.head
