"""Tuples of a bolt task, from the mailbox to the settle.

`run_burst` takes tuples and calls `execute`. User code calls emit, ack and fail of `BoltCollector`. The core belongs to the task and outlives
its instances. Tuples that an instance has taken fail with it (ACK-15).
"""
from collections import deque
from types import GeneratorType as _GeneratorType

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
cimport cython

from _native.burst cimport Burst, SentMark
from _native.ids cimport draw_edge
from _native.queues cimport (ACK, FAIL, RESET, SETTLED_AT, HeldTuples, Mailbox, Signal, SignalKind, SignalRing, has_drained, post_tuple,
                             send_signal, send_signal_with, take_tuple)
from _native.state cimport Layers, is_foreign, keep_changes
from _native.task cimport (GUARDS, HOLDS, MARKED, TRACES, Outlet, OutStream, TaskCore, UserMethod, acker_ring, call_one, check_thread,
                           checked_values, deliver, pick_for_value, pick_target, signal_acker)
from _native.timing cimport LatencyHistogram, record_latency
from _native.tuples cimport (FAILED_WITH_TASK, IS_CONTROL, IS_TICK, MANY_ROOTS, ONE_VALUE, REPORTS_SETTLE, SAMPLED, SETTLED, TAKEN, WAITING,
                             Roots, Source, Tuple, add_root, add_taken, is_mark, list_oldest, list_taken, new_tuple, remove_taken)

cdef type GeneratorType = _GeneratorType
cdef str DEFAULT = "default"


cdef inline int anchor_new(BoltCore core, Tuple made, Tuple anchor) except -1:
    """Put a new delivery into the trees of its only anchor. One edge is XORed into both (ACK-2)."""
    if anchor.root != 0:
        if anchor.flags & MANY_ROOTS:
            return core.anchor_to(made, anchor)
        made.root = anchor.root
        made.edge = draw_edge(core.ids)
        anchor.ack_value ^= made.edge
    return 0


cdef inline Tuple anchored_tuple(BoltCore core, tuple values, Source origin, Tuple anchor, object anchors):
    """Return a new delivery in the trees of its anchors. Each anchor adds one edge, XORed into anchor and delivery (ACK-2)."""
    cdef Tuple made = new_tuple(values, origin, 0)
    if anchor is not None:
        anchor_new(core, made, anchor)
    elif anchors is not None:
        for each in anchors:
            core.anchor_to(made, <Tuple>each)
    return made


