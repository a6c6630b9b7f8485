"""Parts that spouts and bolts share: outlets of streams, calls of user methods, and TaskCore.

An emit finds its OutStream, and each Outlet of the stream (one per subscription) chooses targets. These objects store all decisions that
can be made when the topology is wired. Only the choice of targets remains for each tuple.
"""
from types import MethodType

from cpython.list cimport PyList_Check
from cpython.object cimport PyObject
from cpython.pystate cimport PyThreadState_Get
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE, PyTuple_GetSlice
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
cimport cython

from _native.hash cimport group_of, stable_hash_at
from _native.ids cimport EdgeIds
from _native.queues cimport Backpressure, Mailbox, SignalRing
from _native.tuples cimport IS_CONTROL, Source, Tuple


cdef enum:
    MOST_CALLS_PER_LAP = 32

cdef double TURN_SECS = 0.005      # BP-4: a turn ends after this time
cdef double SHORT_LAP = 0.000_1    # below it, the stride between two readings of the clock doubles
cdef double FIRST_CALL = TURN_SECS / 16     # time of a call before the first is measured, so that a first burst has at most 16 tuples
cdef double LONG_LAP = 0.000_5     # above it, the stride shrinks


@cython.final
cdef class Targets:
    """The tasks of one subscriber, as (task id, Mailbox) in order of task ids. The outlets of all emitting tasks share them."""

    def __cinit__(self, list targets not None):
        cdef Py_ssize_t i
        self.tasks = len(targets)
        self.task_ids = [task_id for task_id, _ in targets]
        self.boxes = [box for _, box in targets]
        self.index_of = {task_id: i for i, task_id in enumerate(self.task_ids)}
        self.box = <PyObject**>calloc(self.tasks + 1, sizeof(PyObject*))
        self.ids = <int32_t*>calloc(self.tasks + 1, sizeof(int32_t))
        if self.box == NULL or self.ids == NULL:
            raise MemoryError("no memory for the targets of an outlet")
        for i in range(self.tasks):
            if not isinstance(self.boxes[i], Mailbox):
                raise TypeError(f"Targets: the target of task {self.task_ids[i]} must be a Mailbox, not {self.boxes[i]!r}")
            self.box[i] = <PyObject*>self.boxes[i]
            self.ids[i] = self.task_ids[i]

    def __dealloc__(self):
        free(self.box)
        free(self.ids)


