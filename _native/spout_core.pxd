"""A spout task's burst: verdicts first, then polls; and its open trees."""
from libc.stdint cimport int32_t, uint64_t

from _native.histogram cimport LatencyHistogram
from _native.mailbox cimport Signal
from _native.method cimport Method
from _native.spout_dispatch cimport SpoutDispatch

cdef enum SpoutOutcome:
    QUIET = 0        # nothing to do until a verdict comes: not polling, or max_spout_pending trees are open
    POLL_AGAIN = 1   # the turn is over
    HELD_UP = 2      # a full mailbox stops the task
    AWAITABLE = 3    # a call returned something that is not None: `returned`
    NOTHING_NEW = 4  # next_tuple emitted nothing
    GAVE_WAY = 5     # bolts are behind: their turn first

cdef class SpoutCore(SpoutDispatch):
    cdef Method next_tuple, on_ack            # the instance's; on_ack None where nobody listens
    cdef object on_fail                       # (message_id, failure), may give an awaitable
    cdef public object acker_failure          # the Failure of trees whose acker died
    cdef object on_settled                    # (message_id, task_id, secs) or None
    cdef public object on_reply               # (message_id, task_id, answer) or None
    cdef readonly object returned
    cdef public bint polling
    cdef public Py_ssize_t max_pending        # 0: no bound
    cdef Py_ssize_t turns_given
    cdef Py_ssize_t other_stride              # of polls while verdicts are handed out, of verdicts while it polls
    cdef double other_usual_call
    cdef uint64_t emits_seen
    cdef bint awaits_poll                     # `returned` is a poll's
    cdef readonly uint64_t handed_out         # verdicts whose ack or fail has returned
    cdef readonly LatencyHistogram complete_latency

    cdef int settle(self, Signal* verdict) except -1
    cdef int replied(self, uint64_t root, int32_t task, object answer) except -1
    cdef int acker_died(self, uint64_t index) except -1
    cdef int flush_acked(self) except -1
    cdef int end_burst(self, SpoutOutcome outcome, bint polls) except -1
    cdef bint begin_polls(self, Py_ssize_t calls) except -1
    cdef void swap_strides(self) noexcept
    cdef SpoutOutcome why_not_poll(self) noexcept
    cdef SpoutOutcome poll(self) except *
    cdef object take_tree(self, uint64_t root, bint acked)
