"""Parts that spouts and bolts share: outlets of streams, calls of user methods, and TaskCore."""
from cpython.object cimport PyObject
from cpython.pystate cimport PyThreadState, PyThreadState_Get
from libc.stdint cimport int32_t, uint32_t, uint64_t

from _native.hash cimport group_of, hash_ascii, is_ascii
from _native.ids cimport EdgeIds
from _native.queues cimport Backpressure, Mailbox, SignalKind, SignalRing, post_tuple, send_signal
from _native.row_stamp cimport RowStamp
from _native.tuples cimport IS_CONTROL, Source, Tuple

cdef enum Choice:
    SHUFFLE = 0
    BY_FIELDS = 1
    TO_ALL = 2
    TO_FIRST = 3
    DIRECT = 4
    PARTIAL_KEY = 5
    LEAST_LOADED = 6
    CUSTOM = 7

# The tasks of one subscriber. With n emitting tasks and m targets, a table at each outlet would take n × m slots and steps.
cdef class Targets:
    cdef readonly Py_ssize_t tasks
    cdef readonly list task_ids
    cdef list boxes                  # Mailbox of each target task
    cdef PyObject** box              # the same, borrowed
    cdef int32_t* ids
    cdef dict index_of               # task id -> target

cdef class Outlet:
    cdef readonly Choice choice
    cdef Targets to                  # shared by the outlets of all emitting tasks
    cdef readonly Py_ssize_t tasks
    cdef PyObject** box              # of `to`, as the two below, so that an emit needs no further step
    cdef int32_t* ids
    cdef dict index_of
    cdef Py_ssize_t turn             # target of the last shuffled tuple
    cdef Py_ssize_t first            # index of its first target among all targets of the emitting task
    cdef Py_ssize_t* positions       # of the grouped fields
    cdef Py_ssize_t keys
    cdef readonly tuple names        # of the grouped fields
    cdef uint32_t key_groups
    cdef int32_t* target_of_group    # BY_FIELDS, else NULL
    cdef bint by_one_field           # BY_FIELDS with one field
    cdef uint64_t* used              # PARTIAL_KEY: tuples sent to each target, else NULL
    cdef object chooser              # custom: values -> task ids
    cdef readonly bint picks_one     # every tuple goes to exactly one target
    cdef readonly bint stops         # False: the edge closes a cycle, so it never stops its sender
    cdef readonly uint64_t sent      # tuples of its task, control tuples included, since the task began

    cdef Py_ssize_t pick_one(self, tuple values) except -1
    cdef Py_ssize_t pick_by_key(self, tuple values) except -1
    cdef Py_ssize_t pick_least_loaded(self) noexcept
    cdef list pick_several(self, tuple values)

cdef class OutStream:
    cdef Source origin
    cdef object given                # fields of an emit: those of the origin, unless a stamp makes other rows
    cdef Py_ssize_t arity            # of `given`
    cdef readonly list outlets
    cdef Outlet only                 # the only outlet, if it chooses one task; else None
    cdef readonly bint direct
    cdef RowStamp stamp              # makes the rows of a spout's stream that has an event time; None: rows are emitted as they are
    cdef dict origins                # target task -> Source, if the tuple must name its target; else None

cdef class SentCounts:
    cdef uint64_t* count             # tuples sent to each target of each outlet
    cdef Py_ssize_t targets

cdef class BoltBacklog:
    cdef Py_ssize_t behind           # bolts that could run and have more than a burst waiting


cdef extern from "Python.h":
    ctypedef object (*VectorCall "vectorcallfunc")(object function, PyObject** args, size_t nargsf, PyObject* kwnames)
    VectorCall PyVectorcall_Function(object function)
    object PyObject_Vectorcall(object function, PyObject** args, size_t nargsf, PyObject* kwnames)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

cdef class UserMethod:
    cdef object function
    cdef object owner        # its first argument
    cdef bint bound          # False: a callable that takes no owner
    cdef VectorCall enter    # calls `function`


