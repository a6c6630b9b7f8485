"""Queues of tasks and ackers. These are mailboxes, signal rings, and the tuples that a bolt task holds back for checkpoints.

Mailboxes and signal rings are C rings that grow on demand and wake a parked consumer. No consumer polls. A consumer that finds nothing
parks, and the next post calls `on_wake` once. A mailbox is bounded because it stops its senders. It accepts the tuple that fills it, and
the sender calls no user code until the mailbox has drained to half (BP-1, BP-2). So the bound is exceeded by at most the tuples that one
user call of each sender emits.

`HeldTuples` stays with the task when its instance dies (CP-2). A task that holds nothing does not touch it.
"""
from collections import deque

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
cimport cython

from _native.tuples cimport IS_CONTROL, Tuple, is_mark


cdef enum:
    FIRST_SLOTS = 64
    IDLE_SLOTS = 65536     # a larger signal ring frees its memory when it runs empty after few signals


@cython.final
cdef class Backpressure:
    """The full mailboxes and holds that stop one task from emitting."""

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
        """Call on_resume() when the last stop ends."""
        self.on_resume = on_resume


@cython.final
cdef class Mailbox:
    """Bounded FIFO of tuples with one consumer. `capacity` in tuples, at least 2."""

    def __cinit__(self, Py_ssize_t capacity=32768, on_wake=None):
        if capacity < 2:
            raise ValueError(f"Mailbox: capacity is {capacity}, but must be at least 2 tuples")
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
                tup = take_tuple(self)
                if tup == NULL:
                    break
                Py_DECREF(<object>tup)
            free(self.ring)

    cdef void set_threshold(self) noexcept:
        if self.parked:
            self.threshold = 0
        else:
            self.threshold = min(self.mask + 1, self.capacity - 1)

    cdef int make_way(self, PyObject* raw_sender) except -1:
        """Do the rare work of a post. Wake the consumer, grow the ring, or stop the sender."""
        cdef Py_ssize_t count = self.tail - self.head
        cdef Backpressure sender
        if count > self.mask:
            self.grow()
        if self.parked:
            self.parked = False
            self.set_threshold()
            if self.on_wake is not None:
                self.on_wake()
        if count + 1 >= self.capacity and raw_sender != NULL:
            sender = <Backpressure>raw_sender
            if self.stopped is None:
                self.stopped = {}
            if sender not in self.stopped:
                self.stopped[sender] = None
                sender.stop()
        return 0

    cdef int grow(self) except -1:
        """Double the ring. Tuples keep their positions, so an iteration over them stays valid."""
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

    cdef int resume_senders(self) except -1:
        """Let the senders that this mailbox stopped continue. Called if has_drained()."""
        cdef Backpressure sender
        stopped, self.stopped = self.stopped, None
        for sender in stopped:
            sender.resume()
        return 0

    def park(self):
        """Request one on_wake() at the next post. Return False, without a request, if a tuple already waits."""
        if self.head != self.tail:
            return False
        self.parked = True
        self.threshold = 0
        return True

    def unpark(self):
        """Withdraw the request of park(), because something else woke the consumer."""
        self.parked = False
        self.set_threshold()

    def set_on_wake(self, on_wake):
        self.on_wake = on_wake

    def post(self, Tuple tup, Backpressure sender=None):
        """Append tup, for tests and rare paths."""
        post_tuple(self, tup, <PyObject*>sender if sender is not None else NULL)

    def take(self):
        """Take the oldest tuple, or None. Stopped senders continue when the mailbox has drained to half."""
        cdef PyObject* raw = take_tuple(self)
        if raw == NULL:
            return None
        tup = <Tuple>raw
        Py_DECREF(tup)
        if has_drained(self):
            self.resume_senders()
        return tup

    def waiting(self):
        """Return the tuples in the mailbox, oldest first."""
        return [<Tuple>self.ring[i & self.mask] for i in range(self.head, self.tail)]

    def __len__(self):
        return self.tail - self.head

    @property
    def full(self):
        """True if the mailbox has `capacity` tuples or more."""
        return self.tail - self.head >= self.capacity

    @property
    def nbytes(self):
        return (self.mask + 1) * sizeof(PyObject*)


