"""Mailboxes and signal rings: C rings that grow on demand, wake a parked consumer, and (mailboxes) stop their emitters.

Nothing polls: a consumer that found nothing parks, and the next post calls `on_wake` once. A mailbox is bounded by stopping
whoever posts to it: the tuple that fills it goes in, its emitter calls no user code until the mailbox has drained to
half (BP-1, BP-2). So the bound is passed by at most what one user call of each emitter emits.
"""
from collections import deque

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
cimport cython

cdef enum:
    FIRST_SLOTS = 64
    IDLE_SLOTS = 65536     # a signal ring larger than this gives its memory back when it runs empty


@cython.final
cdef class Emitter:
    """The right of a task to emit: stopped while a mailbox that it fed is full, or a hold stops it."""

    def __init__(self, on_resume=None):
        self.on_resume = on_resume

    cdef int stop(self) except -1:
        self.stopped_by += 1
        return 0

    cdef int resume(self) except -1:
        self.stopped_by -= 1
        if self.stopped_by == 0 and self.on_resume is not None:
            self.on_resume()
        return 0

    def set_on_resume(self, on_resume):
        """Call on_resume() when the last stop is lifted."""
        self.on_resume = on_resume


@cython.final
cdef class Mailbox:
    """A bounded FIFO of tuples with one consumer. `capacity` in tuples, at least 2."""

    def __cinit__(self, Py_ssize_t capacity=32768, on_wake=None):
        if capacity < 2:
            raise ValueError(f"a mailbox holds at least 2 tuples, not {capacity}")
        self.capacity = capacity
        self.on_wake = on_wake
        self.ring = <PyObject**>malloc(FIRST_SLOTS * sizeof(PyObject*))
        if self.ring == NULL:
            raise MemoryError("no memory for a mailbox")
        self.mask = FIRST_SLOTS - 1
        self.set_threshold()

    def __dealloc__(self):
        cdef PyObject* tup
        if self.ring != NULL:
            while True:
                tup = take(self)
                if tup == NULL:
                    break
                Py_DECREF(<object>tup)
            free(self.ring)

    cdef void set_threshold(self) noexcept:
        if self.parked:
            self.threshold = 0
        else:
            self.threshold = min(self.mask + 1, self.capacity - 1)

    cdef int make_way(self, PyObject* raw_emitter) except -1:
        """What a post has to do beyond storing: wake the consumer, grow the ring, stop the emitter."""
        cdef Py_ssize_t count = self.tail - self.head
        cdef Emitter emitter
        if count > self.mask:
            self.grow()
        if self.parked:
            self.parked = False
            self.set_threshold()
            if self.on_wake is not None:
                self.on_wake()
        if count + 1 >= self.capacity and raw_emitter != NULL:
            emitter = <Emitter>raw_emitter
            if self.stopped is None:
                self.stopped = []
            if emitter not in self.stopped:
                self.stopped.append(emitter)
                emitter.stop()
        return 0

    cdef int grow(self) except -1:
        """Double the ring; entries keep their positions, so a walk that is under way stays right."""
        cdef Py_ssize_t slots = (self.mask + 1) * 2, i
        cdef PyObject** fresh = <PyObject**>malloc(slots * sizeof(PyObject*))
        if fresh == NULL:
            raise MemoryError(f"no memory for a mailbox of {slots} tuples")
        for i in range(self.head, self.tail):
            fresh[i & (slots - 1)] = self.ring[i & self.mask]
        free(self.ring)
        self.ring = fresh
        self.mask = slots - 1
        self.set_threshold()
        return 0

    cdef int resume_emitters(self) except -1:
        """Let those go on that were stopped here; for when drained_to_half()."""
        cdef Emitter emitter
        stopped, self.stopped = self.stopped, None
        for emitter in stopped:
            emitter.resume()
        return 0

    def park(self):
        """Ask for one on_wake() at the next post; False, and no wake, if something waits already."""
        if self.head != self.tail:
            return False
        self.parked = True
        self.threshold = 0
        return True

    def unpark(self):
        """Take the request of park() back: the consumer woke for another reason."""
        self.parked = False
        self.set_threshold()

    def set_on_wake(self, on_wake):
        self.on_wake = on_wake

    def post(self, Tuple tup, Emitter emitter=None):
        """Put tup behind all others, for tests and rare paths."""
        post(self, tup, <PyObject*>emitter if emitter is not None else NULL)

    def take(self):
        """The oldest tuple, or None; lets stopped emitters go on when the mailbox has drained to half."""
        cdef PyObject* raw = take(self)
        if raw == NULL:
            return None
        tup = <Tuple>raw
        Py_DECREF(tup)
        if drained_to_half(self):
            self.resume_emitters()
        return tup

    def waiting(self):
        """The tuples in the mailbox, oldest first."""
        return [<Tuple>self.ring[i & self.mask] for i in range(self.head, self.tail)]

    def __len__(self):
        return self.tail - self.head

    @property
    def full(self):
        """True when an emitter that posts now is stopped."""
        return self.tail - self.head >= self.capacity

    @property
    def nbytes(self):
        return (self.mask + 1) * sizeof(PyObject*)


