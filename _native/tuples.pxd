"""Tuples that are sent to one task, their trees, and the list of taken tuples."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject* raw)
    bint PyObject_GC_IsTracked(PyObject* raw)

cdef enum TupleState:
    WAITING = 0            # sent, not yet taken by its task
    TAKEN = 1              # on its task's list, because the task must ack or fail it
    SETTLED = 2
    FAILED_WITH_TASK = 3   # failed by the death of the instance, fail_taken or a rollback: later settles are ignored

cdef enum TupleFlag:
    MANY_ROOTS = 1         # `root` points to a Roots block
    IS_TICK = 2
    IS_CONTROL = 4         # a barrier or a batch report, which the executor handles instead of execute
    IS_MARK = 6            # both bits: a watermark, which is ordered like a row (ET-1)
    REPORTS_SETTLE = 8     # this task reports the settle to the spout task (flow control)
    SAMPLED = 16           # its process latency is measured
    ONE_VALUE = 32         # `held` is the only value, because nobody has asked for the tuple of values yet
    COLLECTABLE = 64       # its values may lead back to it, so the garbage collector tracks it once user code can have it
    FAILED_BEFORE = 128    # `failed_calls` is set

cdef struct RootEdge:
    uint64_t root
    uint64_t edge

cdef struct Roots:
    Py_ssize_t count
    RootEdge items[1]      # `count` of them

# Unsettled tuples of one bolt task, as a doubly linked list through the tuples. Embedded in a BoltCore, so that a take needs no pointer
# lookup.
cdef struct TakenTuples:
    PyObject* newest
    PyObject* oldest
    PyObject* core         # the BoltCore, borrowed
    # Called with `core` when a taken tuple is deallocated without a settle, on any thread that holds the interpreter.
    int (*on_forgotten)(PyObject* core, uint64_t root, uint64_t value, Roots* many) except -1
    # Called with `core`, the values and the origin of such a tuple if it belongs to no tree.
    int (*on_rootless_forgotten)(PyObject* core, PyObject* held, PyObject* origin, uint8_t flags) except -1

cdef class Source:
    cdef readonly str component_id
    cdef readonly str stream
    cdef readonly int32_t task_id
    cdef readonly object fields      # engine Fields
    cdef dict positions              # field name -> index
    cdef readonly Py_ssize_t arity

cdef class Tuple:
    # what every step reads comes first, so that it is in few cache lines
    cdef object held            # the tuple of values, or the only value (ONE_VALUE)
    cdef Source origin
    cdef uint32_t taken_ms      # when it was taken, in ms of the run's clock, modulo 2**32
    cdef uint8_t state
    cdef uint8_t flags
    cdef uint16_t failed_calls  # calls with it that have raised, so it runs again (FAILED_BEFORE); in what would be padding
    cdef uint64_t root          # 0: belongs to no tree
    cdef uint64_t edge
    cdef uint64_t ack_value     # XOR of the edges that were anchored to this delivery
    cdef TakenTuples* owner     # only while TAKEN; a core that dies removes its tuples from the list
    cdef PyObject* newer        # neighbours on the owner's list, borrowed
    cdef PyObject* older

cdef Roots* new_roots(Py_ssize_t count) except NULL
cdef int add_root(Tuple tup, uint64_t root, uint64_t edge) except -1
cdef Tuple new_tuple(object held, Source origin, uint8_t flags)
cdef list list_taken(TakenTuples* taken)
cdef list list_oldest(TakenTuples* taken, Py_ssize_t most)


cdef inline bint is_mark(Tuple tup) noexcept:
    return (tup.flags & IS_MARK) == IS_MARK


cdef inline tuple values_of(Tuple tup):
    """Return the values of tup. A tuple of `emit_each` gets its tuple of values only now."""
    cdef tuple values
    if tup.flags & ONE_VALUE:
        value = tup.held
        values = (value,)               # may collect garbage, so another thread may come first
        if tup.flags & ONE_VALUE:
            tup.held = values
            tup.flags &= ~<uint8_t>ONE_VALUE
    return <tuple>tup.held


cdef inline void track(Tuple tup) noexcept:
    """Let the garbage collector track a COLLECTABLE tuple. It may be tracked already, because a tuple can be taken again."""
    if not PyObject_GC_IsTracked(<PyObject*>tup):
        PyObject_GC_Track(<PyObject*>tup)


cdef inline void add_taken(TakenTuples* taken, Tuple tup, uint32_t now_ms) noexcept:
    """Put tup at the head of its task's list."""
    if tup.flags & COLLECTABLE:
        track(tup)
    tup.state = TAKEN
    tup.owner = taken
    tup.taken_ms = now_ms
    tup.newer = NULL
    tup.older = taken.newest
    if taken.newest != NULL:
        (<Tuple>taken.newest).newer = <PyObject*>tup
    else:
        taken.oldest = <PyObject*>tup
    taken.newest = <PyObject*>tup


cdef inline void remove_taken(TakenTuples* taken, Tuple tup, TupleState state) noexcept:
    """Remove tup from its task's list, and give it its final state."""
    tup.state = state
    tup.owner = NULL
    if tup.newer != NULL:
        (<Tuple>tup.newer).older = tup.older
    else:
        taken.newest = tup.older
    if tup.older != NULL:
        (<Tuple>tup.older).newer = tup.newer
    else:
        taken.oldest = tup.newer
