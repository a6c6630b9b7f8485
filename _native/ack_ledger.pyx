"""The ledger of an acker: which trees are open, and the XOR of what is unsettled in each (ACK-2..4, ACK-8, ACK-14).

A tree is done when its value is 0 and its init has come. An ack or a fail that comes before its init waits in the slot
for it; a fail that waits wins over a later zero. A slot carries the generation (the count of rotations) of its last progress;
the sweep after a rotation finds those that are LIFETIME generations old. With a rotation every T / (LIFETIME - 2) a
tree dies between 1.1 and 1.2 T after its last signal, and not before T after a wait, of which rotations alone tell. As the
RotatingMap of Storm's Acker; differs: one table with a byte of age instead of a map per age, so an ack touches one slot.
"""
from libc.stdint cimport int32_t, uint64_t

from _native.root_table cimport RootSlot, find_or_add_root, find_root, remove_slot

LIFETIME = 12
cdef enum:
    _LIFETIME = 12
    # extra = task << 32 | flags << 8 | generation
    INIT_CAME = 1 << 8
    FAIL_CAME = 1 << 9
    OWN_CLOCK = 1 << 10
    GENERATION = 0xFF


cdef inline bint is_over(AckLedger ledger, uint64_t extra) noexcept:
    if ((ledger.generation - extra) & GENERATION) < _LIFETIME or extra & OWN_CLOCK:
        return False
    return ledger.timeouts or not extra & INIT_CAME


cdef class AckLedger(RootTable):
    """The open trees of one acker. `timeout_from` is "progress" or "emit"; the methods with Python signatures serve tests."""

    def __init__(self, *, timeout_from="progress", timeouts=True):
        self.from_progress = timeout_from == "progress"
        self.timeouts = timeouts
        self.generation = 0
        self.cursor = -1

    cdef Verdict init(self, uint64_t root, uint64_t value, int32_t task) except *:
        cdef RootSlot* slot = find_or_add_root(self, root)
        self.task = task
        if slot.extra & FAIL_CAME:
            remove_slot(self, slot)
            return FAILED
        slot.word ^= value
        if slot.word == 0:
            remove_slot(self, slot)
            return ACKED
        slot.extra = <uint64_t>task << 32 | (slot.extra & OWN_CLOCK) | INIT_CAME | (self.generation & GENERATION)
        return OPEN

    cdef Verdict ack(self, uint64_t root, uint64_t value) except *:
        cdef RootSlot* slot = find_or_add_root(self, root)
        slot.word ^= value
        if slot.extra & INIT_CAME:
            if slot.word == 0:
                self.task = <int32_t>(slot.extra >> 32)
                remove_slot(self, slot)
                return ACKED
            if self.from_progress:
                slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (self.generation & GENERATION)
        else:
            slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (self.generation & GENERATION)
        return OPEN

    cdef Verdict fail(self, uint64_t root) except *:
        cdef RootSlot* slot = find_or_add_root(self, root)
        if slot.extra & INIT_CAME:
            self.task = <int32_t>(slot.extra >> 32)
            remove_slot(self, slot)
            return FAILED
        slot.extra = (slot.extra & ~<uint64_t>GENERATION) | FAIL_CAME | (self.generation & GENERATION)
        return OPEN

    cdef void reset(self, uint64_t root) noexcept:
        """Restart the clock of root, if it is open."""
        cdef RootSlot* slot = find_root(self, root)
        if slot != NULL:
            slot.extra = (slot.extra & ~<uint64_t>GENERATION) | (self.generation & GENERATION)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        RootTable.resize(self, capacity)
        if self.cursor >= 0:             # entries have moved anywhere: look at all of them again
            self.cursor = self.mask
            self.wrapping = False
        return 0

    cdef int start_sweep(self) except -1:
        """A rotation: one generation more, and the sweep for those that are LIFETIME old begins at the top."""
        self.generation += 1
        self.shrink()
        self.cursor = self.mask
        self.wrapping = False
        self.wrapped = self.mask + 1
        return 0

    cdef uint64_t next_expired(self, Py_ssize_t* budget) noexcept:
        """Sweep on over at most budget slots (counted down) to a tree that is over: its root, removed; its spout task in
        self.task, -1 where no init ever came. 0: the budget or the sweep (cursor -1) is at its end.

        Removal moves entries down, into what is still to be swept; across the table's end it moves them up to the top, so
        what holds such entries is swept once more.
        """
        cdef RootSlot* slot
        cdef uint64_t root, extra
        while self.cursor >= 0 and budget[0] > 0:
            budget[0] -= 1
            slot = &self.slots[self.cursor]
            root, extra = slot.root, slot.extra
            if root and is_over(self, extra):
                self.task = <int32_t>(extra >> 32) if extra & INIT_CAME else -1
                remove_slot(self, slot)
                return root      # the cursor stays: another entry may have moved into this slot
            self.cursor -= 1
            if self.cursor < 0 and not self.wrapping:
                self.wrapping = True
                self.cursor = self.mask
            if self.wrapping and self.cursor < self.wrapped:
                self.cursor = -1
        return 0

    cdef Py_ssize_t drop_task(self, int32_t task) except -1:
        """Forget every tree of a spout task whose instance died; how many."""
        cdef Py_ssize_t i = self.mask, dropped = 0, passes = 0
        cdef RootSlot* slot
        while passes < 2:
            slot = &self.slots[i]
            if slot.root and slot.extra & INIT_CAME and <int32_t>(slot.extra >> 32) == task:
                remove_slot(self, slot)
                dropped += 1
                continue
            i -= 1
            if i < 0:
                i, passes = self.mask, passes + 1
            if passes == 1 and i < self.wrapped:
                break
        return dropped

    # For tests, models and microbenchmarks; each gives "open", "acked" or "failed".

    def on_init(self, uint64_t root, uint64_t value, int32_t task):
        return _NAMES[self.init(root, value, task)]

    def on_ack(self, uint64_t root, uint64_t value):
        return _NAMES[self.ack(root, value)]

    def on_fail(self, uint64_t root):
        return _NAMES[self.fail(root)]

    def on_reset(self, uint64_t root):
        self.reset(root)

    def on_drop_task(self, int32_t task):
        return self.drop_task(task)

    def set_own_clock(self, uint64_t root):
        """Exempt root from rotations: the acker keeps a deadline of its own for it (barriers, batches)."""
        cdef RootSlot* slot = find_or_add_root(self, root)
        slot.extra |= OWN_CLOCK | (self.generation & GENERATION)

    def begin_rotation(self):
        """One rotation; its sweep begins."""
        self.start_sweep()

    def sweep(self, Py_ssize_t slots):
        """Sweep on over at most so many slots: the roots that are over, each with its spout task (-1: none)."""
        cdef uint64_t root
        over = []
        while True:
            root = self.next_expired(&slots)
            if root == 0:
                return over
            over.append((root, self.task))

    def rotate(self, Py_ssize_t slots_per_slice=65536):
        """One rotation, swept to its end in slices; what is over."""
        self.start_sweep()
        over = []
        while self.cursor >= 0:
            over += self.sweep(slots_per_slice)
        return over

    def __contains__(self, uint64_t root):
        return find_root(self, root) != NULL

    @property
    def sweeping(self):
        return self.cursor >= 0

    @property
    def last_task(self):
        """The spout task of the last verdict."""
        return self.task


cdef tuple _NAMES = ("open", "acked", "failed", "dropped")
