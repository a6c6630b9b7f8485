"""A bolt task's tuples, from its mailbox to their settle.

`run_burst` takes up tuples and calls `execute`; user code comes back through BoltEmitter: emit, ack, fail. The core is the
task's and outlives its instances; what an instance took up fails with it (ACK-15).
"""
from types import GeneratorType as _GeneratorType

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t
cimport cython

from _native.bolt_dispatch cimport BoltDispatch
from _native.histogram cimport LatencyHistogram, record
from _native.holdback cimport Aside, KeptAcks
from _native.layers cimport Layers, is_foreign, keep_changes
from _native.mailbox cimport ACK, FAIL, RESET, SETTLED_AT, SignalKind, SignalRing, drained_to_half, post, signal, signal_with, take
from _native.method cimport Method, call_one
from _native.task_core cimport DEFERS, HOLDS, TRACES, TaskCore, check_thread, ring_for, tell_acker
from _native.tuples cimport (FAILED_WITH_TASK, IS_CONTROL, IS_TICK, MANY_ROOTS, REPORTS_SETTLE, SAMPLED, SETTLED, TAKEN, WAITING, Roots, Tuple,
                             let_go, take_up)

cdef type GeneratorType = _GeneratorType


@cython.final
cdef class BoltCore(BoltDispatch):
    """The C side of a bolt's executor; see TaskCore for the arguments it shares with spouts."""

    def __init__(self, int32_t task_id, *, failed_reason=None, forgotten_reason=None, bint fails_forgotten=True, on_lost=None, **common):
        BoltDispatch.__init__(self, task_id, **common)
        self.failed_reason = failed_reason
        self.forgotten_reason = forgotten_reason
        self.fails_forgotten = fails_forgotten
        self.lost = SignalRing(on_lost)
        self.lost.park()
        self.aside = Aside()
        self.kept = KeptAcks(self)
        self.upstream, self.settle_rings, self.failures = {}, {}, {}
        self.process_latency = LatencyHistogram()

    def bind(self, execute, *, bint basic):
        """Serve a new instance: its `execute`, and whether it anchors and acks by itself."""
        self.execute, self.basic = Method(execute), basic

    def connect(self, dict upstream, dict settle_rings):
        """Name the cores that feed this task and the rings of the spout tasks among them, by task id."""
        self.upstream, self.settle_rings = upstream, settle_rings

    # The burst

    def run_burst(self, Py_ssize_t limit):
        """Take up and execute up to limit tuples or for 5 ms; an Outcome. An exception is the call's, `current` its input."""
        cdef Py_ssize_t calls = 0, lapped = 0
        cdef Outcome outcome = MORE
        cdef PyObject* raw
        self.returned = None
        self.begin_turn()
        self.begin_guard()
        self.in_burst = True
        self.lost.unpark()
        try:
            while calls < limit:
                if self.emitter.stopped_by:
                    outcome = STOPPED
                    break
                raw = take(self.mailbox) if not self.rare & HOLDS else self.take_past_holds()
                if raw == NULL:
                    outcome = EMPTY
                    break
                self.current = <Tuple>raw     # lets go of the tuple before: its bolt may have forgotten it
                Py_DECREF(<object>raw)
                if self.current.flags & (IS_CONTROL | IS_TICK) and self.is_control():
                    outcome = CONTROL
                    break
                if not self.current.flags & IS_TICK:
                    take_up(self, self.current)
                if calls == 0:
                    self.take_sample(self.current, self.lap_start)
                calls += 1
                if self.call(self.current):
                    outcome = RETURNED
                    break
                if self.state is not None:
                    self.keep_call()
                if calls - lapped >= self.stride:
                    if self.lap(calls - lapped):
                        lapped = calls
                        break
                    lapped = calls
            if outcome != RETURNED:
                self.end_guard()
                if outcome != CONTROL:
                    self.current = None
        finally:
            if calls > lapped:
                self.lap(calls - lapped)
            self.executed += calls
            self.in_burst = False
            self.end_burst(outcome)
        return outcome

    cdef bint is_control(self) noexcept:
        """True for a control tuple; a tick makes room for the next one."""
        if self.current.flags & IS_TICK:
            self.tick_waits = False
        return (self.current.flags & IS_CONTROL) != 0

    cdef PyObject* take_past_holds(self) except? NULL:
        """What is next in line, while some source is held: what was released, then what is not held. A new reference."""
        cdef PyObject* raw
        cdef Tuple tup
        while True:
            if self.aside.released:
                tup = self.aside.released.popleft()
                if self.aside.puts_aside(tup):     # its source is held again
                    continue
                Py_INCREF(tup)
                return <PyObject*>tup
            if not self.aside.held and self.aside.gated is None:
                self.rare &= ~<uint32_t>HOLDS
            raw = take(self.mailbox)
            if raw == NULL or not self.aside.puts_aside(<Tuple>raw):
                return raw
            Py_DECREF(<object>raw)

    cdef int call(self, Tuple tup) except -1:
        """Execute tup; 1 when `returned` has to be looked at."""
        result = call_one(self.execute, tup)
        if self.basic:
            return self.call_basic(tup, result)
        if result is not None:
            self.returned = result
            return 1
        return 0

    cdef int call_basic(self, Tuple tup, object result) except -1:
        """Emit what a generator yields, anchored, and ack; anything else goes back to the executor."""
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
            self.ack_tuple(tup)
        return 0

    cdef int end_burst(self, Outcome outcome) except -1:
        if drained_to_half(self.mailbox):
            self.mailbox.resume_emitters()
        if self.lost.head != self.lost.tail:
            self.flush_lost()
        self.lost.park()
        self.set_behind(outcome == MORE and self.mailbox.head != self.mailbox.tail)
        return 0

    cdef void set_behind(self, bint behind) noexcept:
        if behind != self.is_behind:
            self.is_behind = behind
            self.pulse.behind += 1 if behind else -1

    def take_next(self):
        """Take up one tuple for a call that the executor awaits; None when nothing waits. A control tuple is not taken up."""
        cdef PyObject* raw
        cdef Tuple tup
        self.begin_turn()
        raw = take(self.mailbox) if not self.rare & HOLDS else self.take_past_holds()
        if drained_to_half(self.mailbox):
            self.mailbox.resume_emitters()
        if raw == NULL:
            return None
        tup = <Tuple>raw
        Py_DECREF(tup)
        if tup.flags & IS_TICK:
            self.tick_waits = False
        elif not tup.flags & IS_CONTROL:
            take_up(self, tup)
            self.take_sample(tup, self.turn_start)
        if not tup.flags & IS_CONTROL:
            self.executed += 1
            self.begin_guard()
        return tup

    def end_call(self, double started, Tuple tup=None):
        """Count the time of a call that the executor made: began at `started`. Acks tup if it is unsettled and basic."""
        self.busy_secs += self.now() - started
        if tup is not None and self.basic and tup.state == TAKEN:
            self.ack_tuple(tup)
        self.end_guard()

    # The state of a call (SV-2)

    def guard_state(self, Layers state not None):
        """Have the changes of each call to this state, and its acks, count when the call returns."""
        self.state = state

    cdef int begin_guard(self) except -1:
        if self.state is not None:
            self.state.guard_call()
            self.kept_before, self.acked_before = self.kept.count_deferred(), self.acked
        return 0

    cdef int end_guard(self) except -1:
        if self.state is not None:
            self.state.end_call()
        return 0

    cdef inline int keep_call(self) except -1:
        """A call returned, and another one may follow in the burst: what the first changed and acked counts."""
        keep_changes(self.state)
        self.kept_before, self.acked_before = self.kept.count_deferred(), self.acked
        return 0

    def guard_only(self, call_var, call):
        """The call is awaited: take back only changes of code in whose context call_var is call."""
        if self.state is not None:
            self.state.guard_only(call_var, call)

    def take_call_back(self, reason):
        """The call raised: undo what it changed in the state, and fail what it acked, its own input included."""
        if self.state is not None and self.state.guarding:
            self.state.take_call_back()
            self.kept.take_back(self.kept_before, reason)
            while self.acked > self.acked_before:
                self.acked -= 1
                self.count_failure(reason)

    def forget_current(self):
        """Let go of the last call's input."""
        self.current = self.returned = None

    # Settle

    cdef bint is_mine(self, Tuple tup) except -1:
        """True when this task owes a settle for tup; says why not otherwise (ACK-5)."""
        if tup.state == TAKEN and tup.owner == <PyObject*>self:
            return True
        if tup.flags & IS_TICK or tup.state == FAILED_WITH_TASK:
            return False
        if tup.state == SETTLED:
            self.settled_twice += 1
            return False
        raise self.misuse("not_mine", tuple=tup)

    cdef int ack_tuple(self, Tuple tup) except -1:
        if tup.state != TAKEN or tup.owner != <PyObject*>self:
            if not self.is_mine(tup):
                return 0
        let_go(self, tup, SETTLED)
        self.acked += 1
        if tup.flags & SAMPLED:
            self.end_sample(tup)
        if self.rare & (DEFERS | TRACES) or tup.flags & (MANY_ROOTS | REPORTS_SETTLE):
            return self.ack_rare(tup)
        if tup.root != 0:
            tell_acker(self, ACK, tup.root, tup.edge ^ tup.ack_value)
        return 0

    cdef int ack_rare(self, Tuple tup) except -1:
        """An ack with several roots, a trace, a report or a deferral."""
        cdef Roots* many
        cdef Py_ssize_t i, roots = 1
        cdef bint foreign
        if self.rare & TRACES and tup.root != 0:
            self.trace("acked", tup.roots, self.task_id)
        if tup.flags & REPORTS_SETTLE:
            self.report_settle(tup)
        if tup.root == 0:
            return 0
        if not self.rare & DEFERS:
            return self.signal_roots(tup, ACK, None)
        foreign = self.state is not None and is_foreign(self.state)
        if tup.flags & MANY_ROOTS:
            many = <Roots*><size_t>tup.root
            roots = many.count
            for i in range(roots):
                signal(self.kept.deferred, ACK, many.items[i].root, many.items[i].edge ^ tup.ack_value, self.task_id)
        else:
            signal(self.kept.deferred, ACK, tup.root, tup.edge ^ tup.ack_value, self.task_id)
        if foreign:     # not of the call that is awaited: it stays where that raises
            self.kept.put_before(self.kept_before, roots)
            self.kept_before += roots
            self.acked_before += 1
        return 0

    cdef void take_sample(self, Tuple tup, double at) noexcept:     # exact until the next sample, then by the tuple's ms
        tup.flags |= SAMPLED
        self.sample, self.sample_start = <PyObject*>tup, at

    cdef int end_sample(self, Tuple tup) except -1:
        cdef double now = self.now()
        record(self.process_latency, now - self.sample_start if <PyObject*>tup == self.sample else self.taken_age_ms(tup, now) / 1000.0)
        return 0

    cdef int report_settle(self, Tuple tup) except -1:
        """Tell the spout task that emitted tup that this task has acked it (task_port.on_settled); a fail comes as the verdict."""
        cdef double at = self.now()
        ring = self.settle_rings.get(tup.origin.task_id)
        if ring is not None and tup.root != 0 and not tup.flags & MANY_ROOTS:
            signal(<SignalRing>ring, SETTLED_AT, tup.root, (<uint64_t*>&at)[0], self.task_id)
        return 0

    cdef int fail_tuple(self, Tuple tup, object reason) except -1:
        if not self.is_mine(tup):
            return 0
        let_go(self, tup, SETTLED)
        self.count_failure(reason)
        if tup.flags & SAMPLED:
            self.end_sample(tup)
        if self.rare & TRACES and tup.root != 0:
            self.trace("failed", tup.roots, self.task_id)
        return self.signal_roots(tup, FAIL, reason)

    cdef int count_failure(self, object reason) except -1:
        """Count an input that failed, by the reason of its Failure."""
        word = getattr(reason, "reason", "failed")
        self.failures[word] = self.failures.get(word, 0) + 1
        self.failed += 1
        return 0

    cdef int signal_roots(self, Tuple tup, int kind, object carried) except -1:
        """Send one signal for each root of tup: ACK with its value, FAIL with its reason, RESET bare."""
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
            ring = ring_for(self, many.items[i].root)
            if kind == FAIL:
                signal_with(ring, FAIL, many.items[i].root, self.task_id, carried)
            else:
                signal(ring, <SignalKind>kind, many.items[i].root, many.items[i].edge ^ tup.ack_value if kind == ACK else 0, self.task_id)
        return 0

    def ack(self, Tuple tup not None):
        check_thread(self)
        self.ack_tuple(tup)

    def fail(self, Tuple tup not None, reason=None):
        """Fail every root of tup; reason is a Failure, by default that its bolt failed it."""
        check_thread(self)
        self.fail_tuple(tup, self.failed_reason if reason is None else reason)

    cpdef reset_timeout(self, Tuple tup):
        check_thread(self)
        if tup.state == TAKEN or (tup.state == WAITING and tup.is_control):      # of control tuples: those that are held
            self.signal_roots(tup, RESET, None)

    cdef int forgotten(self, uint64_t root, uint64_t value, Roots* many) except -1:    # (ACK-15)
        cdef Py_ssize_t i
        cdef bint wakes
        if self.closing or root == 0 or self.lost is None:     # the last: the garbage collector has cleared the core
            return 0
        self.forgotten_tuples += 1
        if not self.fails_forgotten:
            return 0
        self.failed += 1
        wakes = self.lost.parked
        if wakes:
            self.lost.unpark()       # so that nothing runs between here and the last signal
        for i in range(1 if many == NULL else many.count):
            signal(self.lost, FAIL, root if many == NULL else many.items[i].root, 0, self.task_id)
        if wakes and self.lost.on_wake is not None:
            self.lost.on_wake()      # may let the loop's thread run, which finds all of it
        return 0

    def flush_lost(self):
        """Fail the roots of forgotten tuples; on the loop's thread."""
        cdef uint64_t root
        while self.lost.head != self.lost.tail:
            root = self.lost.ring[self.lost.head & self.lost.mask].root
            self.lost.head += 1
            signal_with(ring_for(self, root), FAIL, root, self.task_id, self.forgotten_reason)
        self.lost.run_empty()
        if not self.in_burst:
            self.lost.park()

    def fail_taken(self, reason):
        """Fail all that is taken up and not settled, oldest first; later settles of it are ignored. How many."""
        cdef Tuple tup
        taken = self.taken_tuples()
        for tup in taken:
            let_go(self, tup, FAILED_WITH_TASK)
            self.count_failure(reason)
            if self.rare & TRACES and tup.root != 0:
                self.trace("failed", tup.roots, self.task_id)
            self.signal_roots(tup, FAIL, reason)
        return len(taken)

    def lose(self, Tuple tup not None):
        """Let go of a taken tuple as if it had never come: nobody settles it, so its trees time out. For fault injection."""
        if tup.state == TAKEN and tup.owner == <PyObject*>self:
            let_go(self, tup, FAILED_WITH_TASK)

    def leave_burst(self):     # the executor stops calling for a while: nobody has to give way to this bolt
        self.set_behind(False)

    # Rare ways (task_port)

    def hold(self, int32_t source_task):
        """Put aside what source_task sends from now on, and stop that task."""
        self.aside.hold(source_task, self.upstream[source_task])
        self.rare |= HOLDS

    def release(self, int32_t source_task):
        """Take what was put aside before anything else, in order, and let the task go on."""
        self.aside.release(source_task, self.upstream[source_task])

    def gate(self, bint closed):     # put all data aside from now on, or let it in, in order
        self.aside.set_gate(closed)
        self.rare |= HOLDS

    def let_all_in(self):
        """Hold nothing back any more, from no source: there is no instance, and what comes fails."""
        cdef int32_t source
        for source in list(self.aside.held):
            self.release(source)
        self.aside.set_gate(False)

    def defer_settles(self, bint on):
        """Keep acks as (root, value) in `kept` from now on."""
        self.rare = self.rare | DEFERS if on else self.rare & ~<uint32_t>DEFERS

    # What only waits does not time out (ACK-8)

    def refresh_waiting(self, Py_ssize_t position, Py_ssize_t limit):
        """Send a reset for the roots of up to limit tuples from position on in the mailbox; the next position, -1 at the end."""
        cdef Py_ssize_t head = self.mailbox.head, tail = self.mailbox.tail
        if position < head:
            position = head
        while position < tail and limit > 0:
            self.signal_roots(<Tuple>self.mailbox.ring[position & self.mailbox.mask], RESET, None)
            position += 1
            limit -= 1
        return position if position < tail else -1

    def refresh_aside(self):
        """Send a reset for the roots of all that is held back or released."""
        for tup in self.aside.tuples():
            self.signal_roots(<Tuple>tup, RESET, None)

    def post_tick(self, Tuple tick):
        """Put a tick into the mailbox unless one waits there or the gate is closed; it stops nobody and belongs to no tree."""
        if not self.tick_waits and self.aside.gated is None:
            self.tick_waits = True
            tick.flags |= IS_TICK
            post(self.mailbox, tick, NULL)

    def settle_control(self, Tuple tup not None, reason=None):
        """Ack a control tuple, or fail it for a reason; control tuples are never taken up, so fail_taken spares them."""
        if tup.state == WAITING:
            tup.state = SETTLED
            self.signal_roots(tup, ACK if reason is None else FAIL, reason)
