"""The age of open trees.

A slot stores the generation of the tree's last progress, which is the number of rotations at that time. The sweep after a rotation finds
trees that are LIFETIME generations old (ACK-8). With a rotation every T / (LIFETIME - 2), a tree dies between 1.1 and 1.2 T after its last
signal. A tuple that waits in a mailbox resets its trees between two rotations, so the wait does not count.

The table works like the RotatingMap of Storm's Acker. One difference: a single table with an age byte replaces one map per age, so an ack
reads one slot (ACK-14).
"""
from libc.stdint cimport int32_t, uint64_t

from _native.tables cimport RootSlot, RootTable, remove_slot

LIFETIME = 12
cdef enum:
    LIFETIME_GENERATIONS = 12


cdef inline bint is_over(AgingTable table, uint64_t extra) noexcept:
    if ((table.generation - extra) & GENERATION) < LIFETIME_GENERATIONS or extra & HAS_OWN_CLOCK:
        return False
    return table.timeouts or not extra & INIT_CAME


cdef class AgingTable(RootTable):
    """Open trees with their ages. Methods with Python signatures are for tests."""

    cdef int resize(self, Py_ssize_t capacity) except -1:
        RootTable.resize(self, capacity)
        if self.cursor >= 0:             # entries may have moved anywhere, so sweep all of them again
            self.cursor = self.mask
            self.wrapping = False
        return 0

    cdef int start_sweep(self) except -1:
        """Start a rotation. Increment the generation, and sweep from the top for trees that are LIFETIME generations old.

        The table shrinks only after a whole sweep. During a sweep, old trees are left in its lower part only. There, half as many slots
        would not be enough for them, and each would be moved past thousands of others.
        """
        self.generation += 1
        if self.cursor < 0:
            self.shrink()
        self.cursor = self.mask
        self.wrapping = False
        self.wrapped = self.mask + 1
        return 0

    cdef uint64_t next_expired(self, Py_ssize_t* budget) noexcept:
        """Sweep up to `budget` more slots (counted down) until an expired tree. Remove this tree and return its root.

        Set self.task to its spout task, -1 if no init ever arrived. Return 0 at the end of the budget or of the sweep (cursor -1). A
        removal moves entries down, into slots that are swept later. Across the table's end it moves entries up to the top, so slots with
        such entries are swept again.
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
                return root      # keep the cursor, because another entry may have moved into this slot
            self.cursor -= 1
            if self.cursor < 0 and not self.wrapping:
                self.wrapping = True
                self.cursor = self.mask
            if self.wrapping and self.cursor < self.wrapped:
                self.cursor = -1
        return 0

    cdef Py_ssize_t drop_task(self, int32_t task) except -1:
        """Forget all trees of a spout task whose instance died. Return their number."""
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

    def begin_rotation(self):
        """Start a rotation and its sweep."""
        self.start_sweep()

    def sweep(self, Py_ssize_t slots):
        """Sweep up to `slots` more slots. Return each expired root with its spout task (-1: none)."""
        cdef uint64_t root
        over = []
        while True:
            root = self.next_expired(&slots)
            if root == 0:
                return over
            over.append((root, self.task))

    def rotate(self, Py_ssize_t slots_per_slice=65536):
        """Run one rotation and its whole sweep, in slices. Return the expired roots like `sweep`."""
        self.start_sweep()
        over = []
        while self.cursor >= 0:
            over += self.sweep(slots_per_slice)
        return over

    @property
    def sweeping(self):
        return self.cursor >= 0
