"""The two queues between actors: bounded mailboxes of tuples, and rings of signals that never refuse."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint64_t

from _native.tuples cimport Tuple

cdef class Emitter:
    cdef readonly Py_ssize_t stopped_by   # full mailboxes and holds that stop this task
    cdef object on_resume                 # rings the task's doorbell

    cdef int stop(self) except -1
    cdef int resume(self) except -1

cdef class Mailbox:
    cdef PyObject** ring
    cdef Py_ssize_t mask                  # ring slots - 1, a power of two
    cdef Py_ssize_t head, tail            # count = tail - head; both start again at 0 when the ring runs empty
    cdef Py_ssize_t threshold             # the count from which a post has more to do: 0 parked, else grow or full
    cdef readonly Py_ssize_t capacity
    cdef readonly bint parked
    cdef object on_wake
    cdef list stopped                     # emitters that wait for the mailbox to drain to half

    cdef int make_way(self, PyObject* emitter) except -1
    cdef int grow(self) except -1
    cdef int resume_emitters(self) except -1
    cdef void set_threshold(self) noexcept


cdef inline int post(Mailbox box, Tuple tup, PyObject* emitter) except -1:
    """Put tup behind all others. A full mailbox takes it too and stops the emitter (borrowed; NULL: nobody is stopped)."""
    if box.tail - box.head >= box.threshold:
        box.make_way(emitter)
    Py_INCREF(tup)
    box.ring[box.tail & box.mask] = <PyObject*>tup
    box.tail += 1
    return 0


cdef inline PyObject* take(Mailbox box) noexcept:
    """The oldest tuple, whose reference passes to the caller; NULL when empty."""
    cdef PyObject* tup
    if box.head == box.tail:
        return NULL
    tup = box.ring[box.head & box.mask]
    box.head += 1
    if box.head == box.tail:
        box.head = box.tail = 0           # stay in the same cache lines
    return tup


cdef inline bint drained_to_half(Mailbox box) noexcept:
    return box.stopped is not None and (box.tail - box.head) * 2 <= box.capacity


cdef enum SignalKind:
    # to an acker
    INIT = 1        # root, XOR of the edges, spout task
    ACK = 2         # root, edge ^ ack value
    FAIL = 3        # root; one object beside the ring: the Failure
    RESET = 4       # root
    DROP = 5        # the spout instance of `task` died
    ROTATE = 6
    OWN_CLOCK = 7   # root; one object beside the ring: its timeout in seconds. Comes before its INIT
    # to a spout task
    ACKED = 16      # root
    FAILED = 17     # root; one object beside the ring: the Failure
    ACKER_DIED = 18 # value: the acker's index
    SETTLED_AT = 19 # root, value: the bits of a double, the seconds; task: who settled it
    REPLY = 20      # root; one object beside the ring: what a task answers to a control tuple; task: who

cdef struct Signal:
    uint64_t root
    uint64_t value
    int32_t task
    int32_t kind

cdef class SignalRing:
    cdef Signal* ring
    cdef Py_ssize_t mask
    cdef Py_ssize_t head, tail
    cdef Py_ssize_t threshold             # 0 parked, else the ring's size
    cdef readonly bint parked
    cdef object on_wake
    cdef readonly object objects          # deque: what FAIL, OWN_CLOCK, FAILED and REPLY carry, in the ring's order

    cdef int make_way(self) except -1
    cdef int run_empty(self) except -1


cdef inline int signal(SignalRing to, SignalKind kind, uint64_t root, uint64_t value, int32_t task) except -1:
    if to.tail - to.head >= to.threshold:
        to.make_way()
    cdef Signal* slot = &to.ring[to.tail & to.mask]
    slot.root = root
    slot.value = value
    slot.task = task
    slot.kind = kind
    to.tail += 1
    return 0


cdef inline int signal_with(SignalRing to, SignalKind kind, uint64_t root, int32_t task, object carried) except -1:
    to.objects.append(carried)
    return signal(to, kind, root, 0, task)