@cython.final
cdef class SignalRing:
    """FIFO of signals with one consumer. It has no capacity of its own, but the number of open trees bounds it (BP-5)."""

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

    cdef int make_way(self, Py_ssize_t count=1) except -1:
        """Wake a parked consumer, and double the ring until it has room for count more signals."""
        cdef Py_ssize_t slots = self.mask + 1, i
        cdef Signal* fresh
        while self.tail - self.head + count > slots:
            slots *= 2
        if slots > self.mask + 1:
            fresh = <Signal*>malloc(slots * sizeof(Signal))
            if fresh == NULL:
                raise MemoryError(f"no memory for {slots} signals")
            for i in range(self.head, self.tail):
                fresh[i - self.head] = self.ring[i & self.mask]
            free(self.ring)
            self.ring, self.mask = fresh, slots - 1
            self.head, self.tail = 0, self.tail - self.head
        self.threshold = self.mask + 1
        if self.parked:
            self.parked = False
            if self.on_wake is not None:
                self.on_wake()
        return 0

    cdef int reset_empty(self) except -1:
        """Reset the positions to 0. Called by a consumer that has taken all signals.

        A large ring keeps its memory while it is needed again and again, as that of held acks at each checkpoint. Otherwise the
        pages would come from the system each time, and clearing them costs more than the signals.
        """
        cdef Py_ssize_t sent = self.tail
        self.head = self.tail = 0
        if self.mask + 1 > IDLE_SLOTS and sent * 8 < self.mask:
            free(self.ring)
            self.mask = FIRST_SLOTS - 1
            self.threshold = FIRST_SLOTS
            self.ring = <Signal*>malloc(FIRST_SLOTS * sizeof(Signal))
            if self.ring == NULL:
                raise MemoryError("no memory for a ring of signals")
        return 0

    def park(self):
        """Request one on_wake() at the next signal. Return False if a signal already waits."""
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
        """Send one signal, for rare paths and tests. `carried` is the object of a FAIL, OWN_CLOCK, FAILED or REPLY."""
        if kind == FAIL or kind == FAILED or kind == OWN_CLOCK or kind == REPLY:
            self.objects.append(carried)
        send_signal(self, kind, root, value, task)

    def clear(self):
        """Drop all signals, because the consumer died."""
        self.objects.clear()
        self.reset_empty()

    def waiting(self):
        """Return the signals as (kind, root, value, task), oldest first."""
        return [(self.ring[i & self.mask].kind, self.ring[i & self.mask].root, self.ring[i & self.mask].value,
                 self.ring[i & self.mask].task) for i in range(self.head, self.tail)]

    def __len__(self):
        return self.tail - self.head

    @property
    def nbytes(self):
        return (self.mask + 1) * sizeof(Signal)


@cython.final
cdef class HeldTuples:
    """Tuples that a bolt task holds back, in order. The bound of the mailbox does not apply to them.

    These are the tuples of held sources, and the sources are stopped meanwhile. While the gate is closed, these are the tuples of all
    sources, and no source is stopped.
    """

    def __init__(self):
        self.held = {}
        self.released = deque()

    def hold(self, int source_task, Backpressure sender):
        """Hold back tuples of source_task from now on, and stop that task. False if it is already held."""
        if source_task in self.held:
            return False
        self.held[source_task] = []
        sender.stop()
        return True

    def release(self, int source_task, Backpressure sender):
        """Put the held tuples of source_task next in line, in order, and let that task continue."""
        tuples_held = self.held.pop(source_task, None)
        if tuples_held is not None:
            self.released.extend(tuples_held)
            sender.resume()

    def set_gate(self, bint closed):
        """Hold back tuples of all sources except barriers, or put the held tuples next in line, in order."""
        if closed and self.gated is None:
            self.gated = deque()
        elif not closed and self.gated is not None:
            self.released.extend(self.gated)
            self.gated = None

    cdef bint holds_back(self, Tuple tup) except -1:
        """Hold tup back if the gate is closed, or its source is held."""
        if self.gated is not None:
            if tup.flags & IS_CONTROL and not is_mark(tup):
                return False
            self.gated.append(tup)
            return True
        tuples_held = self.held.get(tup.origin.task_id)
        if tuples_held is None:
            return False
        tuples_held.append(tup)
        return True

    def tuples(self):
        """Return all tuples that are held back or next in line."""
        return [tup for tuples_held in (*self.held.values(), self.gated or (), self.released) for tup in tuples_held]

    def clear(self):
        """Drop all tuples, at the end of a run."""
        self.held.clear()
        self.released.clear()
        self.gated = None

    def __len__(self):
        return sum(len(tuples_held) for tuples_held in self.held.values()) + len(self.released) + len(self.gated or ())