@cython.final
cdef class BoltCore(TaskCore):
    """The compiled part of a bolt's executor. TaskCore describes the arguments that spouts also have.

    `on_forgotten()` requests a call of `flush_forgotten()` on the loop's thread.
    """

    def __cinit__(self, *args, **kwargs):
        self.taken_list.core = <PyObject*>self
        self.taken_list.on_forgotten = note_forgotten
        self.taken_list.on_rootless_forgotten = note_rootless_forgotten

    def __dealloc__(self):
        while self.taken_list.newest != NULL:      # user code may hold tuples for longer than the run
            remove_taken(&self.taken_list, <Tuple>self.taken_list.newest, FAILED_WITH_TASK)

    def __init__(self, int32_t task_id, *, Mailbox mailbox not None, failed_reason=None, forgotten_reason=None, bint fails_forgotten=True,
                 on_forgotten=None, **common):
        TaskCore.__init__(self, task_id, **common)
        self.mailbox = mailbox
        self.failed_reason = failed_reason
        self.forgotten_reason = forgotten_reason
        self.fails_forgotten = fails_forgotten
        self.forgotten_roots = SignalRing(on_forgotten)
        self.forgotten_roots.park()
        self.held_tuples = HeldTuples()
        self.call_acks = SignalRing()
        self.forgotten_rootless, self.call_rootless = [], []
        self.upstream, self.settle_rings, self.failures = {}, {}, {}
        self.process_latency = LatencyHistogram()
        self.singly = []
        self.marks = deque()

    def bind(self, execute, *, bint basic, Py_ssize_t burst_rows=0, settler=None):
        """Serve a new instance. Store its `execute`, and whether the core anchors and acks for it.

        burst_rows: `execute` takes a Burst of at most this number of tuples. 0: one tuple. settler: acks and fails tuples of a Burst.
        """
        self.execute, self.basic = UserMethod(execute), basic
        self.burst_rows, self.settler = burst_rows, settler
        self.singly = []
        self.mark = SentMark(self) if burst_rows else None

    def connect(self, dict upstream, dict settle_rings):
        """Set the cores that send to this task, by task id, and the rings of the spout tasks among these."""
        self.upstream, self.settle_rings = upstream, settle_rings

    # Emits

    cdef int emit_values(self, object given, OutStream stream, Tuple anchor, object anchors) except -1:
        """Deliver values to every subscriber of stream, anchored to anchor, or to each of anchors."""
        cdef Py_ssize_t i
        cdef tuple values
        if stream is None:
            raise self.misuse("unknown_stream", stream=DEFAULT)
        values = checked_values(self, given, stream)
        if stream.only is None:
            return self.emit_to(values, stream, anchor, anchors)
        i = pick_target(self, stream.only, values)
        self.emitted += 1
        return deliver(self, stream.only, i, anchored_tuple(self, values, stream.origin, anchor, anchors))

    cdef int emit_to(self, tuple values, OutStream stream, Tuple anchor, object anchors) except -1:
        """Deliver values to several subscribers, or to one that may choose several tasks."""
        cdef Outlet outlet
        cdef Py_ssize_t i
        if stream.direct:
            raise self.misuse("direct_stream", stream=stream.origin.stream)
        chosen = [(pick_target(self, outlet, values),) if outlet.picks_one else self.targets_of(outlet, values)
                  for outlet in stream.outlets]     # may raise before anything is sent
        self.emitted += 1
        for outlet, targets in zip(stream.outlets, chosen):
            for i in targets:
                deliver(self, outlet, i, anchored_tuple(self, values, stream.origin, anchor, anchors))
        return 0

    cdef int anchor_to(self, Tuple made, Tuple anchor) except -1:
        cdef Roots* many
        cdef uint64_t edge
        cdef Py_ssize_t i
        if anchor.root == 0:
            return 0
        edge = draw_edge(self.ids)
        anchor.ack_value ^= edge
        if not anchor.flags & MANY_ROOTS:
            return add_root(made, anchor.root, edge)
        many = <Roots*><size_t>anchor.root
        for i in range(many.count):
            add_root(made, many.items[i].root, edge)
        return 0

    cdef int check_anchor(self, Tuple anchor) except -1:
        if anchor.state == TAKEN and anchor.owner == &self.taken_list:
            return 0
        if anchor.flags & IS_TICK or anchor.state == FAILED_WITH_TASK:
            return 0
        raise self.misuse("anchor", tuple=anchor)

    cpdef emit(self, object values, object anchors, object stream):
        """Emit for `BoltCollector` and the executor. `anchors` is None, a Tuple of this task, or a collection of such tuples."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else self.stream_of(stream)
        check_thread(self)
        if type(anchors) is Tuple:
            if (<Tuple>anchors).state != TAKEN or (<Tuple>anchors).owner != &self.taken_list:
                self.check_anchor(<Tuple>anchors)
            self.emit_values(values, out, <Tuple>anchors, None)
            return
        if anchors is not None:
            self.check_anchors(anchors)
        if not anchors and self.on_unanchored is not None:
            self.note_unanchored()
        self.emit_values(values, out, None, anchors)

    cdef int emit_rows(self, object rows, object anchors, object stream, bint single_values) except -1:
        """Emit one tuple for each row, all with the same anchors. single_values: a row is the only value of its tuple."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else self.stream_of(stream)
        cdef Tuple anchor = None
        cdef Tuple made
        cdef Py_ssize_t i
        check_thread(self)
        if type(rows) is not list:
            if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
                raise self.misuse("not_rows", method="emit_each" if single_values else "emit_many", given=rows)
            rows = list(rows)      # a generator may settle an anchor, so its code runs before the check of the anchors
        if type(anchors) is Tuple:
            anchor, anchors = <Tuple>anchors, None
            if anchor.state != TAKEN or anchor.owner != &self.taken_list:
                self.check_anchor(anchor)
        elif anchors is not None:
            self.check_anchors(anchors)
        if anchor is None and not anchors and self.on_unanchored is not None:
            self.note_unanchored()
        if not single_values:
            for row in rows:
                self.emit_values(row, out, anchor, anchors)
        elif out is None or out.only is None or out.arity != 1 or anchor is None:
            for value in rows:
                self.emit_values((value,), out, anchor, anchors)
        else:
            for value in rows:
                i = pick_for_value(self, out.only, value)
                self.emitted += 1
                made = new_tuple(value, out.origin, ONE_VALUE)
                anchor_new(self, made, anchor)
                deliver(self, out.only, i, made)
        return 0

    cdef int emit_aligned(self, list rows, list anchors, object stream, bint single_values) except -1:
        """Emit one tuple for each row, anchored to the input at the same place of anchors. single_values: as in `emit_rows`."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else self.stream_of(stream)
        cdef bint is_plain = single_values and out is not None and out.only is not None and out.arity == 1
        cdef Tuple anchor, made
        cdef Py_ssize_t at, i
        check_thread(self)
        if len(rows) != len(anchors):
            raise ValueError(f"{len(rows)} rows have {len(anchors)} anchors")
        for at in range(len(rows)):
            anchor = <Tuple?>anchors[at]
            if anchor.state != TAKEN or anchor.owner != &self.taken_list:
                self.check_anchor(anchor)
            if is_plain:
                value = rows[at]
                i = pick_for_value(self, out.only, value)
                self.emitted += 1
                made = new_tuple(value, out.origin, ONE_VALUE)
                anchor_new(self, made, anchor)
                deliver(self, out.only, i, made)
            else:
                self.emit_values((rows[at],) if single_values else rows[at], out, anchor, None)
        return 0

    cdef int note_unanchored(self) except -1:
        """Tell the ackers, before the first emit without an anchor, that calls of this task may have effects of which no tree knows (EO-6)."""
        told, self.on_unanchored = self.on_unanchored, None
        told(self.task_id)
        return 0

    cdef int check_anchors(self, object anchors) except -1:
        """Raise unless anchors are tuples of this task, in a collection that can be iterated more than once."""
        if not isinstance(anchors, (list, tuple, set, frozenset)):
            raise self.misuse("anchors", anchors=anchors)
        for each in anchors:
            if type(each) is not Tuple:
                raise self.misuse("anchors", anchors=each)
            self.check_anchor(<Tuple>each)
        return 0

    def emit_direct(self, int32_t task, values, anchors, stream):
        """Emit to one task of each direct subscriber of a stream that is declared direct."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef Source origin
        cdef bint found = False
        check_thread(self)
        if not out.direct:
            raise self.misuse("not_direct", stream=stream)
        values = checked_values(self, values, out)
        if type(anchors) is Tuple:
            anchors = (anchors,)
        if anchors is not None:
            self.check_anchors(anchors)
        if not anchors and self.on_unanchored is not None:
            self.note_unanchored()
        for outlet in out.outlets:
            if task in outlet.index_of:
                found = True
                origin = out.origin if out.origins is None else <Source>out.origins[task]
                deliver(self, outlet, outlet.index_of[task], anchored_tuple(self, <tuple>values, origin, None, anchors))
        if not found and out.outlets:
            raise self.misuse("direct_target", stream=stream, task=task)
        self.emitted += 1

    def emit_control(self, values, stream, Tuple anchor=None):
        """Send values as a control tuple to every task of every subscriber of a stream, with any grouping. Never stops a sender."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef Py_ssize_t i
        cdef Tuple made
        values = checked_values(self, values, out)
        for outlet in out.outlets:
            for i in range(outlet.tasks):
                made = anchored_tuple(self, <tuple>values, out.origin, anchor, None)
                made.flags |= IS_CONTROL
                deliver(self, outlet, i, made)

    # Bursts

    def run_burst(self, Py_ssize_t limit):
        """Take and execute up to limit tuples, or for 5 ms. Return a BoltOutcome.

        Raises the error of a call. Its input is `current`, or `burst` if the instance takes bursts.
        """
        return self.run_bursts(limit) if self.burst_rows else self.run_singles(limit)

    cdef BoltOutcome run_singles(self, Py_ssize_t limit) except *:
        cdef Py_ssize_t calls = 0, lapped = 0
        cdef BoltOutcome outcome = MORE
        cdef PyObject* raw
        self.returned = None
        self.begin_turn()
        self.begin_guard()
        self.in_burst = True
        self.forgotten_roots.unpark()
        try:
            while calls < limit:
                if self.backpressure.stopped_by:
                    outcome = STOPPED
                    break
                raw = take_tuple(self.mailbox) if not self.rare_paths & HOLDS else self.take_past_holds()
                if raw == NULL:
                    outcome = EMPTY
                    break
                self.current = <Tuple>raw     # releases the previous tuple, which the bolt may have forgotten
                Py_DECREF(<object>raw)
                if self.current.flags & (IS_CONTROL | IS_TICK) and self.is_control():
                    outcome = CONTROL
                    break
                if not self.current.flags & IS_TICK:
                    add_taken(&self.taken_list, self.current, self.now_ms)
                if calls == 0:
                    self.take_sample(self.current, self.lap_start)
                calls += 1
                if self.call(self.current):
                    outcome = RETURNED
                    break
                if self.state is not None:
                    self.keep_call()
                if calls - lapped >= self.stride:
                    if self.end_lap(calls - lapped):
                        lapped = calls
                        break
                    lapped = calls
            if outcome != RETURNED:
                self.end_guard()
                if outcome != CONTROL:
                    self.current = None
        finally:
            if calls > lapped:
                self.end_lap(calls - lapped)
            self.executed += calls
            self.in_burst = False
            self.end_burst(outcome)
        return outcome

    cdef BoltOutcome run_bursts(self, Py_ssize_t limit) except *:
        """Do the same for an instance that takes bursts. A call takes the tuples that wait, and never waits for more (BU-2)."""
        cdef Py_ssize_t executed = 0, count = 0
        cdef BoltOutcome outcome = MORE
        cdef list tuples
        self.returned = None
        self.begin_turn()
        self.begin_guard()
        self.in_burst = True
        self.forgotten_roots.unpark()
        try:
            while executed < limit:
                if self.backpressure.stopped_by:
                    outcome = STOPPED
                    break
                tuples = self.take_burst(limit - executed)
                count = PyList_GET_SIZE(tuples)
                if count == 0:
                    outcome = EMPTY if self.current is None else CONTROL
                    break
                if executed == 0:
                    self.take_sample(<Tuple>PyList_GET_ITEM(tuples, 0), self.lap_start)
                executed += count
                self.burst = Burst(tuples, self.settler)
                self.mark.set_at(self)
                self.acked_at_mark = self.acked
                result = call_one(self.execute, self.burst)
                if result is not None:
                    self.returned = result
                    outcome = RETURNED
                    break
                self.burst = None
                self.ack_burst(tuples)
                if self.state is not None:
                    self.keep_call()
                if self.end_lap(count):
                    count = 0
                    break
                count = 0
            if outcome != RETURNED:
                self.end_guard()
        finally:
            if count:
                self.end_lap(count)
            self.executed += executed
            self.in_burst = False
            self.end_burst(outcome)
        return outcome

    cdef list take_burst(self, Py_ssize_t most):
        """Take the waiting tuples for one call, at most as many as it should finish in a turn. A tick comes alone.

        A control tuple ends a burst. The next call puts it into `current`, and returns no tuple.
        """
        cdef Mailbox box = self.mailbox
        cdef Py_ssize_t i, count = min(self.burst_rows, most)
        cdef list tuples
        cdef Tuple tup
        cdef PyObject* raw
        self.current = None
        while self.singly:
            tup = self.singly.pop()
            if tup.state == TAKEN:
                return [tup]
        if self.rare_paths & HOLDS:
            return self.take_one(self.take_past_holds())
        count = min(self.fitting(count), box.tail - box.head)
        for i in range(count):
            if (<Tuple>box.ring[(box.head + i) & box.mask]).flags & (IS_CONTROL | IS_TICK):
                if i == 0:
                    return self.take_one(take_tuple(box))
                count = i
                break
        tuples = PyList_New(count)
        for i in range(count):
            raw = take_tuple(box)
            add_taken(&self.taken_list, <Tuple>raw, self.now_ms)
            PyList_SET_ITEM(tuples, i, <Tuple>raw)      # takes over the reference of the mailbox
        return tuples

    cdef list take_one(self, PyObject* raw):
        """Return a burst of this tuple. If it is a control tuple, put it into `current`, and return no tuple."""
        cdef Tuple tup
        if raw == NULL:
            return []
        tup = <Tuple>raw
        Py_DECREF(tup)
        self.current = tup
        if tup.flags & (IS_CONTROL | IS_TICK) and self.is_control():
            return []
        self.current = None
        if not tup.flags & IS_TICK:
            add_taken(&self.taken_list, tup, self.now_ms)
        return [tup]

    cdef int ack_burst(self, list tuples) except -1:
        """Ack the tuples of a call that has returned, except those that it has acked or failed itself.

        Consecutive tuples of one root make one ack, because the acker would XOR their values anyway (ACK-2).
        """
        cdef Tuple tup
        cdef uint64_t root = 0, value = 0
        cdef uint32_t rare = MANY_ROOTS | REPORTS_SETTLE | SAMPLED
        cdef bint each_alone = self.rare_paths & TRACES
        for tup in tuples:
            if tup.state != TAKEN:
                continue
            if each_alone or tup.flags & rare:
                self.ack_now(tup)
                continue
            remove_taken(&self.taken_list, tup, SETTLED)
            self.acked += 1
            if tup.root != root:
                self.ack_root(root, value)
                root, value = tup.root, 0
            value ^= tup.edge ^ tup.ack_value
        return self.ack_root(root, value)

    cdef inline int ack_root(self, uint64_t root, uint64_t value) except -1:
        return 0 if root == 0 else signal_acker(self, ACK, root, value)

    def retry_singly(self, Burst burst not None, reason, *, bint awaited):
        """Let the unsettled tuples of a burst that raised run again, each alone and before all others. Return their number.

        First undo the changes of the state, and take back the emits of the call. The emits stay if the call has acked a tuple, was
        awaited, or has let another task send to the same mailboxes.
        """
        cdef Tuple tup
        if not awaited and self.acked == self.acked_at_mark and self.mark.can_take_back(self):
            self.mark.take_back(self)
            for tup in burst.tuples:
                tup.ack_value = 0
        self.undo_call(reason)
        self.singly = [tup for tup in reversed(burst.tuples) if (<Tuple>tup).state == TAKEN]
        self.executed -= len(self.singly)      # so that a tuple counts once
        return len(self.singly)

    @property
    def retrying(self):
        """Number of tuples that run again one by one."""
        return len(self.singly)

    def requeue_singly(self):
        """Let the next instance take the tuples that still have to run again, one by one and before all others."""
        cdef Tuple tup
        waiting, self.singly = [tup for tup in self.singly if (<Tuple>tup).state == TAKEN], []
        if waiting:
            for tup in waiting:
                remove_taken(&self.taken_list, tup, WAITING)
            self.held_tuples.released.extendleft(waiting)      # the last of the list runs first
            self.rare_paths |= HOLDS

    cdef bint is_control(self) noexcept:
        """Return True for a control tuple. After a tick, allow `post_tick` to post the next one."""
        if self.current.flags & IS_CONTROL:
            return True
        self.tick_waits = False
        return False

    cdef PyObject* take_past_holds(self) except? NULL:
        """Return the next tuple while a source is held or the gate is closed. Released tuples come first. Returns a new reference."""
        cdef PyObject* raw
        cdef Tuple tup
        while True:
            if self.held_tuples.released:
                tup = self.held_tuples.released.popleft()
                if self.held_tuples.holds_back(tup) or self.refuses(tup):     # the source is held again
                    continue
                Py_INCREF(tup)
                return <PyObject*>tup
            if not self.held_tuples.held and self.held_tuples.gated is None and self.refused is None:
                self.rare_paths &= ~<uint32_t>HOLDS
            raw = take_tuple(self.mailbox)
            if raw == NULL:
                return raw
            tup = <Tuple>raw
            Py_DECREF(tup)
            if not self.held_tuples.holds_back(tup) and not self.refuses(tup):
                Py_INCREF(tup)
                return raw

    cdef bint refuses(self, Tuple tup) except -1:
        """Fail an input of no tree, as if its call had failed it, if it may not reach the instance any more."""
        if self.refused is None or tup.root != 0 or tup.flags & (IS_CONTROL | IS_TICK):
            return False
        reason = self.refused.get((tup.origin.component_id, tup.origin.stream))
        if reason is None:
            return False
        add_taken(&self.taken_list, tup, self.now_ms)
        self.executed += 1
        self.fail_tuple(tup, reason)
        return True

    cdef int call(self, Tuple tup) except -1:
        """Execute tup. Return 1 if the executor must handle `returned`."""
        result = call_one(self.execute, tup)
        if self.basic:
            return self.call_basic(tup, result)
        if result is not None:
            self.returned = result
            return 1
        return 0

    cdef int call_basic(self, Tuple tup, object result) except -1:
        """Emit the values that execute returned or yields, anchored, and ack. Leave any other result to the executor, and return 1."""
        if result is not None:
            if type(result) is tuple:
                self.emit_values(result, self.default_stream, tup, None)
            elif type(result) is GeneratorType:
                for values in result:
                    self.emit_values(values, self.default_stream, tup, None)
            else:
                self.returned = result
                return 1
        if tup.state == TAKEN:
            self.ack_now(tup)
        return 0

    cdef int end_burst(self, BoltOutcome outcome) except -1:
        if has_drained(self.mailbox):
            self.mailbox.resume_senders()
        if self.forgotten_roots.head != self.forgotten_roots.tail:
            self.flush_forgotten()
        self.forgotten_roots.park()
        self.set_behind(outcome == MORE and self.mailbox.head != self.mailbox.tail)
        return 0

    cdef void set_behind(self, bint behind) noexcept:
        if behind != self.is_behind:
            self.is_behind = behind
            self.backlog.behind += 1 if behind else -1

    def take_next(self):
        """Take one tuple for a call that the executor awaits. None if no tuple waits. A control tuple does not count as taken."""
        cdef PyObject* raw
        cdef Tuple tup
        self.begin_turn()
        raw = take_tuple(self.mailbox) if not self.rare_paths & HOLDS else self.take_past_holds()
        if has_drained(self.mailbox):
            self.mailbox.resume_senders()
        if raw == NULL:
            return None
        tup = <Tuple>raw
        Py_DECREF(tup)
        if tup.flags & IS_CONTROL:
            return tup
        if tup.flags & IS_TICK:
            self.tick_waits = False
        else:
            add_taken(&self.taken_list, tup, self.now_ms)
            self.take_sample(tup, self.turn_start)
        self.executed += 1
        self.begin_guard()
        return tup

    def end_call(self, double secs, given=None):
        """Count the time of an executor's call that has returned. Ack the unsettled tuples of a Burst, and of a basic bolt the tuple."""
        self.awaited_secs += secs
        if type(given) is Burst:
            self.ack_burst((<Burst>given).tuples)
        elif given is not None and self.basic and (<Tuple?>given).state == TAKEN:
            self.ack_now(<Tuple>given)
        self.end_guard()

    # The state of a call (SV-2)

    def guard_state(self, Layers state not None):
        """From now on, a call's changes of this state and its acks take effect only when the call returns."""
        self.state = state
        self.rare_paths |= GUARDS

    cdef int begin_guard(self) except -1:
        if self.state is not None:
            self.state.guard_call()
            self.acked_before = self.acked
        return 0

    cdef int end_guard(self) except -1:
        if self.state is not None:
            self.state.end_call()
            self.send_call_acks()
        return 0

    cdef inline int keep_call(self) except -1:
        """Apply the changes and acks of a call that returned, because another call may follow in the burst."""
        keep_changes(self.state)
        if self.call_acks.head != self.call_acks.tail:
            self.send_call_acks()
        self.acked_before = self.acked
        return 0

    cdef int send_call_acks(self) except -1:
        """Send the acks of a call that has returned."""
        cdef Signal* ack
        while self.call_acks.head != self.call_acks.tail:
            ack = &self.call_acks.ring[self.call_acks.head & self.call_acks.mask]
            self.call_acks.head += 1
            if ack.root != 0:
                signal_acker(self, ACK, ack.root, ack.value)
            else:
                self.call_rootless.clear()
        self.call_acks.reset_empty()
        return 0

    cdef int fail_call_acks(self, object reason) except -1:
        """Fail what a call has acked, because it raised (SV-2)."""
        cdef Signal ack
        while self.call_acks.head != self.call_acks.tail:
            ack = self.call_acks.ring[self.call_acks.head & self.call_acks.mask]
            self.call_acks.head += 1
            if ack.root != 0:
                send_signal_with(acker_ring(self, ack.root), FAIL, ack.root, self.task_id, reason, ack.value)
        self.call_acks.reset_empty()
        rootless, self.call_rootless = self.call_rootless, []
        for tup in rootless:
            self.note_rootless(<Tuple>tup, reason)
        while self.acked > self.acked_before:
            self.acked -= 1
            self.count_failure(reason)
        return 0

    def guard_only(self, call_var, call):
        """Undo only changes by code in whose context call_var is call, because other code runs while the call is awaited."""
        if self.state is not None:
            self.state.guard_only(call_var, call)

    def undo_call(self, reason):
        """Undo the state changes and the acks of the call that raised. The acked tuples fail with its input."""
        if self.state is not None and self.state.guarding:
            self.state.undo_call()
            self.fail_call_acks(reason)

    def forget_current(self):
        """Release the last call's input."""
        self.current = self.returned = self.burst = None

    # Settles

    cdef bint is_mine(self, Tuple tup) except -1:
        """Return True if this task must still settle tup (ACK-5). Raises an error for a tuple of another task."""
        if tup.state == TAKEN and tup.owner == &self.taken_list:
            return True
        if tup.flags & IS_TICK or tup.state == FAILED_WITH_TASK:
            return False
        if tup.state == SETTLED:
            self.settled_twice += 1
            return False
        raise self.misuse("not_mine", tuple=tup)

    cdef int ack_tuple(self, Tuple tup) except -1:
        """Ack a tuple for the user's code. The acks of a call with a state leave when it returns."""
        return self.ack_as(tup, self.rare_paths & (GUARDS | TRACES | MARKED))

    cdef int ack_now(self, Tuple tup) except -1:
        """Ack a tuple for a call that has returned."""
        return self.ack_as(tup, self.rare_paths & TRACES)

    cdef inline int ack_as(self, Tuple tup, uint32_t rare) except -1:
        if tup.state != TAKEN or tup.owner != &self.taken_list:
            if not self.is_mine(tup):
                return 0
        remove_taken(&self.taken_list, tup, SETTLED)
        self.acked += 1
        if tup.flags & SAMPLED:
            self.end_sample(tup)
        if rare or tup.flags & (MANY_ROOTS | REPORTS_SETTLE):
            return self.ack_rarely(tup, rare)
        if tup.root != 0:
            signal_acker(self, ACK, tup.root, tup.edge ^ tup.ack_value)
        return 0

    cdef int ack_rarely(self, Tuple tup, uint32_t rare) except -1:
        """Ack a tuple with several roots, a trace or a report, in a call with a state, or in front of a mark."""
        if rare & MARKED:
            self.look_for_due_mark()
        if rare & TRACES and tup.root != 0:
            self.trace("acked", tup.roots, self.task_id)
        if tup.flags & REPORTS_SETTLE:
            self.report_settle(tup)
        if rare & GUARDS and self.state.guarding:
            if not is_foreign(self.state):
                if tup.root == 0 and self.on_rootless_failure is not None:
                    self.call_rootless.append(tup)
                    return send_signal(self.call_acks, ACK, 0, 0, self.task_id)
                if tup.flags & MANY_ROOTS or tup.root == 0:
                    return self.signal_roots(tup, ACK, None, self.call_acks)
                return send_signal(self.call_acks, ACK, tup.root, tup.edge ^ tup.ack_value, self.task_id)
            self.acked_before += 1      # so this ack stays if the awaited call raises
        return self.signal_roots(tup, ACK, None)

    cdef void take_sample(self, Tuple tup, double at) noexcept:
        # Only the last sample has an exact start. Earlier ones use the ms of the tuple.
        tup.flags |= SAMPLED
        self.sample, self.sample_start = <PyObject*>tup, at

    cdef int end_sample(self, Tuple tup) except -1:
        cdef double now = self.now()
        record_latency(self.process_latency, now - self.sample_start if <PyObject*>tup == self.sample else self.ms_taken(tup, now) / 1000.0)
        return 0

    cdef int report_settle(self, Tuple tup) except -1:
        """Tell the spout task that emitted tup that this task has acked tup (task_port.on_settled). A fail arrives as the verdict."""
        cdef double at = self.now()
        ring = self.settle_rings.get(tup.origin.task_id)
        if ring is not None and tup.root != 0 and not tup.flags & MANY_ROOTS:
            send_signal(<SignalRing>ring, SETTLED_AT, tup.root, (<uint64_t*>&at)[0], self.task_id)
        return 0

    cdef int fail_tuple(self, Tuple tup, object reason) except -1:
        if not self.is_mine(tup):
            return 0
        remove_taken(&self.taken_list, tup, SETTLED)
        self.count_failure(reason)
        if self.rare_paths & MARKED:
            self.look_for_due_mark()
        if tup.flags & SAMPLED:
            self.end_sample(tup)
        if self.rare_paths & TRACES and tup.root != 0:
            self.trace("failed", tup.roots, self.task_id)
        if tup.root == 0:
            return self.note_rootless(tup, reason)
        return self.signal_roots(tup, FAIL, reason)

    cdef int look_for_due_mark(self) except -1:
        """Wake the executor if a mark is the oldest input now."""
        if self.taken_list.oldest != NULL and is_mark(<Tuple>self.taken_list.oldest):
            self.mailbox.on_wake()
        return 0

    cdef int note_rootless(self, Tuple tup, object reason) except -1:
        """Report a failed input of no tree, because no acker knows of it."""
        if self.on_rootless_failure is not None:
            self.on_rootless_failure(tup, reason)
        return 0

    cdef int count_failure(self, object reason) except -1:
        """Count a failed input under the reason of its Failure."""
        word = getattr(reason, "reason", "failed")
        self.failures[word] = self.failures.get(word, 0) + 1
        self.failed += 1
        return 0

    cdef int signal_roots(self, Tuple tup, int kind, object carried, SignalRing kept=None) except -1:
        """Send one signal for each root of tup. An ACK has a value, a FAIL a value and a reason, a RESET has none. kept: ring for all of them."""
        cdef Roots* many
        cdef Roots one
        cdef Py_ssize_t i
        cdef SignalRing ring
        if tup.root == 0:
            return 0
        if tup.flags & MANY_ROOTS:
            many = <Roots*><size_t>tup.root
        else:
            one.count, one.items[0].root, one.items[0].edge = 1, tup.root, tup.edge
            many = &one
        for i in range(many.count):
            ring = acker_ring(self, many.items[i].root) if kept is None else kept
            if kind == FAIL:
                send_signal_with(ring, FAIL, many.items[i].root, self.task_id, carried, many.items[i].edge ^ tup.ack_value)
            else:
                send_signal(ring, <SignalKind>kind, many.items[i].root, many.items[i].edge ^ tup.ack_value if kind == ACK else 0, self.task_id)
        return 0

    def ack(self, Tuple tup not None):
        check_thread(self)
        self.ack_tuple(tup)

    def fail(self, Tuple tup not None, reason=None):
        """Fail every root of tup. `reason` is a Failure. The default says that the bolt failed the tuple."""
        check_thread(self)
        self.fail_tuple(tup, self.failed_reason if reason is None else reason)

    cpdef reset_timeout(self, Tuple tup):
        check_thread(self)
        if tup.state == TAKEN or (tup.state == WAITING and tup.is_control):      # a waiting control tuple was held back
            if tup.root == 0 and tup.state == TAKEN:
                tup.taken_ms = <uint32_t><uint64_t>(self.now() * 1000.0)      # its time is counted by `fail_overdue`
            self.signal_roots(tup, RESET, None)

    cdef int note_forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1:
        """Count a taken tuple that was deallocated without a settle, and queue the fails of its roots (ACK-15).

        value: its edge ^ its ack value. With several roots, only its ack value.
        Called during a deallocation, on any thread that holds the interpreter.
        """
        if self.closing or self.forgotten_roots is None:     # None: the garbage collector has cleared the core
            return 0
        self.forgotten_tuples += 1
        return self.queue_forgotten(root, value, many) if self.fails_forgotten else 0

    cdef int note_rootless_forgotten(self, object held, Source origin, uint8_t flags) except -1:
        """Do the same for a tuple of no tree, if somebody needs to know. A copy of it is reported."""
        if self.closing or self.forgotten_roots is None or self.on_rootless_failure is None or not self.fails_forgotten:
            return 0
        self.forgotten_tuples += 1
        self.forgotten_rootless.append(new_tuple(held, origin, flags & ONE_VALUE))
        return self.queue_forgotten(0, 0, NULL)

    cdef int queue_forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1:
        """Queue the fails of a forgotten tuple. The root 0 stands for the next one of `forgotten_rootless`."""
        cdef Py_ssize_t i
        cdef bint wakes
        self.failed += 1
        wakes = self.forgotten_roots.parked
        if wakes:
            self.forgotten_roots.unpark()       # no callback may run before the last signal
        for i in range(1 if many == NULL else many.count):
            if many != NULL:
                send_signal(self.forgotten_roots, FAIL, many.items[i].root, many.items[i].edge ^ value, self.task_id)
            else:
                send_signal(self.forgotten_roots, FAIL, root, value, self.task_id)
        if wakes and self.forgotten_roots.on_wake is not None:
            self.forgotten_roots.on_wake()      # may let the loop's thread run, and it must find all signals
        return 0

    def flush_forgotten(self):
        """Fail the roots of forgotten tuples. Must be called on the loop's thread."""
        cdef Signal got
        while self.forgotten_roots.head != self.forgotten_roots.tail:
            got = self.forgotten_roots.ring[self.forgotten_roots.head & self.forgotten_roots.mask]
            self.forgotten_roots.head += 1
            if got.root == 0:
                self.note_rootless(<Tuple>self.forgotten_rootless.pop(0), self.forgotten_reason)
            else:
                send_signal_with(acker_ring(self, got.root), FAIL, got.root, self.task_id, self.forgotten_reason, got.value)
        self.forgotten_roots.reset_empty()
        if not self.in_burst:
            self.forgotten_roots.park()

    def fail_taken(self, reason):
        """Fail all unsettled tuples that the task has taken, oldest first, and return their number. Later settles are ignored."""
        cdef Tuple tup
        cdef list taken = list_taken(&self.taken_list)
        self.undo_call(reason)
        for tup in taken:
            remove_taken(&self.taken_list, tup, FAILED_WITH_TASK)
            self.count_failure(reason)
            if self.rare_paths & TRACES and tup.root != 0:
                self.trace("failed", tup.roots, self.task_id)
            if tup.root == 0:
                self.note_rootless(tup, reason)
            self.signal_roots(tup, FAIL, reason)
        return len(taken)

    def fail_overdue(self, reason, double limit_secs, list waiting not None):
        """Fail the taken tuples of no tree that are older than limit_secs, except those in `waiting`. Later settles are ignored."""
        cdef Tuple tup
        cdef double now_secs = self.now()
        for tup in list_taken(&self.taken_list):
            if tup.root != 0 or is_mark(tup) or self.ms_taken(tup, now_secs) < limit_secs * 1000.0:
                continue
            if tup not in waiting and tup not in self.singly:
                remove_taken(&self.taken_list, tup, FAILED_WITH_TASK)
                self.count_failure(reason)
                self.note_rootless(tup, reason)

    def refuse(self, dict reasons):
        """Fail the next inputs of no tree from these (component, stream) with the reasons, before their calls. None: take all."""
        self.refused = reasons
        if reasons is not None:
            self.rare_paths |= HOLDS

    def drop_taken(self, reason):
        """Drop the inputs that the task has taken, without a signal. Later settles are ignored."""
        cdef Tuple tup
        self.call_acks.reset_empty()
        self.call_rootless.clear()
        self.undo_call(reason)
        for tup in list_taken(&self.taken_list):
            remove_taken(&self.taken_list, tup, FAILED_WITH_TASK)
            if not is_mark(tup):
                self.count_failure(reason)
        self.marks.clear()
        self.rare_paths &= ~<uint32_t>MARKED

    def drop_inputs(self, reason):
        """Drop all inputs that wait or are taken, without a signal. The spouts fail the trees themselves."""
        self.leave_burst()
        self.current = self.returned = self.burst = None
        self.drop_taken(reason)
        self.singly = []
        self.release_all()
        self.held_tuples.clear()
        while self.mailbox.take() is not None:
            pass
        self.tick_waits = False

    def lose(self, Tuple tup not None):
        """Drop a taken tuple as if it had never arrived, so its trees time out. For fault injection."""
        if tup.state == TAKEN and tup.owner == &self.taken_list:
            remove_taken(&self.taken_list, tup, FAILED_WITH_TASK)

    def leave_burst(self):
        """Note that the executor makes no calls for a while, so no spout has to give way to this bolt."""
        self.set_behind(False)

    # Rare paths (task_port)

    def hold(self, int32_t source_task):
        """Hold back tuples of source_task, and stop that task."""
        self.held_tuples.hold(source_task, (<TaskCore?>self.upstream[source_task]).backpressure)
        self.rare_paths |= HOLDS

    def hold_all(self):
        """Hold back tuples of all source tasks, and stop these tasks."""
        for source in self.upstream:
            self.hold(source)

    def release(self, int32_t source_task):
        """Take the held tuples of source_task next, in order, and let that task continue."""
        self.held_tuples.release(source_task, (<TaskCore?>self.upstream[source_task]).backpressure)

    def gate(self, bint closed):
        """Close the gate to hold back tuples of all sources, or open it to take the held tuples next."""
        self.held_tuples.set_gate(closed)
        self.rare_paths |= HOLDS

    @property
    def is_gated(self):
        """True while the gate is closed."""
        return self.held_tuples.gated is not None

    def release_all(self):
        """End all holds, and open the gate. Called when the task has no instance, so all inputs fail."""
        self.release_sources()
        self.held_tuples.set_gate(False)

    def release_sources(self):
        """End all holds."""
        cdef int32_t source
        for source in list(self.held_tuples.held):
            self.release(source)

    # A tuple that only waits does not time out (ACK-8)

    def refresh_waiting(self, Py_ssize_t position, Py_ssize_t limit):
        """Reset the timeout of up to limit waiting tuples from position on. Return the next position, -1 at the end."""
        cdef Py_ssize_t head = self.mailbox.head, tail = self.mailbox.tail
        if position < head:
            position = head
        while position < tail and limit > 0:
            self.signal_roots(<Tuple>self.mailbox.ring[position & self.mailbox.mask], RESET, None)
            position += 1
            limit -= 1
        return position if position < tail else -1

    def refresh_held(self):
        """Reset the timeout of all tuples that are held back, are released, or wait to run again."""
        for tup in self.held_tuples.tuples():
            self.signal_roots(<Tuple>tup, RESET, None)
        for tup in self.singly:
            if (<Tuple>tup).state == TAKEN:
                self.signal_roots(<Tuple>tup, RESET, None)

    def post_tick(self, Tuple tick):
        """Post a tick, unless a tick already waits or the gate is closed. A tick stops no sender and belongs to no tree."""
        if not self.tick_waits and self.held_tuples.gated is None:
            self.tick_waits = True
            tick.flags |= IS_TICK
            post_tuple(self.mailbox, tick, NULL)

    def settle_control(self, Tuple tup not None, reason=None):
        """Ack a control tuple, or fail it for a reason.

        Control tuples are never on the list of taken tuples, so fail_taken does not fail them.
        """
        if tup.state == WAITING:
            tup.state = SETTLED
            if self.rare_paths & TRACES and tup.root != 0:
                self.trace("acked" if reason is None else "failed", tup.roots, self.task_id)
            self.signal_roots(tup, ACK if reason is None else FAIL, reason)

    # Queries

    def taken_tuples(self):
        """Return the tuples that are taken and not settled, oldest first."""
        return list_taken(&self.taken_list)

    def oldest_taken(self, Py_ssize_t most):
        """Return the oldest tuples that are taken and not settled, at most `most`. Takes no time for the others."""
        return list_oldest(&self.taken_list, most)

    def taken_age_ms(self, Tuple tup, double now_secs):
        """Return the milliseconds from the take of tup to this time of the run's clock."""
        return self.ms_taken(tup, now_secs)

    cdef uint32_t ms_taken(self, Tuple tup, double now_secs) noexcept:
        return <uint32_t><uint64_t>(now_secs * 1000.0) - tup.taken_ms

    @property
    def taken(self):
        """Number of tuples that are taken and not settled. Counts them one by one."""
        return len(list_taken(&self.taken_list))

    @property
    def waiting(self):
        """Number of tuples in the mailbox."""
        return self.mailbox.tail - self.mailbox.head


cdef int note_forgotten(PyObject* core, uint64_t root, uint64_t value, Roots* many) except -1:
    return (<BoltCore>core).note_forgotten(root, value, many)


cdef int note_rootless_forgotten(PyObject* core, PyObject* held, PyObject* origin, uint8_t flags) except -1:
    return (<BoltCore>core).note_rootless_forgotten(<object>held, <Source>origin, flags)
