"""Queues of tasks and ackers. These are mailboxes, signal rings, and the tuples and acks that a bolt task holds back for checkpoints.

Mailboxes and signal rings are C rings that grow on demand and wake a parked consumer. No consumer polls. A consumer that finds nothing
parks, and the next post calls `on_wake` once. A mailbox is bounded because it stops its senders. It accepts the tuple that fills it, and
the sender calls no user code until the mailbox has drained to half (BP-1, BP-2). So the bound is exceeded by at most the tuples that one
user call of each sender emits.

`HeldTuples` and `DeferredAcks` stay with the task when its instance dies (CP-2, CP-5). A task that neither holds nor defers does not
touch them.
"""
from collections import deque

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
cimport cython

from _native.tuples cimport IS_CONTROL, Tuple


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

        A large ring keeps its memory while it is needed again and again, as that of deferred acks at each checkpoint. Otherwise the
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
        """Hold back tuples of all sources except control tuples, or put the held tuples next in line, in order."""
        if closed and self.gated is None:
            self.gated = deque()
        elif not closed and self.gated is not None:
            self.released.extend(self.gated)
            self.gated = None

    cdef bint holds_back(self, Tuple tup) except -1:
        """Hold tup back if the gate is closed, or its source is held."""
        if self.gated is not None:
            if tup.flags & IS_CONTROL:
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


@cython.final
cdef class DeferredAcks:
    """Acks of a bolt task that wait for a commit, as (root, value). They are first deferred, then prepared, then released.

    Consecutive acks of one root become one entry, because the acker would XOR their values anyway (ACK-2). Tuples of one root mostly
    arrive one after the other, so no table is needed.
    """

    def __init__(self, list ackers not None, int32_t task_id):
        self.ackers, self.task_id = ackers, task_id
        self.joined_at = -1
        self.deferred, self.prepared = SignalRing(), SignalRing()

    def prepare(self):
        """Move all deferred acks to the prepared ones. Return the number of roots that wait for a commit."""
        cdef SignalRing old = self.deferred
        if self.prepared.head == self.prepared.tail:
            self.deferred, self.prepared = self.prepared, old
        else:
            move_signals(self.prepared, old, old.tail - old.head)
            old.reset_empty()
        return self.prepared.tail - self.prepared.head

    def release_prepared(self, Py_ssize_t limit):
        """Send up to limit prepared acks to their ackers, and return how many are left."""
        return self.drain(self.prepared, limit)

    def release_earlier(self):
        """Send all deferred acks that the running call has not added. Each root must have one ack only, because no ack may be joined."""
        self.drain(self.deferred, self.before_call)
        self.before_call = 0

    def clear(self):
        """Forget all acks. Their trees fail in another way."""
        self.before_call, self.joined_at, self.joined_value = 0, -1, 0
        self.deferred, self.prepared = SignalRing(), SignalRing()

    cdef SignalRing ring_of(self, uint64_t root):
        return self.ackers[<Py_ssize_t>(root % <uint64_t>len(self.ackers))]

    cdef int defer_foreign(self, uint64_t root, uint64_t value) except -1:
        """Defer an ack of other code than the running call. It goes before the acks of the call, so that `take_back` keeps it."""
        cdef SignalRing ring = self.deferred
        cdef Py_ssize_t there, here
        send_signal(ring, ACK, root, value, self.task_id)
        there, here = (ring.head + self.before_call) & ring.mask, (ring.tail - 1) & ring.mask
        ring.ring[there], ring.ring[here] = ring.ring[here], ring.ring[there]
        self.before_call += 1
        return 0

    cdef int take_back(self, object reason) except -1:
        """Fail the acks of the running call, because the call raised (SV-2)."""
        cdef SignalRing ring = self.deferred
        cdef Signal* joined
        cdef uint64_t root
        while ring.tail - ring.head > self.before_call:
            ring.tail -= 1
            root = ring.ring[ring.tail & ring.mask].root
            send_signal_with(self.ring_of(root), FAIL, root, self.task_id, reason)
        if self.joined_at >= 0:
            joined = &ring.ring[(ring.head + self.joined_at) & ring.mask]
            joined.value ^= self.joined_value
            self.joined_at, self.joined_value = -1, 0
            send_signal_with(self.ring_of(joined.root), FAIL, joined.root, self.task_id, reason)
        return 0

    cdef Py_ssize_t drain(self, SignalRing ring, Py_ssize_t limit) except -1:
        cdef Py_ssize_t count = min(limit, ring.tail - ring.head), i
        cdef Signal* entry
        self.released += count
        if len(self.ackers) == 1:
            move_signals(<SignalRing>self.ackers[0], ring, count)
            count = 0
        for i in range(count):
            entry = &ring.ring[ring.head & ring.mask]
            ring.head += 1
            send_signal(self.ring_of(entry.root), ACK, entry.root, entry.value, self.task_id)
        if ring.head == ring.tail:
            ring.reset_empty()
        return ring.tail - ring.head

    def refresh(self, Py_ssize_t position, Py_ssize_t limit):
        """Restart the timeout of up to limit roots from position on. Return the next position, -1 at the end (ACK-8)."""
        cdef SignalRing ring
        cdef Py_ssize_t at, passed = 0
        cdef uint64_t root
        for ring in (self.prepared, self.deferred):
            for at in range(ring.head + max(0, position - passed), ring.tail):
                if limit == 0:
                    return position
                root = ring.ring[at & ring.mask].root
                send_signal(self.ring_of(root), RESET, root, 0, self.task_id)
                position += 1
                limit -= 1
            passed += ring.tail - ring.head
        return -1

    def __len__(self):
        return (self.deferred.tail - self.deferred.head) + (self.prepared.tail - self.prepared.head)
