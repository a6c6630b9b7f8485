"""A delivery: one tuple on its way to one task, its place in its trees, and the list of what its task took up."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef enum TupleState:
    WAITING = 0            # sent, not yet taken up by its task
    TAKEN = 1              # on its task's list: the task owes an ack or a fail
    SETTLED = 2
    FAILED_WITH_TASK = 3   # failed by the death of the instance, fail_taken or a rollback: later settles are ignored

cdef enum TupleFlag:
    MANY_ROOTS = 1         # `root` points to a Roots block
    IS_TICK = 2
    IS_CONTROL = 4         # a barrier or a batch report: goes to the executor, never to execute
    SAMPLED = 16           # its process latency is measured
    REPORTS_SETTLE = 8     # its spout task hears when this task settled it (flow control)

cdef struct RootEdge:
    uint64_t root
    uint64_t edge

cdef struct Roots:
    Py_ssize_t count
    RootEdge items[1]      # count of them

cdef class Source:
    cdef readonly str component_id
    cdef readonly str stream
    cdef readonly int32_t task_id
    cdef readonly object fields      # engine Fields
    cdef dict positions              # field name -> index
    cdef readonly Py_ssize_t arity

cdef class Tuple:
    cdef readonly tuple values
    cdef Source origin
    cdef PyObject* owner        # the TakenList, borrowed: set while TAKEN only; a list that dies lets go of its tuples
    cdef uint64_t root          # 0: belongs to no tree
    cdef uint64_t edge
    cdef uint64_t ack_value     # XOR of the edges that were anchored to this delivery
    cdef PyObject* newer        # neighbours on the owner's list, borrowed
    cdef PyObject* older
    cdef uint32_t taken_ms      # when it was taken up, in ms of the run's clock, modulo 2**32
    cdef uint8_t state
    cdef uint8_t flags

cdef class TakenList:
    cdef PyObject* newest
    cdef readonly Py_ssize_t taken
    cdef uint32_t now_ms        # the task's last reading of the clock

    cdef int forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1

cdef Roots* new_roots(Py_ssize_t count) except NULL
cdef int add_root(Tuple tup, uint64_t root, uint64_t edge) except -1
cdef Tuple new_tuple(tuple values, Source origin)


cdef inline void take_up(TakenList taken, Tuple tup) noexcept:
    """Put tup at the head of its task's list."""
    tup.state = TAKEN
    tup.owner = <PyObject*>taken
    tup.taken_ms = taken.now_ms
    tup.newer = NULL
    tup.older = taken.newest
    if taken.newest != NULL:
        (<Tuple>taken.newest).newer = <PyObject*>tup
    taken.newest = <PyObject*>tup
    taken.taken += 1


cdef inline void let_go(TakenList taken, Tuple tup, TupleState state) noexcept:
    """Take tup off its task's list, settled as state says."""
    tup.state = state
    tup.owner = NULL
    if tup.newer != NULL:
        (<Tuple>tup.newer).older = tup.older
    else:
        taken.newest = tup.older
    if tup.older != NULL:
        (<Tuple>tup.older).newer = tup.newer
    taken.taken -= 1