@cython.final
cdef class Outlet:
    """One subscription of one stream at one emitting task.

    `targets` are Targets, or the list for them. `start` is the first shuffled target. `positions` and `names` belong to the grouped fields.
    `chooser(values)` returns the task ids of a custom grouping. `stops` is False if the edge closes a cycle (BP-5).
    """

    def __cinit__(self, Choice choice, targets, *, Py_ssize_t start=0, positions=(), names=(), uint32_t key_groups=128,
                  chooser=None, bint stops=True):
        cdef Py_ssize_t i
        cdef Targets to = targets if isinstance(targets, Targets) else Targets(targets)
        self.choice = choice
        self.to, self.tasks, self.box, self.ids, self.index_of = to, to.tasks, to.box, to.ids, to.index_of
        self.turn = start - 1
        self.key_groups = key_groups
        self.chooser = chooser
        self.stops = stops
        self.picks_one = choice not in (TO_ALL, CUSTOM, DIRECT)
        self.keys = len(positions)
        self.by_one_field = choice == BY_FIELDS and self.keys == 1
        self.names = tuple(names)
        self.positions = <Py_ssize_t*>calloc(self.keys + 1, sizeof(Py_ssize_t))
        if choice == PARTIAL_KEY:
            self.used = <uint64_t*>calloc(self.tasks + 1, sizeof(uint64_t))
        if choice == BY_FIELDS:
            self.target_of_group = <int32_t*>calloc(key_groups, sizeof(int32_t))
        if (self.positions == NULL or (choice == PARTIAL_KEY and self.used == NULL)
                or (choice == BY_FIELDS and self.target_of_group == NULL)):
            raise MemoryError("no memory for an outlet")
        for i in range(self.keys):
            self.positions[i] = positions[i]
        if choice == BY_FIELDS:
            for i in range(key_groups):
                self.target_of_group[i] = <int32_t>(i * self.tasks // key_groups)

    def __dealloc__(self):
        free(self.used)
        free(self.positions)
        free(self.target_of_group)

    @property
    def task_ids(self):
        """Task ids of the targets, ascending."""
        return self.to.task_ids

    cdef Py_ssize_t pick_one(self, tuple values) except -1:
        """Return the target of values, for groupings that choose one target."""
        if self.choice == SHUFFLE:
            return next_target(self)
        if self.choice == BY_FIELDS or self.choice == PARTIAL_KEY:
            return self.pick_by_key(values)
        if self.choice == LEAST_LOADED:
            return self.pick_least_loaded()
        return 0

    cdef Py_ssize_t pick_by_key(self, tuple values) except -1:
        cdef uint64_t hashed = stable_hash_at(values, self.positions, self.keys)
        cdef Py_ssize_t first, second
        if self.choice == BY_FIELDS:
            return self.target_of_group[group_of(hashed, self.key_groups)]
        first = group_of(hashed, self.tasks)
        second = group_of((hashed ^ (hashed >> 31)) * <uint64_t>0xD6E8FEB86659FD93ULL, self.tasks)
        if self.used[second] < self.used[first]:
            first = second
        self.used[first] += 1
        return first

    cdef Py_ssize_t pick_least_loaded(self) noexcept:
        """Return the target with the fewest waiting tuples. Among equal targets return the next in turn."""
        cdef Py_ssize_t best, i, at, load, least
        cdef Mailbox box
        self.turn = (self.turn + 1) % self.tasks
        best = self.turn
        box = <Mailbox>self.box[best]
        least = box.tail - box.head
        for i in range(1, self.tasks):
            at = (self.turn + i) % self.tasks
            box = <Mailbox>self.box[at]
            load = box.tail - box.head
            if load < least:
                best, least = at, load
        self.turn = best
        return best

    cdef list pick_several(self, tuple values):
        """Return the targets of values, for groupings that may choose several.

        Raises KeyError or TypeError if a chooser returned a task that is not a target.
        """
        if self.choice == TO_ALL:
            return list(range(self.tasks))
        if self.choice == CUSTOM:
            return [self.index_of[task] for task in self.chooser(values)]
        return []      # DIRECT: only emit_direct has targets

    def choose(self, tuple values):
        """Return the task ids that an emit of these values would go to, for tests and microbenchmarks."""
        if not self.picks_one:
            return [self.to.task_ids[i] for i in self.pick_several(values)]
        return [self.to.task_ids[self.pick_one(values)]]


@cython.final
cdef class OutStream:
    """One stream that a task emits, with its Source and the outlets of all subscribers.

    `origins` is for a direct stream of a task in another process: the Source for each target task. `given` are the fields that a spout emits, if
    a RowStamp makes other rows of them.
    """

    def __init__(self, Source origin, list outlets, *, bint direct=False, dict origins=None, given=None):
        cdef Outlet outlet
        self.origins = origins
        self.origin = origin
        self.given = origin.fields if given is None else given
        self.arity = origin.arity if given is None else len(given)
        self.outlets = outlets
        self.direct = direct
        self.only = None
        if len(outlets) == 1:
            outlet = outlets[0]
            if outlet.picks_one:
                self.only = outlet


@cython.final
cdef class SentCounts:
    """Number of tuples that a task has sent to each of its targets, since a mark or for one batch."""

    def __cinit__(self, Py_ssize_t targets):
        self.targets = targets
        self.count = <uint64_t*>calloc(targets + 1, sizeof(uint64_t))
        if self.count == NULL:
            raise MemoryError("no memory for counts")

    def __dealloc__(self):
        free(self.count)


@cython.final
cdef class BoltBacklog:
    """Number of bolts of a run that have more than a burst waiting. Spouts give way to them."""

    @property
    def bolts_behind(self):
        return self.behind


@cython.final
cdef class UserMethod:
    """A callable of user code. A bound method is stored as its function and its owner.

    A call then needs no bound-method object.
    """

    def __init__(self, function):
        self.bound = type(function) is MethodType
        self.function = function.__func__ if self.bound else function
        self.owner = function.__self__ if self.bound else None
        self.enter = PyVectorcall_Function(self.function)     # the call that PyObject_Vectorcall would choose each time
        if self.enter == NULL:
            self.enter = PyObject_Vectorcall


cdef class TaskCore:
    """Base of a spout's and a bolt's core.

    `now()` returns seconds. `misuse(kind, **what)` returns the error for a wrong use of the API. `ackers` is a list of SignalRing.
    """

    def __init__(self, int32_t task_id, *, EdgeIds ids, list ackers, now, misuse, BoltBacklog backlog, double slow_call_secs=0.5):
        self.task_id = task_id
        self.backpressure = Backpressure()
        self.ids = ids
        self.ackers = ackers
        self.acker_count = len(ackers)
        free(self.acker)
        self.acker = <PyObject**>calloc(len(ackers) + 1, sizeof(PyObject*))
        if self.acker == NULL:
            raise MemoryError("no memory for a task")
        for i in range(len(ackers)):
            if not isinstance(ackers[i], SignalRing):
                raise TypeError(f"TaskCore: acker {i} must be a SignalRing, not {ackers[i]!r}")
            self.acker[i] = <PyObject*>ackers[i]
        self.streams = {}
        self.now = now
        self.misuse = misuse
        self.backlog = backlog
        self.slow_call_secs = slow_call_secs
        self.stride, self.most_calls_per_lap = 1, MOST_CALLS_PER_LAP
        self.usual_call = FIRST_CALL
        self.thread = PyThreadState_Get()

    def __dealloc__(self):
        free(self.acker)

    def wire(self, dict streams):
        """Set the streams of the task, by name."""
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
        found = self.streams.get(stream) if isinstance(stream, str) else None
        if found is None:
            raise self.misuse("unknown_stream", stream=stream)
        return <OutStream>found

    cdef tuple checked(self, object values, OutStream stream):
        """Return values as a tuple of the stream's arity."""
        if type(values) is not tuple:
            if PyTuple_Check(values):      # such as a NamedTuple, which `tuple()` would iterate over
                values = PyTuple_GetSlice(values, 0, PyTuple_GET_SIZE(values))
            elif PyList_Check(values):
                values = tuple(values)
            else:
                raise self.misuse("not_values", stream=stream.origin.stream, values=values)
        if len(<tuple>values) != stream.arity:
            raise self.misuse("arity", stream=stream.origin.stream, values=values, fields=stream.given)
        return <tuple>values

    cdef int wrong_thread(self) except -1:
        raise self.misuse("thread")

    cdef Py_ssize_t target_of(self, Outlet outlet, tuple values) except -1:
        try:
            return outlet.pick_one(values)
        except Exception as error:
            keys = [values[outlet.positions[i]] for i in range(outlet.keys)]
            raise self.misuse("key", names=outlet.names, keys=keys, error=error) from error

    cdef list targets_of(self, Outlet outlet, tuple values):
        if outlet.choice != CUSTOM:
            return outlet.pick_several(values)
        chosen = outlet.chooser(values)
        try:
            return [outlet.index_of[task] for task in chosen]
        except (KeyError, TypeError) as error:
            raise self.misuse("custom_target", chosen=chosen, targets=outlet.to.task_ids) from error

    cdef int note_sent(self, Outlet outlet, Py_ssize_t target, Tuple tup) except -1:
        """Count or trace a delivery, if a mark or a trace is on."""
        if self.rare_paths & COUNTS_SENT and not tup.flags & IS_CONTROL:
            self.counting.count[outlet.first + target] += 1
        if self.rare_paths & TRACES and tup.root != 0:
            self.trace("sent", tup.roots, outlet.ids[target])
        return 0

    # Time. A turn is one run_burst. A lap consists of the calls between two readings of the clock.

    cdef int begin_turn(self) except -1:
        self.turn_start = self.lap_start = self.now()
        self.now_ms = <uint32_t><uint64_t>(self.turn_start * 1000.0)
        return 0

    cdef bint end_lap(self, Py_ssize_t calls) except -1:
        """Read the clock after some calls, and adapt the stride. True if the turn is over."""
        cdef double at = self.now()
        cdef double took = at - self.lap_start
        self.lap_start = at
        self.now_ms = <uint32_t><uint64_t>(at * 1000.0)
        self.lap_secs += took
        if took >= self.slow_call_secs or self.suspect != 0.0:
            self.note_slow(took, calls)
        if calls > 0:
            self.usual_call = took / calls
        if took > LONG_LAP:
            self.stride = max(1, <Py_ssize_t>(self.stride * LONG_LAP / took))
        elif took < SHORT_LAP and calls >= self.stride and self.stride < self.most_calls_per_lap:
            self.stride *= 2
        return at - self.turn_start >= TURN_SECS

    cdef Py_ssize_t fitting(self, Py_ssize_t most) noexcept:
        """Return the number of tuples that a turn has time for, as the last ones took. At least 1, at most `most`."""
        return max(1, <Py_ssize_t>(TURN_SECS / self.usual_call)) if most * self.usual_call > TURN_SECS else most

    cdef int note_slow(self, double took, Py_ssize_t calls) except -1:
        """Note a call that took too long.

        In a lap of several calls, one call may have been slow, or all calls slightly slow. The next lap decides, because its stride is 1.
        """
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

    @property
    def busy_secs(self):
        """Time of all calls in seconds. Awaited calls count from begin to end."""
        return self.lap_secs + self.awaited_secs

    @property
    def plain_secs(self):
        """Part of `busy_secs` that plain calls and emits held the loop."""
        return self.lap_secs

    def add_plain_secs(self, double secs):
        """Count time of emits that the executor made on the loop between two turns."""
        self.lap_secs += secs

    def add_awaited_secs(self, double secs):
        """Count the time of a call that the executor awaited, from begin to end. A bolt's call that returns uses `end_call`."""
        self.awaited_secs += secs

    def take_slow_call(self):
        """Return and forget the longest call over slow_call_secs, in seconds. 0 if there was none."""
        slowest, self.slowest_call = self.slowest_call, 0.0
        return slowest

    @property
    def transferred(self):
        """Number of tuples sent, one for each task that an emit went to."""
        cdef OutStream stream
        cdef Outlet outlet
        cdef uint64_t total = 0
        for stream in self.streams.values():
            for outlet in stream.outlets:
                total += outlet.sent
        return total

    def sent_by_outlet(self):
        """Return (stream, task ids of the targets, number of tuples sent) for each outlet."""
        cdef OutStream stream
        cdef Outlet outlet
        return [(name, outlet.to.task_ids, outlet.sent) for name, stream in self.streams.items() for outlet in stream.outlets]

    def count_sent(self, bint on):
        """Return the tuples sent to each task since the last mark. Then set a new mark if `on`, else stop counting."""
        counted = self.counts_by_task(self.counting) if self.rare_paths & COUNTS_SENT else {}
        self.counting = SentCounts(self.targets) if on else None
        self.rare_paths = self.rare_paths | COUNTS_SENT if on else self.rare_paths & ~<uint32_t>COUNTS_SENT
        return counted

    cdef dict counts_by_task(self, SentCounts counts):
        """Return task id -> number of tuples over all streams. Omits targets that got none."""
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
        """Call trace(event, roots, task) for every delivery and settle of a tracked tuple. None stops the calls."""
        self.trace = trace
        self.rare_paths = self.rare_paths | TRACES if trace is not None else self.rare_paths & ~<uint32_t>TRACES

    @property
    def is_traced(self):
        """True while the task calls a trace or a watch."""
        return (self.rare_paths & (TRACES | WATCHES)) != 0
