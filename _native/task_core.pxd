"""What spouts and bolts have in common: acker rings, streams, counts, and how a turn's time goes."""
from cpython.object cimport PyObject
from cpython.pystate cimport PyThreadState, PyThreadState_Get
from libc.stdint cimport int32_t, uint32_t, uint64_t

from _native.dispatch cimport SHUFFLE, Outlet, OutStream, Pulse, SentCounts
from _native.edge_ids cimport EdgeIds
from _native.mailbox cimport Emitter, Mailbox, SignalKind, SignalRing, post, signal
from _native.tuples cimport IS_CONTROL, TakenList, Tuple

cdef enum Rare:               # bits of TaskCore.rare; 0 is the plain path
    COUNTS_SENT = 1
    TRACES = 2
    DEFERS = 4
    HOLDS = 8

cdef class TaskCore(TakenList):
    cdef readonly int32_t task_id
    cdef readonly Mailbox mailbox
    cdef readonly Emitter emitter
    cdef EdgeIds ids
    cdef list ackers                     # SignalRing of each acker
    cdef PyObject** acker                # the same, borrowed
    cdef uint64_t acker_count
    cdef dict streams
    cdef OutStream default_stream
    cdef uint32_t rare
    cdef PyThreadState* thread           # the loop's
    cdef object misuse                   # (kind, **what) -> UsageError
    cdef object now
    cdef Pulse pulse
    # what a turn knows of time, in seconds
    cdef double turn_start, lap_start, usual_call
    cdef double suspect, suspect_mean    # the call of a lap of several that may have been slow; the mean of that lap
    cdef Py_ssize_t stride
    cdef readonly double slow_call_secs
    cdef readonly double slowest_call    # the longest call over slow_call_secs since the executor last looked
    cdef readonly double busy_secs
    cdef bint in_burst
    cdef public bint closing
    # counts since the task began
    cdef readonly uint64_t executed, emitted, transferred, acked, failed
    cdef Py_ssize_t targets              # of all outlets together
    cdef SentCounts counting             # what is counted now: since the mark, or of a batch (COUNTS_SENT)
    cdef object trace                    # (event, roots, task id) -> None (TRACES)

    cdef OutStream stream_of(self, object stream)
    cdef tuple checked(self, object values, OutStream stream)
    cdef Py_ssize_t target_of(self, Outlet outlet, tuple values) except -1
    cdef list targets_of(self, Outlet outlet, tuple values)
    cdef int note_sent(self, Outlet outlet, Py_ssize_t target, Tuple tup) except -1
    cdef dict counts_by_task(self, SentCounts counts)
    cdef int wrong_thread(self) except -1
    cdef int begin_turn(self) except -1
    cdef bint lap(self, Py_ssize_t calls) except -1
    cdef int note_slow(self, double took, Py_ssize_t calls) except -1


cdef inline SignalRing ring_for(TaskCore core, uint64_t root):
    """The ring of the acker that keeps root (ACK-7)."""
    return <SignalRing>core.acker[0 if core.acker_count == 1 else root % core.acker_count]


cdef inline int tell_acker(TaskCore core, SignalKind kind, uint64_t root, uint64_t value) except -1:
    return signal(ring_for(core, root), kind, root, value, core.task_id)


cdef inline int check_thread(TaskCore core) except -1:
    if PyThreadState_Get() != core.thread:
        core.wrong_thread()
    return 0


cdef inline tuple checked_values(TaskCore core, object values, OutStream stream):
    """values as a tuple of the stream's arity."""
    if type(values) is tuple and len(<tuple>values) == stream.arity:
        return <tuple>values
    return core.checked(values, stream)


cdef inline Py_ssize_t pick(TaskCore core, Outlet outlet, tuple values) except -1:
    """The target of values, where the outlet picks one."""
    if outlet.choice == SHUFFLE:
        outlet.turn += 1
        if outlet.turn >= outlet.tasks:
            outlet.turn = 0
        return outlet.turn
    return core.target_of(outlet, values)


cdef inline int deliver(TaskCore core, Outlet outlet, Py_ssize_t target, Tuple tup) except -1:
    """Post tup to one target; a full mailbox stops the task, unless the edge closes a cycle or tup is a control tuple."""
    core.transferred += 1
    if core.rare & (COUNTS_SENT | TRACES):
        core.note_sent(outlet, target, tup)
    return post(<Mailbox>outlet.box[target], tup, <PyObject*>core.emitter if outlet.stops and not tup.flags & IS_CONTROL else NULL)
