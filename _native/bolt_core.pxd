"""A bolt task's burst: take up, execute, emit, settle."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t

from _native.bolt_dispatch cimport BoltDispatch
from _native.histogram cimport LatencyHistogram
from _native.holdback cimport Aside, KeptAcks
from _native.layers cimport Layers
from _native.mailbox cimport SignalRing
from _native.method cimport Method
from _native.tuples cimport Roots, Tuple

cdef enum Outcome:
    EMPTY = 0       # nothing waits: park
    MORE = 1        # the turn is over, more waits: yield
    STOPPED = 2     # a full mailbox stops the task: wait for its doorbell
    RETURNED = 3    # a call returned something that is not None: `current`, `returned`
    CONTROL = 4     # `current` is a barrier or a batch report

cdef class BoltCore(BoltDispatch):
    cdef Method execute              # the instance's; None before the first
    cdef bint basic                  # anchors and acks by itself (ACK-11)
    cdef readonly Tuple current      # what the running or last call was given
    cdef readonly object returned
    cdef bint tick_waits             # a tick is in the mailbox
    cdef bint is_behind              # counted in the run's pulse
    cdef object failed_reason, forgotten_reason      # Failure
    cdef bint fails_forgotten
    cdef SignalRing lost             # (root) of forgotten tuples, queued by deallocations
    cdef readonly dict failures      # reason -> inputs that failed for it, but those that were forgotten
    cdef readonly uint64_t forgotten_tuples, settled_twice
    cdef readonly Aside aside        # tuples of held sources (HOLDS)
    cdef readonly KeptAcks kept      # acks that wait for a commit (DEFERS)
    cdef Layers state                # of a stateful task: its changes and acks count call by call (SV-2)
    cdef Py_ssize_t kept_before      # acks that were deferred when the call began
    cdef uint64_t acked_before       # inputs acked by then
    cdef dict upstream               # task id -> TaskCore that feeds this task
    cdef dict settle_rings           # source task -> SignalRing, for tuples that report their settle
    cdef PyObject* sample            # the last tuple whose process latency is measured, compared only
    cdef double sample_start
    cdef readonly LatencyHistogram process_latency

    cpdef reset_timeout(self, Tuple tup)
    cdef int end_burst(self, Outcome outcome) except -1
    cdef void set_behind(self, bint behind) noexcept
    cdef bint is_control(self) noexcept
    cdef PyObject* take_past_holds(self) except? NULL
    cdef int call(self, Tuple tup) except -1
    cdef int begin_guard(self) except -1
    cdef int end_guard(self) except -1
    cdef int keep_call(self) except -1
    cdef int call_basic(self, Tuple tup, object result) except -1
    cdef int ack_tuple(self, Tuple tup) except -1
    cdef int ack_rare(self, Tuple tup) except -1
    cdef int fail_tuple(self, Tuple tup, object reason) except -1
    cdef int count_failure(self, object reason) except -1
    cdef bint is_mine(self, Tuple tup) except -1
    cdef void take_sample(self, Tuple tup, double at) noexcept
    cdef int end_sample(self, Tuple tup) except -1
    cdef int report_settle(self, Tuple tup) except -1
    cdef int signal_roots(self, Tuple tup, int kind, object carried) except -1
