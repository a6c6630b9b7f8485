"""An acker: drains its ring of signals into the ledger and sends each tree's one verdict to the spout task that owns it."""
from libc.stdint cimport int32_t, uint64_t
cimport cython

from _native.ack_ledger cimport ACKED as TREE_ACKED, FAILED as TREE_FAILED, OPEN, AckLedger, Verdict
from _native.mailbox cimport ACK, ACKED, DROP, FAIL, FAILED, INIT, OWN_CLOCK, RESET, ROTATE, Signal, SignalRing, signal, signal_with
from _native.root_table cimport ROOTS_AHEAD, expect_root

cdef enum:
    SIGNALS_PER_CLOCK = 4096
    SLOTS_PER_SLICE = 65536

cdef double TURN_SECS = 0.005      # BP-4


@cython.final
cdef class AckerCore:
    """The C side of an acker's executor. `spouts` maps a spout's task id to its ring of verdicts."""

    def __init__(self, int32_t task_id, SignalRing inbox, dict spouts, now, *, timeout_from="progress", timeouts=True):
        self.task_id = task_id
        self.now = now
        self.inbox = inbox
        self.spouts = [spouts.get(task) for task in range(max(spouts, default=-1) + 1)]
        self.begin(timeout_from=timeout_from, timeouts=timeouts)

    def begin(self, *, timeout_from="progress", timeouts=True):
        """Start with an empty ledger: at the beginning, and after the death of the actor, whose trees are lost."""
        self.ledger = AckLedger(timeout_from=timeout_from, timeouts=timeouts)
        self.parked_failures = {}
        self.own_clocks = {}
        self.inbox.clear()

    def run_burst(self):
        """Take signals in for 5 ms at most; True when more wait. Bounded by time alone, so no number of busy tasks outruns it."""
        cdef double start = self.now()
        cdef Py_ssize_t taken = 0
        while self.inbox.head != self.inbox.tail:
            if self.inbox.tail - self.inbox.head > ROOTS_AHEAD:
                expect_root(self.ledger, self.inbox.ring[(self.inbox.head + ROOTS_AHEAD) & self.inbox.mask].root)
            self.take(&self.inbox.ring[self.inbox.head & self.inbox.mask])
            taken += 1
            if taken % SIGNALS_PER_CLOCK == 0 and self.now() - start >= TURN_SECS:
                break
        self.executed += taken
        self.busy_secs += self.now() - start
        if self.inbox.head == self.inbox.tail:
            self.inbox.run_empty()
            return False
        return True

    cdef int take(self, Signal* got) except -1:
        """Apply one signal."""
        cdef uint64_t root = got.root
        cdef int32_t kind = got.kind, task = got.task
        cdef uint64_t value = got.value
        cdef Verdict verdict
        self.inbox.head += 1
        if kind == INIT:
            verdict = self.ledger.init(root, value, task)
            if verdict != OPEN:
                self.tell(verdict, root, self.parked_failures.pop(root, None))
        elif kind == ACK:
            verdict = self.ledger.ack(root, value)
            if verdict != OPEN:
                self.tell(verdict, root, None)
            elif self.own_clocks:
                self.progress(root)
        elif kind == FAIL:
            failure = self.inbox.objects.popleft()
            if self.ledger.fail(root) == TREE_FAILED:
                self.tell(TREE_FAILED, root, failure)
            else:
                self.parked_failures.setdefault(root, failure)
        elif kind == RESET:
            self.ledger.reset(root)
            if self.own_clocks:
                self.progress(root)
        elif kind == OWN_CLOCK:
            secs = self.inbox.objects.popleft()
            self.ledger.set_own_clock(root)
            self.own_clocks[root] = [secs, self.now() + secs, task]
        elif kind == DROP:
            self.ledger.drop_task(task)
            if self.own_clocks:
                self.own_clocks = {root: clock for root, clock in self.own_clocks.items() if clock[2] != task}
        elif kind == ROTATE:
            self.rotations += 1
            self.ledger.start_sweep()
        return 0

    cdef int tell(self, Verdict verdict, uint64_t root, object failure) except -1:
        """Send a tree's verdict to its spout task."""
        cdef int32_t task = self.ledger.task
        if self.own_clocks:
            self.own_clocks.pop(root, None)
        if task < 0 or task >= len(self.spouts) or self.spouts[task] is None:
            return 0
        if verdict == TREE_ACKED:
            self.acked += 1
            signal(<SignalRing>self.spouts[task], ACKED, root, 0, task)
        else:
            self.failed += 1
            signal_with(<SignalRing>self.spouts[task], FAILED, root, task, failure)
        return 0

    cdef int progress(self, uint64_t root) except -1:
        """Restart the clock of a tree that has one of its own."""
        clock = self.own_clocks.get(root)
        if clock is not None:
            clock[1] = self.now() + clock[0]
        return 0

    def sweep(self):
        """Sweep one slice of the ledger for trees that are over: those with a spout to tell, as (root, spout task)."""
        cdef Py_ssize_t budget = SLOTS_PER_SLICE
        cdef uint64_t root
        over = []
        while True:
            root = self.ledger.next_expired(&budget)
            if root == 0:
                return over
            self.parked_failures.pop(root, None)
            if self.ledger.task >= 0:
                over.append((root, self.ledger.task))

    def overdue(self):
        """Close the trees whose own clock ran out: (root, spout task) of each."""
        at = self.now()
        over = []
        for root in [root for root, (_, deadline, _) in self.own_clocks.items() if deadline <= at]:
            del self.own_clocks[root]
            if self.ledger.fail(root) == TREE_FAILED:
                over.append((root, self.ledger.task))
        return over

    def fail_tree(self, uint64_t root, int32_t task, failure):
        """Send the verdict of a tree that is over; its ledger entry is gone already."""
        if 0 <= task < len(self.spouts) and self.spouts[task] is not None:
            self.failed += 1
            signal_with(<SignalRing>self.spouts[task], FAILED, root, task, failure)

    @property
    def next_deadline(self):
        """The earliest deadline of a tree with its own clock, in seconds of the run's clock; None without one."""
        return min([deadline for _, deadline, _ in self.own_clocks.values()], default=None)
