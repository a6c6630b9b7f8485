"""A bolt task. It takes tuples and calls the bolt in bursts, anchors emits, settles tuples, and has the emitter of an instance."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from _native.burst cimport Burst, SentMark
from _native.queues cimport HeldTuples, Mailbox, SignalRing
from _native.state cimport Layers
from _native.task cimport OutStream, TaskCore, UserMethod
from _native.timing cimport LatencyHistogram
from _native.tuples cimport Roots, Source, TakenTuples, Tuple

cdef enum BoltOutcome:
    EMPTY = 0       # no input waits, so park
    MORE = 1        # the turn is over and more inputs wait, so yield
    STOPPED = 2     # a full mailbox stops the task, so wait for the wake-up event
    RETURNED = 3    # a call returned something that is not None: `current`, `returned`
    CONTROL = 4     # `current` is a barrier or a batch report

cdef class BoltCore(TaskCore):
    cdef readonly Mailbox mailbox
    cdef TakenTuples taken_list      # tuples that the task has taken and not settled, and marks that wait for them
    cdef readonly object marks       # deque: the marks among them, oldest first
    cdef UserMethod execute          # of the instance; None before the first
    cdef bint basic                  # the core anchors and acks for the bolt (ACK-11)
    cdef readonly Tuple current      # input of the running or last call
    cdef public Py_ssize_t burst_rows    # most tuples of a call; 0: the instance takes one tuple at a time
    cdef object settler              # emitter of the instance, which settles tuples of its bursts
    cdef readonly Burst burst        # inputs of the running or last call with a burst
    cdef list singly                 # tuples of a burst that raised, which run again one by one, the next one last
    cdef SentMark mark               # what was sent when the call with a burst began
    cdef uint64_t acked_at_mark
    cdef readonly object returned
    cdef bint tick_waits             # a tick is in the mailbox
    cdef bint is_behind              # counted in the run's backlog
    cdef object failed_reason, forgotten_reason      # Failure
    cdef public bint fails_forgotten
    cdef SignalRing forgotten_roots  # of forgotten tuples; a deallocation appends them
    cdef list forgotten_rootless     # copies of forgotten tuples of no tree
    cdef public object on_unanchored # called once, before the first emit without an anchor; None: nobody needs to know
    cdef public object on_rootless_failure    # called with each failed input of no root, and the reason; None: nobody needs to know
    cdef object refused              # the reason to fail an input of no root before its call, or None, by (component, stream); None: takes all
    cdef readonly dict failures      # reason -> failed inputs, without the forgotten ones
    cdef readonly uint64_t forgotten_tuples, settled_twice
    cdef readonly HeldTuples held_tuples             # while HOLDS is set
    cdef Layers state                # of a stateful task: its changes and acks take effect call by call (SV-2)
    cdef SignalRing call_acks        # acks of the running call (GUARDS), which leave when it returns
    cdef list call_rootless          # inputs of no root that the running call has acked; each has an ack of the root 0 among `call_acks`
    cdef uint64_t acked_before       # inputs that were acked when the call began
    cdef dict upstream               # task id -> TaskCore that feeds this task
    cdef dict settle_rings           # source task -> SignalRing, for tuples that report their settle
    cdef PyObject* sample            # the last tuple whose process latency is measured; only compared, because it may be deallocated
    cdef double sample_start
    cdef readonly LatencyHistogram process_latency

    cpdef emit(self, object values, object anchors, object stream)
    cdef int emit_rows(self, object rows, object anchors, object stream, bint single_values) except -1
    cdef int emit_aligned(self, list rows, list anchors, object stream, bint single_values) except -1
    cdef int emit_values(self, object given, OutStream stream, Tuple anchor, object anchors) except -1
    cdef int emit_to(self, tuple values, OutStream stream, Tuple anchor, object anchors) except -1
    cdef int anchor_to(self, Tuple made, Tuple anchor) except -1
    cdef int check_anchor(self, Tuple anchor) except -1
    cdef int check_anchors(self, object anchors) except -1

    cdef BoltOutcome run_singles(self, Py_ssize_t limit) except *
    cdef BoltOutcome run_bursts(self, Py_ssize_t limit) except *
    cdef list take_burst(self, Py_ssize_t most)
    cdef list take_one(self, PyObject* raw)
    cdef int ack_burst(self, list tuples) except -1
    cdef int ack_root(self, uint64_t root, uint64_t value) except -1
    cdef int end_burst(self, BoltOutcome outcome) except -1
    cdef void set_behind(self, bint behind) noexcept
    cdef bint is_control(self) noexcept
    cdef PyObject* take_past_holds(self) except? NULL
    cdef bint refuses(self, Tuple tup) except -1
    cdef int look_for_due_mark(self) except -1
    cdef int note_rootless(self, Tuple tup, object reason) except -1
    cdef int call(self, Tuple tup) except -1
    cdef int call_basic(self, Tuple tup, object result) except -1
    cdef int begin_guard(self) except -1
    cdef int end_guard(self) except -1
    cdef int keep_call(self) except -1
    cdef int send_call_acks(self) except -1
    cdef int fail_call_acks(self, object reason) except -1

    cpdef reset_timeout(self, Tuple tup)
    cdef bint is_mine(self, Tuple tup) except -1
    cdef int ack_tuple(self, Tuple tup) except -1
    cdef int ack_now(self, Tuple tup) except -1
    cdef int ack_as(self, Tuple tup, uint32_t rare) except -1
    cdef int ack_rarely(self, Tuple tup, uint32_t rare) except -1
    cdef int fail_tuple(self, Tuple tup, object reason) except -1
    cdef int count_failure(self, object reason) except -1
    cdef uint32_t ms_taken(self, Tuple tup, double now_secs) noexcept
    cdef void take_sample(self, Tuple tup, double at) noexcept
    cdef int end_sample(self, Tuple tup) except -1
    cdef int report_settle(self, Tuple tup) except -1
    cdef int signal_roots(self, Tuple tup, int kind, object carried, SignalRing kept=*) except -1
    cdef int note_forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1
    cdef int note_rootless_forgotten(self, object held, Source origin, uint8_t flags) except -1
    cdef int queue_forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1
    cdef int note_unanchored(self) except -1
