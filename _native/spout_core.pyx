"""A spout task's tuples, from the poll to the verdict of their trees.

`run_burst` hands verdicts to the spout's ack and fail, then polls next_tuple. The trees that wait for a verdict stand in
`open_trees`; a root leaves it by a verdict only (ACK-8).
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, uint64_t
cimport cython

from _native.histogram cimport LatencyHistogram, record
from _native.mailbox cimport ACKED, ACKER_DIED, DROP, FAILED, REPLY, SETTLED_AT, Signal, SignalRing, signal, signal_with
from _native.method cimport Method, call_none, call_one
from _native.method import method_or_none
from _native.root_table cimport ROOTS_AHEAD, RootSlot, expect_root, find_root, remove_slot
from _native.spout_dispatch cimport OpenTrees, SpoutDispatch

cdef enum:
    MOST_TURNS_GIVEN = 64      # a spout gives way to bolts that are behind so many turns in a row
    IDLE_SLOTS = 65536         # a larger table of open trees gives its memory back when it has become nearly empty


@cython.final
cdef class SpoutCore(SpoutDispatch):
    """The C side of a spout's executor; see TaskCore for the arguments it shares with bolts. It has no mailbox: verdicts come by a ring."""

    def __init__(self, int32_t task_id, *, SignalRing verdicts, Py_ssize_t max_pending=0, acker_failure=None, **common):
        SpoutDispatch.__init__(self, task_id, **common)
        self.acker_failure = acker_failure
        self.verdicts = verdicts
        self.max_pending = max_pending
        self.other_stride = 1
        self.complete_latency = LatencyHistogram()

    def bind(self, next_tuple, on_ack, on_fail, on_settled=None):
        """Serve a new instance. on_ack may be None (nobody listens); on_fail(message_id, failure)."""
        self.next_tuple, self.on_ack, self.on_fail = Method(next_tuple), method_or_none(on_ack), on_fail
        self.listen(on_settled)

    def listen(self, on_settled):
        """Hear of each receiving task's settle from the next emit on; None stops it (task_port.on_settled)."""
        self.on_settled = on_settled
        self.reports_settle = on_settled is not None

    # The burst

    def run_burst(self, Py_ssize_t limit):
        """Settle what has a verdict, then poll, up to limit calls or 5 ms in all; a SpoutOutcome. An exception is the spout's."""
        cdef Py_ssize_t calls = 0, lapped = 0
        cdef SpoutOutcome outcome = POLL_AGAIN
        cdef bint polls = False
        self.returned = None
        self.awaits_poll = False
        self.begin_turn()
        self.in_burst = True
        try:
            if self.acked_now and self.flush_acked():
                return AWAITABLE
            while calls < limit:
                if self.verdicts.head != self.verdicts.tail:
                    calls += 1
                    if self.verdicts.tail - self.verdicts.head > ROOTS_AHEAD:
                        expect_root(self.open_trees, self.verdicts.ring[(self.verdicts.head + ROOTS_AHEAD) & self.verdicts.mask].root)
                    if self.settle(&self.verdicts.ring[self.verdicts.head & self.verdicts.mask]):
                        outcome = AWAITABLE
                        break
                else:
                    outcome = self.why_not_poll()
                    if outcome == QUIET and self.acked_now:     # an ack has emitted
                        calls += 1
                        outcome = AWAITABLE if self.flush_acked() else POLL_AGAIN
                    elif outcome == POLL_AGAIN:
                        if not polls:
                            polls = True
                            if self.begin_polls(calls - lapped):
                                lapped = calls
                                break
                            lapped = calls
                        calls += 1
                        outcome = self.poll()
                    if outcome != POLL_AGAIN:
                        break
                if calls - lapped >= self.stride:
                    if self.lap(calls - lapped):
                        lapped = calls
                        break
                    lapped = calls
        finally:
            if calls > lapped:
                self.lap(calls - lapped)
            self.end_burst(outcome, polls)
        return outcome

    cdef int end_burst(self, SpoutOutcome outcome, bint polls) except -1:
        if polls:
            self.swap_strides()
        self.in_burst = False
        if self.verdicts.head == self.verdicts.tail:
            self.verdicts.run_empty()
        if self.open_trees.mask > IDLE_SLOTS and self.open_trees.count * 16 < self.open_trees.mask:
            self.open_trees.shrink()
        if outcome != GAVE_WAY:
            self.turns_given = 0
        return 0

    cdef bint begin_polls(self, Py_ssize_t calls) except -1:
        """Between verdicts and polls, which take their own time: end the lap, change strides; True when the turn is over."""
        cdef bint over = self.lap(calls) if calls > 0 else False
        self.swap_strides()
        return over

    cdef void swap_strides(self) noexcept:
        self.stride, self.other_stride = self.other_stride, self.stride
        self.usual_call, self.other_usual_call = self.other_usual_call, self.usual_call

    cdef SpoutOutcome why_not_poll(self) noexcept:
        """What keeps the spout from being polled; POLL_AGAIN when nothing does."""
        if not self.polling or (self.max_pending and self.open_trees.count >= self.max_pending):
            return QUIET
        if self.emitter.stopped_by:
            return HELD_UP
        if self.pulse.behind and self.turns_given < MOST_TURNS_GIVEN:
            self.turns_given += 1
            return GAVE_WAY
        return POLL_AGAIN

    cdef SpoutOutcome poll(self) except *:
        """One next_tuple: AWAITABLE where `returned` has to be awaited, NOTHING_NEW where it emitted nothing, else POLL_AGAIN."""
        self.executed += 1
        self.emits_seen = self.emitted
        result = call_none(self.next_tuple)
        if result is not None:
            self.returned = result
            self.awaits_poll = True
            return AWAITABLE
        if self.acked_now and self.flush_acked():
            return AWAITABLE
        return POLL_AGAIN if self.emitted != self.emits_seen else NOTHING_NEW

    def forget_returned(self):
        """Let go of what a call returned; the executor has it."""
        self.returned = None

    def end_await(self, double secs):
        """Count the time that an async method took."""
        self.busy_secs += secs

    def note_returned(self):
        """An awaited method has returned: a verdict is handed out, unless it was a poll."""
        self.handed_out += not self.awaits_poll

    def polled_in_vain(self):
        """True when the awaited call was a poll that emitted nothing."""
        return self.awaits_poll and self.emitted == self.emits_seen

    cdef int flush_acked(self) except -1:
        """Ack what needs no acker, in order (ACK-6); 1 when an ack has to be awaited. After that, or an error, the rest follows in the next burst."""
        cdef Py_ssize_t done = 0
        waiting, self.acked_now = self.acked_now, []
        try:
            while done < len(waiting):
                done += 1
                self.acked += 1
                if self.on_ack is not None:
                    result = call_one(self.on_ack, waiting[done - 1])
                    if result is not None:
                        self.returned = result
                        return 1
                self.handed_out += 1
        finally:
            if done < len(waiting):
                self.acked_now = waiting[done:] + self.acked_now
        return 0

    cdef int settle(self, Signal* verdict) except -1:
        """Hand one signal to the spout; 1 when `returned` has to be awaited."""
        cdef Signal got = verdict[0]
        cdef double secs
        self.verdicts.head += 1
        if got.kind == ACKED:
            message_id = self.take_tree(got.root, True)
            if message_id is not self:
                self.acked += 1
                if self.on_ack is not None:
                    self.returned = call_one(self.on_ack, message_id)
                self.handed_out += self.returned is None
        elif got.kind == FAILED:
            failure = self.verdicts.objects.popleft()
            message_id = self.take_tree(got.root, False)
            if message_id is not self:
                self.failed += 1
                self.returned = self.on_fail(message_id, failure)
                self.handed_out += self.returned is None
        elif got.kind == ACKER_DIED:
            self.acker_died(got.value)
        elif got.kind == SETTLED_AT:
            secs = (<double*>&got.value)[0]
            self.settled_at(got.root, got.task, secs)
        elif got.kind == REPLY:
            self.replied(got.root, got.task, self.verdicts.objects.popleft())
        return self.returned is not None

    cdef object take_tree(self, uint64_t root, bint acked):
        """The message id of an open tree, which is closed; this core where root is not open (late, or of a dead instance)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        cdef uint64_t bits
        if slot == NULL:
            return self
        message_id = <object><PyObject*><size_t>slot.word
        Py_DECREF(message_id)
        if acked:
            bits = slot.extra
            record(self.complete_latency, self.lap_start - (<double*>&bits)[0])
        remove_slot(self.open_trees, slot)
        return message_id

    def settled_at(self, uint64_t root, int32_t task, double at):
        """A bolt task settled its part of an open tree at this time (task_port.on_settled)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot != NULL and self.on_settled is not None:
            self.on_settled(<object><PyObject*><size_t>slot.word, task, at - (<double*>&slot.extra)[0])

    cdef int replied(self, uint64_t root, int32_t task, object answer) except -1:
        """A bolt task answers the control tuple of an open tree (task_port.reply)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot != NULL and self.on_reply is not None:
            self.on_reply(<object><PyObject*><size_t>slot.word, task, answer)
        return 0

    cdef int acker_died(self, uint64_t index) except -1:
        """Fail every open tree of an acker that lost them (ACK-13)."""
        cdef uint64_t root
        for root in self.open_trees.roots():
            if root % self.acker_count == index:
                signal_with(self.verdicts, FAILED, root, -1, self.acker_failure)
        return 0

    def drop_instance(self):
        """The instance died: forget its trees here and at the ackers; what still comes for them has no effect (ACK-13)."""
        cdef SignalRing ring
        dropped = self.open_trees.count
        self.open_trees = OpenTrees()
        self.acked_now = []
        self.returned = None
        self.verdicts.clear()
        if not self.closing:     # else the ackers end, too
            for ring in self.ackers:
                signal(ring, DROP, 0, 0, self.task_id)
        self.next_tuple = self.on_ack = None
        self.on_fail = self.on_settled = self.on_reply = None
        return dropped

    @property
    def pending(self):
        """Open trees."""
        return self.open_trees.count

    @property
    def has_acks_to_flush(self):
        return bool(self.acked_now)
