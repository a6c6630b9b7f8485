"""A spout task. It emits, has the open trees, handles verdicts and polls in bursts, and has the emitter of an instance."""
from libc.stdint cimport int32_t, uint64_t

from _native.queues cimport Signal, SignalRing
from _native.tables cimport RootTable
from _native.task cimport Outlet, OutStream, TaskCore, UserMethod
from _native.timing cimport LatencyHistogram

cdef enum SpoutOutcome:
    QUIET = 0        # nothing to do before the next verdict: not polling, or max_spout_pending trees are open
    POLL_AGAIN = 1   # the turn is over
    HELD_UP = 2      # a full mailbox stops the task
    AWAITABLE = 3    # a call returned something that is not None: `returned`
    NOTHING_NEW = 4  # next_tuple emitted nothing
    GAVE_WAY = 5     # bolts are behind, and get their turn first

cdef class OpenTrees(RootTable):
    pass             # root -> (message id as an owned PyObject*, the bits of the time of its emit)

cdef class SpoutCore(TaskCore):
    # emits
    cdef readonly OpenTrees open_trees
    cdef readonly SignalRing verdicts
    cdef uint64_t next_root                   # drawn before its tree opens, so that its slot is already in the cache
    cdef double nearly_empty_since            # time from which a large table of open trees has been nearly empty, below 0: it is not
    cdef list acked_now                       # message ids that are acked without an acker (ACK-6)
    cdef bint emits_rarely                    # `keeps_rows` or `has_times`
    cdef bint has_times                       # a stream has a RowStamp
    cdef public object on_refused                    # (values, row id, error) -> Failure of a row that a stamp refuses, or None: it has left elsewhere
    cdef public dict held_ids                 # ids of failed rows that hold the watermark -> object that gets the `root` of their next tree
    cdef uint64_t last_root                   # of the tree that was opened last
    cdef uint64_t oldest_root                 # of the tree that `oldest_open` has found
    cdef readonly double failed_since         # time of the emit of the tree that has failed last
    cdef readonly bint keeps_rows             # the message id of each row is (values, stream, message id, row_mark), and each row has a tree
    cdef public object row_mark               # what `on_fail` learns of the rows that are emitted now
    cdef public object row_filter             # (values, stream, message_id) -> False for a row that is given up; None: all are emitted
    cdef set flushed_roots                    # marks of `begin_flush` whose verdicts are not back
    cdef SignalRing held_acks                 # acks that wait for a commit, the first `cut_count` of them for the next one
    cdef Py_ssize_t cut_count
    cdef int32_t told_kind                 # the signal that an ack is told by: RELEASED for a spout whose acks are held, else ACKED
    cdef public object on_held                # (message_id) or None: called when an ack begins to wait for a commit
    cdef bint reports_settle                  # receiving tasks report their settles (flow control)
    # bursts
    cdef UserMethod next_tuple, on_ack        # of the instance; on_ack is None if it has no ack method
    cdef UserMethod on_acks                   # gets the list of acked message ids of a burst, instead of on_ack
    cdef list acked_ids                       # for on_acks
    cdef bint polls_bursts                    # next_tuple gets the number of tuples that it may emit
    cdef Py_ssize_t awaited_acks              # verdicts of the call whose result is awaited
    cdef object on_fail                       # (message_id, failure), may return an awaitable; with keeps_rows (row, failure, had_no_effect)
    cdef public object acker_failure          # the Failure of trees whose acker died
    cdef object on_settled                    # (message_id, task_id, secs) or None
    cdef public object on_reply               # (message_id, task_id, answer) or None
    cdef readonly object returned
    cdef public bint polling
    cdef public Py_ssize_t max_pending        # 0: no bound
    cdef uint64_t emit_limit                  # emits of the task at which the polls stop
    cdef Py_ssize_t turns_given
    cdef Py_ssize_t other_stride              # polls and verdicts take different times; these are the values of the other kind
    cdef double other_usual_call
    cdef uint64_t emits_seen
    cdef readonly bint in_poll                # the call that runs, has raised or is awaited is a poll
    cdef readonly uint64_t handed_out         # verdicts whose ack or fail has returned
    cdef readonly LatencyHistogram complete_latency
    cdef object watch                         # is told of opened trees and of bursts (WATCHES)

    cpdef emit(self, object values, object message_id, object stream)
    cdef int emit_rows(self, list rows, list message_ids, Py_ssize_t begin, Py_ssize_t end, object stream) except -1
    cdef int emit_to(self, tuple values, object message_id, OutStream out, object direct_task) except -1
    cdef object choose_targets(self, Outlet outlet, tuple values, object direct_task)
    cdef uint64_t send_tuple(self, Outlet outlet, Py_ssize_t target, tuple values, OutStream out, uint64_t root) except? 0
    cdef uint64_t new_root(self, object message_id) except? 0
    cdef int note_opened(self, uint64_t root, object message_id) except -1
    cdef int ack_soon(self, object message_id) except -1
    cdef int emit_stamped(self, object values, object message_id, object row_id, OutStream out) except -1
    cdef int refuse_row(self, tuple values, object row_id, OutStream out, object error) except -1
    cdef int note_again(self, object key) except -1
    cdef int add_open(self, uint64_t root, object message_id) except -1
    cdef int open_tree(self, uint64_t root, uint64_t edges, object message_id) except -1

    cdef bint collect_acks(self) except -1
    cdef int apply_signal(self, Signal* verdict) except -1
    cdef int note_reply(self, uint64_t root, int32_t task, object answer) except -1
    cdef int fail_trees_of(self, uint64_t acker) except -1
    cdef int hold_ack(self, uint64_t root) except -1
    cdef int take_acks(self, SignalRing to) except -1
    cdef int forget_held(self) except -1
    cdef int flush_acked(self) except -1
    cdef int flush_ids(self) except -1
    cdef int end_burst(self, SpoutOutcome outcome, bint polls) except -1
    cdef bint begin_polls(self, Py_ssize_t calls) except -1
    cdef void swap_strides(self) noexcept
    cdef SpoutOutcome why_not_poll(self) noexcept
    cdef SpoutOutcome poll(self, Py_ssize_t most) except *
    cdef object close_tree(self, uint64_t root, bint acked)
