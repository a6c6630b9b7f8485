"""Holding back: tuples of sources that an alignment holds, and acks until a checkpoint commits (CP-2, CP-5).

Both stay with the task when its instance dies. Nothing here is touched while a task neither holds nor defers.
"""
from collections import deque

from libc.stdint cimport uint64_t
cimport cython

from _native.mailbox cimport ACK, FAIL, RESET, SignalRing, signal, signal_with
from _native.task_core cimport TaskCore, ring_for
from _native.tuples cimport IS_CONTROL, Tuple


@cython.final
cdef class Aside:
    """Tuples put aside, in order, outside the mailbox's bound: of held sources, which are stopped meanwhile, or of all, while the gate is closed."""

    def __init__(self):
        self.held = {}
        self.released = deque()

    def hold(self, int source_task, TaskCore feeder):
        """Put aside what source_task sends from now on, and stop that task; False if it is held already."""
        if source_task in self.held:
            return False
        self.held[source_task] = []
        feeder.emitter.stop()
        return True

    def release(self, int source_task, TaskCore feeder):
        """Put what was held next in line, in order, and let the task go on."""
        aside = self.held.pop(source_task, None)
        if aside is not None:
            self.released.extend(aside)
            feeder.emitter.resume()

    def set_gate(self, bint closed):
        """Put aside what comes from anywhere, but for control tuples, and stop nobody; or put it next in line, in order."""
        if closed and self.gated is None:
            self.gated = deque()
        elif not closed and self.gated is not None:
            self.released.extend(self.gated)
            self.gated = None

    @property
    def is_gated(self):
        return self.gated is not None

    cdef bint puts_aside(self, Tuple tup) except -1:
        """Keep tup if the gate is closed, or its source is held."""
        if self.gated is not None:
            if tup.flags & IS_CONTROL:
                return False
            self.gated.append(tup)
            return True
        aside = self.held.get(tup.origin.task_id)
        if aside is None:
            return False
        aside.append(tup)
        return True

    def tuples(self):
        """All that is held or released."""
        return [tup for aside in (*self.held.values(), self.gated or (), self.released) for tup in aside]

    def clear(self):
        """Let go of all of it, at the end of a run."""
        self.held.clear()
        self.released.clear()
        self.gated = None

    def __len__(self):
        return sum(len(aside) for aside in self.held.values()) + len(self.released) + len(self.gated or ())


@cython.final
cdef class KeptAcks:
    """Acks as (root, value), 24 bytes each, first deferred, then prepared, then released or failed in bursts."""

    def __init__(self, TaskCore core):
        self.core = core
        self.deferred, self.prepared = SignalRing(), SignalRing()

    def prepare(self):
        """What was acked so far waits for a commit; how many roots now do."""
        cdef SignalRing old = self.deferred
        if self.prepared.head == self.prepared.tail:
            self.deferred, self.prepared = self.prepared, old
        else:
            while old.head != old.tail:
                signal(self.prepared, ACK, old.ring[old.head & old.mask].root, old.ring[old.head & old.mask].value, -1)
                old.head += 1
            old.run_empty()
        return self.prepared.tail - self.prepared.head

    def release_prepared(self, Py_ssize_t limit):
        """Send up to limit prepared acks to their ackers; how many are left."""
        return self.drain(self.prepared, limit, None)

    def fail_prepared(self, Py_ssize_t limit, reason not None):
        """Fail up to limit prepared acks; how many are left."""
        return self.drain(self.prepared, limit, reason)

    def fail_deferred(self, Py_ssize_t limit, reason not None):
        """Fail up to limit acks that are not prepared; how many are left."""
        return self.drain(self.deferred, limit, reason)

    cdef Py_ssize_t count_deferred(self) noexcept:
        return self.deferred.tail - self.deferred.head

    cdef int put_before(self, Py_ssize_t count, Py_ssize_t newest) noexcept:
        """Put the newest deferred acks behind the first count: `take_back(count + newest)` leaves them. Their order means nothing."""
        cdef SignalRing ring = self.deferred
        cdef Py_ssize_t i, there, here
        for i in range(newest):
            there, here = (ring.head + count + i) & ring.mask, (ring.tail - newest + i) & ring.mask
            ring.ring[there], ring.ring[here] = ring.ring[here], ring.ring[there]
        return 0

    cdef int take_back(self, Py_ssize_t count, object reason) except -1:
        """Fail the acks that were deferred after the first count: the call that gave them raised (SV-2)."""
        cdef uint64_t root
        while self.count_deferred() > count:
            self.deferred.tail -= 1
            root = self.deferred.ring[self.deferred.tail & self.deferred.mask].root
            signal_with(ring_for(self.core, root), FAIL, root, self.core.task_id, reason)
        return 0

    cdef Py_ssize_t drain(self, SignalRing ring, Py_ssize_t limit, object reason) except -1:
        cdef uint64_t root, value
        while ring.head != ring.tail and limit > 0:
            limit -= 1
            root, value = ring.ring[ring.head & ring.mask].root, ring.ring[ring.head & ring.mask].value
            ring.head += 1
            if reason is None:
                self.released += 1
                signal(ring_for(self.core, root), ACK, root, value, self.core.task_id)
            else:
                signal_with(ring_for(self.core, root), FAIL, root, self.core.task_id, reason)
        if ring.head == ring.tail:
            ring.run_empty()
        return ring.tail - ring.head

    def refresh(self, Py_ssize_t position, Py_ssize_t limit):
        """Restart the clock of up to limit kept roots from position on; the next position, -1 at the end (ACK-8)."""
        cdef SignalRing ring
        cdef Py_ssize_t at, passed = 0
        cdef uint64_t root
        for ring in (self.prepared, self.deferred):
            for at in range(ring.head + max(0, position - passed), ring.tail):
                if limit == 0:
                    return position
                root = ring.ring[at & ring.mask].root
                signal(ring_for(self.core, root), RESET, root, 0, self.core.task_id)
                position += 1
                limit -= 1
            passed += ring.tail - ring.head
        return -1

    def __len__(self):
        return (self.deferred.tail - self.deferred.head) + (self.prepared.tail - self.prepared.head)
