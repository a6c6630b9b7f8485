"""Dispatch: which tasks an emit goes to.

An emit finds its OutStream, and each Outlet of it (one per subscription) chooses targets. Everything that can be decided when
the topology is wired stands in these objects; per tuple only the choice is left.
"""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
cimport cython

from _native.mailbox cimport Mailbox
from _native.stable_hash cimport group_of, stable_hash_at
from _native.tuples cimport Source


@cython.final
cdef class Outlet:
    """One subscription of one stream, as one emitting task sees it.

    `targets` are (task id, Mailbox) in order of task ids. `start` is the first shuffled target. `positions` and `names`
    are those of the grouped fields. `chooser(values)` gives the task ids of a custom grouping. `stops` is False where the edge closes
    a cycle (BP-5).
    """

    def __cinit__(self, Choice choice, list targets, *, Py_ssize_t start=0, positions=(), names=(), uint32_t key_groups=128,
                  chooser=None, bint stops=True):
        cdef Py_ssize_t i
        self.choice = choice
        self.tasks = len(targets)
        self.task_ids = [task_id for task_id, _ in targets]
        self.boxes = [box for _, box in targets]
        self.index_of = {task_id: i for i, task_id in enumerate(self.task_ids)}
        self.turn = start - 1
        self.key_groups = key_groups
        self.chooser = chooser
        self.stops = stops
        self.picks_one = choice not in (TO_ALL, CUSTOM, DIRECT)
        self.keys = len(positions)
        self.names = tuple(names)
        self.box = <PyObject**>calloc(self.tasks + 1, sizeof(PyObject*))
        self.ids = <int32_t*>calloc(self.tasks + 1, sizeof(int32_t))
        self.used = <uint64_t*>calloc(self.tasks + 1, sizeof(uint64_t))
        self.positions = <Py_ssize_t*>calloc(self.keys + 1, sizeof(Py_ssize_t))
        if self.box == NULL or self.ids == NULL or self.used == NULL or self.positions == NULL:
            raise MemoryError("no memory for an outlet")
        for i in range(self.tasks):
            if not isinstance(self.boxes[i], Mailbox):
                raise TypeError(f"target {self.task_ids[i]} has no mailbox: {self.boxes[i]!r}")
            self.box[i] = <PyObject*>self.boxes[i]
            self.ids[i] = self.task_ids[i]
        for i in range(self.keys):
            self.positions[i] = positions[i]

    def __dealloc__(self):
        free(self.box)
        free(self.ids)
        free(self.used)
        free(self.positions)

    cdef Py_ssize_t one(self, tuple values) except -1:
        """The target of values, for choices that pick one."""
        if self.choice == SHUFFLE:
            self.turn += 1
            if self.turn >= self.tasks:
                self.turn = 0
            return self.turn
        if self.choice == BY_FIELDS or self.choice == PARTIAL_KEY:
            return self.by_key(values)
        if self.choice == LEAST_LOADED:
            return self.least_loaded()
        return 0

    cdef Py_ssize_t by_key(self, tuple values) except -1:
        cdef uint64_t hashed = stable_hash_at(values, self.positions, self.keys)
        cdef Py_ssize_t first, second
        if self.choice == BY_FIELDS:
            return <Py_ssize_t>group_of(hashed, self.key_groups) * self.tasks // self.key_groups
        first = group_of(hashed, self.tasks)
        second = group_of((hashed ^ (hashed >> 31)) * <uint64_t>0xD6E8FEB86659FD93ULL, self.tasks)
        if self.used[second] < self.used[first]:
            first = second
        self.used[first] += 1
        return first

    cdef Py_ssize_t least_loaded(self) noexcept:
        """The target with the least queued work; the next in turn among equals."""
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

    cdef list several(self, tuple values):
        """The targets of values, for choices that may pick several; TypeError or KeyError where a chooser gave what is no target."""
        if self.choice == TO_ALL:
            return list(range(self.tasks))
        if self.choice == CUSTOM:
            return [self.index_of[task] for task in self.chooser(values)]
        return []      # direct: nobody without emit_direct

    def choose(self, tuple values):
        """The task ids that values go to: what an emit would do, for tests and microbenchmarks."""
        if not self.picks_one:
            return [self.task_ids[i] for i in self.several(values)]
        return [self.task_ids[self.one(values)]]


@cython.final
cdef class OutStream:
    """One stream that a task emits: its Source and the outlets of all its subscribers."""

    def __init__(self, Source origin, list outlets, *, bint direct=False):
        cdef Outlet outlet
        self.origin = origin
        self.arity = origin.arity
        self.outlets = outlets
        self.direct = direct
        self.only = None
        if len(outlets) == 1:
            outlet = outlets[0]
            if outlet.picks_one:
                self.only = outlet


@cython.final
cdef class SentCounts:
    """How many tuples an emitting task has sent to each of its targets: since a mark, or of one batch."""

    def __cinit__(self, Py_ssize_t targets):
        self.targets = targets
        self.count = <uint64_t*>calloc(targets + 1, sizeof(uint64_t))
        if self.count == NULL:
            raise MemoryError("no memory for counts")

    def __dealloc__(self):
        free(self.count)


@cython.final
cdef class Pulse:
    """How many bolts of a run have more than a burst waiting; spouts give way to them."""

    @property
    def bolts_behind(self):
        return self.behind