@cython.final
cdef class SignalRing:
    """An unbounded FIFO of signals with one consumer; open trees bound it (BP-5)."""

    def __cinit__(self, on_wake=None):
        self.on_wake = on_wake
        self.objects = deque()
        self.ring = <Signal*>malloc(FIRST_SLOTS * sizeof(Signal))
        if self.ring == NULL:
            raise MemoryError("no memory for a ring of signals")
        self.mask = FIRST_SLOTS - 1
        self.threshold = FIRST_SLOTS

    def __dealloc__(self):
        free(self.ring)

    cdef int make_way(self) except -1:
        """Wake a parked consumer, or double a full ring."""
        cdef Py_ssize_t slots = self.mask + 1, i
        cdef Signal* fresh
        if self.tail - self.head > self.mask:
            fresh = <Signal*>malloc(2 * slots * sizeof(Signal))
            if fresh == NULL:
                raise MemoryError(f"no memory for {2 * slots} signals")
            for i in range(self.head, self.tail):
                fresh[i - self.head] = self.ring[i & self.mask]
            free(self.ring)
            self.ring, self.mask = fresh, 2 * slots - 1
            self.head, self.tail = 0, self.tail - self.head
        self.threshold = self.mask + 1
        if self.parked:
            self.parked = False
            if self.on_wake is not None:
                self.on_wake()
        return 0

    cdef int run_empty(self) except -1:
        """Start again at 0; for a consumer that has taken everything."""
        self.head = self.tail = 0
        if self.mask + 1 > IDLE_SLOTS:
            free(self.ring)
            self.mask = FIRST_SLOTS - 1
            self.threshold = FIRST_SLOTS
            self.ring = <Signal*>malloc(FIRST_SLOTS * sizeof(Signal))
            if self.ring == NULL:
                raise MemoryError("no memory for a ring of signals")
        return 0

    def park(self):
        """Ask for one on_wake() at the next signal; False if something waits already."""
        if self.head != self.tail:
            return False
        self.parked = True
        self.threshold = 0
        return True

    def unpark(self):
        self.parked = False
        self.threshold = self.mask + 1

    def set_on_wake(self, on_wake):
        self.on_wake = on_wake

    def signal(self, SignalKind kind, uint64_t root=0, uint64_t value=0, int32_t task=-1, carried=None):
        """Put one signal in, for rare paths and tests; `carried` is the object of a FAIL, OWN_CLOCK, FAILED or REPLY."""
        if kind == FAIL or kind == FAILED or kind == OWN_CLOCK or kind == REPLY:
            self.objects.append(carried)
        signal(self, kind, root, value, task)

    def clear(self):
        """Drop all that waits: the consumer died."""
        self.objects.clear()
        self.run_empty()

    def waiting(self):
        """What waits, as (kind, root, value, task), oldest first."""
        return [(self.ring[i & self.mask].kind, self.ring[i & self.mask].root, self.ring[i & self.mask].value,
                 self.ring[i & self.mask].task) for i in range(self.head, self.tail)]

    def __len__(self):
        return self.tail - self.head

    @property
    def nbytes(self):
        return (self.mask + 1) * sizeof(Signal)
