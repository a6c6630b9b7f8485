"""Queues of tasks and ackers. These are mailboxes, signal rings, and the tuples and acks that a bolt task holds back for checkpoints."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint64_t

from _native.tuples cimport Tuple

cdef class Backpressure:
    cdef readonly Py_ssize_t stopped_by   # full mailboxes and holds that stop this task
    cdef object on_resume                 # sets the wake-up event of the task

    cdef int stop(self) except -1
    cdef int resume(self) except -1

cdef class Mailbox:
    cdef PyObject** ring
    cdef Py_ssize_t mask                  # ring slots - 1, a power of two
    cdef Py_ssize_t head, tail            # count = tail - head; both restart at 0 when the ring runs empty
    cdef Py_ssize_t threshold             # a post at this count or above calls make_way; 0 while the consumer is parked
    cdef readonly Py_ssize_t capacity
    cdef readonly bint parked
    cdef object on_wake
    cdef dict stopped                     # keys: Backpressure of each task that waits until the mailbox has drained to half

    cdef int make_way(self, PyObject* sender) except -1
    cdef int grow(self) except -1
    cdef int resume_senders(self) except -1
    cdef void set_threshold(self) noexcept


cdef inline int post_tuple(Mailbox box, Tuple tup, PyObject* sender) except -1:
    """Append tup. A full mailbox also accepts it, and stops the sender. The sender is a borrowed Backpressure, or NULL to stop nobody."""
    if box.tail - box.head >= box.threshold:
        box.make_way(sender)
    Py_INCREF(tup)
    box.ring[box.tail & box.mask] = <PyObject*>tup
    box.tail += 1
    return 0


cdef inline PyObject* take_tuple(Mailbox box) noexcept:
    """Take the oldest tuple, and pass its reference to the caller. NULL if the mailbox is empty."""
    cdef PyObject* tup
    if box.head == box.tail:
        return NULL
    tup = box.ring[box.head & box.mask]
    box.head += 1
    if box.head == box.tail:
        box.head = box.tail = 0           # so that the ring stays in the same cache lines
    return tup


cdef inline bint has_drained(Mailbox box) noexcept:
    """Return True if stopped senders may continue, because the mailbox is at most half full."""
    return box.stopped is not None and (box.tail - box.head) * 2 <= box.capacity


cdef enum SignalKind:
    # to an acker
    INIT = 1        # root, XOR of the edges, spout task
    ACK = 2         # root, edge ^ ack value
    FAIL = 3        # root; edge ^ ack value, 0 if it is not known; one object beside the ring: the Failure
    RESET = 4       # root
    DROP = 5        # the spout instance of `task` died
    ROTATE = 6
    OWN_CLOCK = 7   # root; one object beside the ring: its timeout in seconds. Sent before the INIT of the root
    # to a spout task
    ACKED = 16      # root
    FAILED = 17     # root; value 1: all its tuples are settled, and none has had an effect; one object beside the ring: the Failure
    ACKER_DIED = 18 # value: the acker's index
    SETTLED_AT = 19 # root, value: the bits of a double, in seconds; task: the one that settled
    REPLY = 20      # root, answering task; one object beside the ring: the answer to a control tuple
    RELEASED = 21   # root: acked, and held until the commit with all effects of its tree

cdef struct Signal:
    uint64_t root
    uint64_t value
    int32_t task
    int32_t kind

cdef class SignalRing:
    cdef Signal* ring
    cdef Py_ssize_t mask
    cdef Py_ssize_t head, tail
    cdef Py_ssize_t threshold             # 0 while parked, else the size of the ring
    cdef readonly bint parked
    cdef object on_wake
    cdef readonly object objects          # deque: the objects of FAIL, OWN_CLOCK, FAILED and REPLY, in the ring's order

    cdef int make_way(self, Py_ssize_t count=*) except -1
    cdef int reset_empty(self) except -1


cdef inline int send_signal(SignalRing to, SignalKind kind, uint64_t root, uint64_t value, int32_t task) except -1:
    if to.tail - to.head >= to.threshold:
        to.make_way()
    cdef Signal* slot = &to.ring[to.tail & to.mask]
    slot.root = root
    slot.value = value
    slot.task = task
    slot.kind = kind
    to.tail += 1
    return 0


cdef inline int move_signals(SignalRing to, SignalRing source, Py_ssize_t count) except -1:
    """Move the oldest signals of source, which carry no objects."""
    cdef Py_ssize_t i
    if to.tail - to.head + count > to.threshold:
        to.make_way(count)
    for i in range(count):
        to.ring[(to.tail + i) & to.mask] = source.ring[(source.head + i) & source.mask]
    to.tail += count
    source.head += count
    return 0


cdef inline int send_signal_with(SignalRing to, SignalKind kind, uint64_t root, int32_t task, object carried, uint64_t value=0) except -1:
    to.objects.append(carried)
    return send_signal(to, kind, root, value, task)


cdef class HeldTuples:
    cdef dict held                   # source task -> list of its tuples
    cdef object released             # deque: tuples that were held, next in line
    cdef object gated                # deque: tuples of all sources that arrived while the gate is closed; None while it is open

    cdef bint holds_back(self, Tuple tup) except -1
