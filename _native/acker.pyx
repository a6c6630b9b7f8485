"""An acker receives signals and sends verdicts.

A tree is done when the XOR of its unsettled edges is 0 and its init has arrived. An ack or a fail that arrives before the init waits in the
slot. A waiting fail wins over a later zero (ACK-2 to ACK-4). A tree of an exact spout gets its verdict at zero, also if it has failed,
because a tuple of it may still wait in a mailbox (EO-6).
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
cimport cython

from _native.aging cimport FAIL_CAME, GENERATION, HAD_EFFECT, HAS_OWN_CLOCK, INIT_CAME, AgingTable
from _native.queues cimport (ACK, ACKED, DROP, FAIL, FAILED, INIT, OWN_CLOCK, RESET, ROTATE, Signal, SignalRing, send_signal,
                             send_signal_with)
from _native.tables cimport ROOTS_AHEAD, RootSlot, find_or_add_root, find_root, prefetch_root, remove_slot


cdef enum:
    SIGNALS_PER_CLOCK = 4096
    SLOTS_PER_SLICE = 65536

cdef double TURN_SECS = 0.005      # BP-4
cdef tuple VERDICT_NAMES = ("open", "acked", "failed")


cdef inline Verdict apply_ack(AckLedger ledger, RootSlot* slot, uint64_t value) except? TREE_FAILED:
    ledger.own_clock = slot.extra & HAS_OWN_CLOCK
    slot.word ^= value
    if slot.extra & INIT_CAME:
        if slot.word == 0:
            ledger.task = <int32_t>(slot.extra >> 32)
            remove_slot(ledger, slot)
            return TREE_ACKED
        if ledger.from_progress:
            slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (ledger.generation & GENERATION)
    else:
        slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (ledger.generation & GENERATION)
    return TREE_OPEN


@cython.final
cdef class AckLedger(AgingTable):
    """Open trees of one acker. `timeout_from` is "progress" or "emit". Methods with Python signatures and `least_slots` are for tests."""

    def __init__(self, *, timeout_from="progress", timeouts=True, exact=frozenset(), least_slots=None):
        self.exact = exact
        self.from_progress = timeout_from == "progress"
        self.timeouts = timeouts
        self.generation = 0
        self.cursor = -1

    cdef Verdict apply_init(self, uint64_t root, uint64_t value, int32_t task) except? TREE_FAILED:
        cdef RootSlot* slot = find_or_add_root(self, root)
        self.task, self.own_clock = task, slot.extra & HAS_OWN_CLOCK
        slot.word ^= value
        if slot.extra & FAIL_CAME:
            return self.open_failed(slot)
        if slot.word == 0:
            remove_slot(self, slot)
            return TREE_ACKED
        slot.extra = <uint64_t>task << 32 | (slot.extra & (HAS_OWN_CLOCK | HAD_EFFECT)) | INIT_CAME | (self.generation & GENERATION)
        return TREE_OPEN

    cdef Verdict apply_exact_ack(self, uint64_t root, uint64_t value, uint64_t effect) except? TREE_FAILED:
        """Apply an ack that may be the last signal of a tree that has failed. effect: HAD_EFFECT if the acked tuple may have had one, else 0."""
        cdef RootSlot* slot = find_or_add_root(self, root)
        slot.extra |= effect
        if slot.extra & FAIL_CAME and slot.extra & INIT_CAME and slot.word == value:
            self.task, self.own_clock = <int32_t>(slot.extra >> 32), slot.extra & HAS_OWN_CLOCK
            slot.word = 0
            return self.close_failed(slot)
        return apply_ack(self, slot, value)

    cdef Verdict apply_fail(self, uint64_t root, uint64_t value) except? TREE_FAILED:
        """Note that a tuple has failed. value: as that of an ack. 0: it is not known, so the tree fails at once."""
        cdef RootSlot* slot = find_or_add_root(self, root)
        self.own_clock = slot.extra & HAS_OWN_CLOCK
        slot.word ^= value
        if slot.extra & INIT_CAME:
            self.task = <int32_t>(slot.extra >> 32)
            if slot.word == 0 or value == 0 or self.task not in self.exact:
                return self.close_failed(slot)
        slot.extra = (slot.extra & ~<uint64_t>GENERATION) | FAIL_CAME | (self.generation & GENERATION)
        return TREE_OPEN

    cdef Verdict open_failed(self, RootSlot* slot) except? TREE_FAILED:
        """Apply the init of a tree that has failed already."""
        if slot.word == 0 or self.task not in self.exact:
            return self.close_failed(slot)
        slot.extra = <uint64_t>self.task << 32 | (slot.extra & 0xFFFFFFFF) | INIT_CAME
        return TREE_OPEN

    cdef Verdict close_failed(self, RootSlot* slot) noexcept:
        self.had_no_effect = slot.word == 0 and not slot.extra & HAD_EFFECT
        remove_slot(self, slot)
        return TREE_FAILED

    cdef int mark_effect(self, uint64_t root) except -1:
        """Note that a tuple of a tree may have had an effect. The signal that says so is applied next."""
        find_or_add_root(self, root).extra |= HAD_EFFECT
        return 0

    cdef void mark_all(self) noexcept:
        """Note that all open trees may have had an effect."""
        cdef Py_ssize_t i
        for i in range(self.mask + 1):
            if self.slots[i].root:
                self.slots[i].extra |= HAD_EFFECT

    cdef void apply_reset(self, uint64_t root) noexcept:
        """Restart the timeout of root, if it is open."""
        cdef RootSlot* slot = find_root(self, root)
        self.own_clock = 0 if slot == NULL else slot.extra & HAS_OWN_CLOCK
        if slot != NULL:
            slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (self.generation & GENERATION)

    # For tests, models and microbenchmarks. Verdicts are "open", "acked" or "failed".

    def on_init(self, uint64_t root, uint64_t value, int32_t task):
        return VERDICT_NAMES[self.apply_init(root, value, task)]

    def on_ack(self, uint64_t root, uint64_t value):
        return VERDICT_NAMES[self.apply_exact_ack(root, value, 0)]

    def on_fail(self, uint64_t root, uint64_t value=0):
        return VERDICT_NAMES[self.apply_fail(root, value)]

    def on_effect(self, uint64_t root):
        self.mark_effect(root)

    def on_reset(self, uint64_t root):
        self.apply_reset(root)

    def on_drop_task(self, int32_t task):
        return self.drop_task(task)

    def set_own_clock(self, uint64_t root):
        """Exempt root from rotations, because the root has its own deadline (barriers, batches)."""
        cdef RootSlot* slot = find_or_add_root(self, root)
        slot.extra |= HAS_OWN_CLOCK | (self.generation & GENERATION)

    def __contains__(self, uint64_t root):
        return find_root(self, root) != NULL

    @property
    def last_task(self):
        """The spout task of the last verdict."""
        return self.task


@cython.final
cdef class AckerCore:
    """The compiled part of an acker's executor. `spouts` maps the task id of a spout to its ring of verdicts."""

    def __init__(self, int32_t task_id, SignalRing inbox, dict spouts, now, *, timeout_from="progress", timeouts=True):
        self.task_id = task_id
        self.now = now
        self.inbox = inbox
        self.spouts = [spouts.get(task) for task in range(max(spouts, default=-1) + 1)]
        self.spout_count = len(self.spouts)
        self.exact = frozenset()
        self.begin(timeout_from=timeout_from, timeouts=timeouts)

    def set_exact(self, frozenset exact not None, bytearray effects not None):
        """Set the exact spouts of the run, before its first signal.

        exact: task ids of the spouts whose failed rows may be retried alone (EO-6). effects: has a byte for each task id, which is 1 if what
        the task does with a tuple may be an effect.
        """
        self.exact = self.ledger.exact = exact
        self.effects_of, self.effects, self.effect_tasks = effects, <uint8_t*>PyByteArray_AS_STRING(effects), <uint32_t>len(effects)

    def begin(self, *, timeout_from="progress", timeouts=True):
        """Start with an empty ledger. After the death of the actor, all of its trees are lost."""
        self.ledger = AckLedger(timeout_from=timeout_from, timeouts=timeouts, exact=self.exact)
        self.early_failures = {}
        self.own_clocks = {}
        self.inbox.clear()

    def run_burst(self):
        """Apply signals for at most 5 ms. True if more signals wait.

        Only time bounds the burst, because with a bound on signals many busy tasks would outrun the acker.
        """
        cdef double start = self.now()
        cdef Py_ssize_t taken = 0
        cdef SignalRing inbox = self.inbox
        cdef AckLedger ledger = self.ledger
        cdef bint is_exact = self.effect_tasks > 0
        cdef Signal* got
        cdef uint64_t root
        while inbox.head != inbox.tail:
            prefetch_root(ledger, inbox.ring[(inbox.head + ROOTS_AHEAD) & inbox.mask].root)     # past the tail it is an old root
            got = &inbox.ring[inbox.head & inbox.mask]
            if got.kind != ACK:
                self.apply_signal(got)
            elif is_exact:
                self.apply_exact_ack(got)
            else:
                root = got.root
                inbox.head += 1
                if apply_ack(ledger, find_or_add_root(ledger, root), got.value) == TREE_ACKED:
                    self.send_acked(root)
                elif ledger.own_clock:
                    self.restart_own_clock(root)
            taken += 1
            if taken % SIGNALS_PER_CLOCK == 0 and self.now() - start >= TURN_SECS:
                break
        self.executed += taken
        self.busy_secs += self.now() - start
        if inbox.head == inbox.tail:
            inbox.reset_empty()
            return False
        return True

    cdef int apply_exact_ack(self, Signal* got) except -1:
        """Apply an ACK in a run with exact spouts, in which it may end a tree that has failed, or tell of an effect."""
        cdef uint64_t root = got.root
        cdef bint had_effect = <uint32_t>got.task < self.effect_tasks and self.effects[got.task]
        cdef Verdict verdict
        self.inbox.head += 1
        verdict = self.ledger.apply_exact_ack(root, got.value, HAD_EFFECT if had_effect else 0)
        if verdict == TREE_ACKED:
            self.send_acked(root)
        elif verdict == TREE_FAILED:
            self.send_failed(root, self.early_failures.pop(root))
        elif self.ledger.own_clock:
            self.restart_own_clock(root)
        return 0

    cdef int apply_signal(self, Signal* got) except -1:
        """Apply one signal other than an ACK to the ledger, and send the verdict if it settled a tree."""
        cdef uint64_t root = got.root
        cdef int32_t kind = got.kind, task = got.task
        cdef Verdict verdict
        self.inbox.head += 1
        if kind == INIT:
            verdict = self.ledger.apply_init(root, got.value, task)
            if verdict != TREE_OPEN:
                self.send_verdict(verdict, root, self.early_failures.pop(root, None))
        elif kind == FAIL:
            failure = self.inbox.objects.popleft()
            if <uint32_t>task < self.effect_tasks and self.effects[task]:
                self.ledger.mark_effect(root)
            if self.ledger.apply_fail(root, got.value) == TREE_FAILED:
                self.send_verdict(TREE_FAILED, root, self.early_failures.pop(root, failure))
            else:
                self.early_failures.setdefault(root, failure)
        elif kind == RESET:
            self.ledger.apply_reset(root)
            if self.ledger.own_clock:
                self.restart_own_clock(root)
        elif kind == OWN_CLOCK:
            secs = self.inbox.objects.popleft()
            self.ledger.set_own_clock(root)
            self.own_clocks[root] = [secs, self.now() + secs, task]
        elif kind == DROP:
            self.ledger.drop_task(task)
            if self.early_failures:
                self.early_failures = {root: failure for root, failure in self.early_failures.items() if root in self.ledger}
            if self.own_clocks:
                self.own_clocks = {root: clock for root, clock in self.own_clocks.items() if clock[2] != task}
        elif kind == ROTATE:
            self.rotations += 1
            self.ledger.start_sweep()
        return 0

    cdef int send_acked(self, uint64_t root) except -1:
        """Tell the spout task of a tree that the tree is acked."""
        cdef int32_t task = self.ledger.task
        if self.ledger.own_clock:
            self.own_clocks.pop(root, None)
        cdef PyObject* ring = PyList_GET_ITEM(self.spouts, task) if 0 <= task < self.spout_count else NULL
        if ring != NULL and <object>ring is not None:
            self.acked += 1
            send_signal(<SignalRing>ring, ACKED, root, 0, task)
        return 0

    cdef int send_verdict(self, Verdict verdict, uint64_t root, object failure) except -1:
        """Send a tree's verdict to its spout task."""
        if verdict == TREE_ACKED:
            return self.send_acked(root)
        if self.ledger.own_clock:
            self.own_clocks.pop(root, None)
        return self.send_failed(root, failure)

    cdef int send_failed(self, uint64_t root, object failure) except -1:
        """Tell the spout task of a tree that the tree has failed, and whether it has had no effect."""
        cdef int32_t task = self.ledger.task
        if 0 <= task < self.spout_count and self.spouts[task] is not None:
            self.failed += 1
            send_signal_with(<SignalRing>self.spouts[task], FAILED, root, task, failure, self.ledger.had_no_effect)
        return 0

    def tell_failures(self):
        """Fail the trees of which a tuple has failed, although others are not settled, because the run drops them all (EO-5)."""
        for root in list(self.early_failures):
            if self.ledger.apply_fail(root, 0) == TREE_FAILED:
                self.send_verdict(TREE_FAILED, root, self.early_failures.pop(root))

    def note_effects(self):
        """Note that all open trees may have had an effect, because a task has emitted without an anchor. Its byte in `effects` is set."""
        self.ledger.mark_all()

    cdef int restart_own_clock(self, uint64_t root) except -1:
        """Restart the deadline of a tree that has its own deadline."""
        clock = self.own_clocks.get(root)
        if clock is not None:
            clock[1] = self.now() + clock[0]
        return 0

    def sweep(self):
        """Sweep one slice of the ledger for expired trees. Return (root, spout task) of each expired tree that has a spout task."""
        cdef Py_ssize_t budget = SLOTS_PER_SLICE
        cdef uint64_t root
        over = []
        while True:
            root = self.ledger.next_expired(&budget)
            if root == 0:
                return over
            self.early_failures.pop(root, None)
            if self.ledger.task >= 0:
                over.append((root, self.ledger.task))

    def overdue(self):
        """Close the trees whose own deadline has passed. Return (root, spout task) of each tree."""
        at = self.now()
        over = []
        for root in [root for root, (_, deadline, _) in self.own_clocks.items() if deadline <= at]:
            del self.own_clocks[root]
            if self.ledger.apply_fail(root, 0) == TREE_FAILED:
                over.append((root, self.ledger.task))
        return over

    cpdef fail_tree(self, uint64_t root, int32_t task, failure):
        """Send the failure of a tree that was removed from the ledger."""
        if 0 <= task < self.spout_count and self.spouts[task] is not None:
            self.failed += 1
            send_signal_with(<SignalRing>self.spouts[task], FAILED, root, task, failure)

    @property
    def next_deadline(self):
        """Earliest deadline of a tree with its own deadline, in seconds of the run's clock. None if there is no such tree."""
        return min([deadline for _, deadline, _ in self.own_clocks.values()], default=None)