cdef inline object call_none(UserMethod method):
    """Call method()."""
    cdef PyObject* args[2]
    args[1] = <PyObject*>method.owner
    return method.enter(method.function, args + 1, (1 if method.bound else 0) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef inline object call_one(UserMethod method, object argument):
    """Call method(argument)."""
    cdef PyObject* args[3]
    args[1] = <PyObject*>method.owner
    args[2] = <PyObject*>argument
    if method.bound:
        return method.enter(method.function, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
    return method.enter(method.function, args + 2, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef enum RarePath:           # bits of TaskCore.rare_paths; 0 is the plain path
    COUNTS_SENT = 1
    TRACES = 2
    GUARDS = 4
    HOLDS = 8
    WATCHES = 16
    MARKED = 32               # a bolt has marks on its list of taken inputs

cdef class TaskCore:
    cdef readonly int32_t task_id
    cdef uint32_t now_ms                 # the last reading of the clock, modulo 2**32
    cdef readonly Backpressure backpressure
    cdef EdgeIds ids
    cdef list ackers                     # SignalRing of each acker
    cdef PyObject** acker                # the same, borrowed
    cdef uint64_t acker_count
    cdef dict streams
    cdef OutStream default_stream
    cdef uint32_t rare_paths
    cdef PyThreadState* thread           # the loop's
    cdef object misuse                   # (kind, **what) -> UsageError
    cdef object now
    cdef BoltBacklog backlog
    # the time of a turn, in seconds
    cdef double turn_start, lap_start, usual_call
    cdef double suspect, suspect_mean    # of the last lap, if one of its calls may have been slow: secs of that call, mean of all
    cdef Py_ssize_t stride
    cdef public Py_ssize_t most_calls_per_lap
    cdef readonly double slow_call_secs
    cdef readonly double slowest_call    # the longest call over slow_call_secs since the last query of the executor
    cdef double lap_secs                 # time of the laps: calls and emits that ran on the loop
    cdef double awaited_secs             # time of the calls that the executor awaited, from begin to end
    cdef bint in_burst
    cdef public bint closing
    # counts since the task began
    cdef readonly uint64_t executed, emitted, acked, failed
    cdef Py_ssize_t targets              # of all outlets together
    cdef SentCounts counting             # the counts in use: since the mark, or of a batch (COUNTS_SENT)
    cdef object trace                    # (event, roots, task id) -> None (TRACES)

    cdef OutStream stream_of(self, object stream)
    cdef tuple checked(self, object values, OutStream stream)
    cdef Py_ssize_t target_of(self, Outlet outlet, tuple values) except -1
    cdef list targets_of(self, Outlet outlet, tuple values)
    cdef int note_sent(self, Outlet outlet, Py_ssize_t target, Tuple tup) except -1
    cdef dict counts_by_task(self, SentCounts counts)
    cdef int wrong_thread(self) except -1
    cdef int begin_turn(self) except -1
    cdef bint end_lap(self, Py_ssize_t calls) except -1
    cdef Py_ssize_t fitting(self, Py_ssize_t most) noexcept
    cdef int note_slow(self, double took, Py_ssize_t calls) except -1


cdef inline SignalRing acker_ring(TaskCore core, uint64_t root):
    """Return the ring of the acker that owns root (ACK-7)."""
    return <SignalRing>core.acker[0 if core.acker_count == 1 else root % core.acker_count]


cdef inline int signal_acker(TaskCore core, SignalKind kind, uint64_t root, uint64_t value) except -1:
    return send_signal(acker_ring(core, root), kind, root, value, core.task_id)


cdef inline int check_thread(TaskCore core) except -1:
    if PyThreadState_Get() != core.thread:
        core.wrong_thread()
    return 0


cdef inline tuple checked_values(TaskCore core, object values, OutStream stream):
    """Return values as a tuple of the stream's arity."""
    if type(values) is tuple and len(<tuple>values) == stream.arity:
        return <tuple>values
    return core.checked(values, stream)


cdef inline Py_ssize_t next_target(Outlet outlet) noexcept:
    """Return the next target of a shuffle grouping."""
    outlet.turn += 1
    if outlet.turn >= outlet.tasks:
        outlet.turn = 0
    return outlet.turn


cdef inline Py_ssize_t target_of_text(Outlet outlet, object key) noexcept:
    """Return the target of a key that is_ascii, in a fields grouping by one field."""
    return outlet.target_of_group[group_of(hash_ascii(key), outlet.key_groups)]


cdef inline Py_ssize_t pick_target(TaskCore core, Outlet outlet, tuple values) except -1:
    """Return the target of values, for an outlet that chooses one target. The two most common ways are inlined here."""
    if outlet.choice == SHUFFLE:
        return next_target(outlet)
    if outlet.by_one_field and is_ascii(values[outlet.positions[0]]):
        return 0 if outlet.tasks == 1 else target_of_text(outlet, values[outlet.positions[0]])
    return core.target_of(outlet, values)


cdef inline Py_ssize_t pick_for_value(TaskCore core, Outlet outlet, object value) except -1:
    """Return the target of a tuple with this value alone."""
    if outlet.choice == SHUFFLE:
        return next_target(outlet)
    if outlet.by_one_field and is_ascii(value):
        return target_of_text(outlet, value)
    return core.target_of(outlet, (value,))


cdef inline int deliver(TaskCore core, Outlet outlet, Py_ssize_t target, Tuple tup) except -1:
    """Post tup to one target. A full mailbox stops this task, unless the edge closes a cycle or tup is a control tuple."""
    outlet.sent += 1
    if core.rare_paths & (COUNTS_SENT | TRACES):
        core.note_sent(outlet, target, tup)
    return post_tuple(<Mailbox>outlet.box[target], tup,
                      <PyObject*>core.backpressure if outlet.stops and not tup.flags & IS_CONTROL else NULL)
