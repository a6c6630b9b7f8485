"""Root ids to two machine words, 24 bytes a slot, load between 0.4 and 0.8 when grown: 30 to 60 bytes an entry.

Linear probing, because a root's neighbours share its cache line; backward-shift deletion, because tombstones would
fill a table whose entries live for a millisecond.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free


cdef class RootTable:
    def __cinit__(self):
        self.resize(64)

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        """Bytes that the slots take."""
        return (self.mask + 1) * sizeof(RootSlot)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """Move every entry to a table of `capacity` slots (a power of two that holds them)."""
        cdef RootSlot* old = self.slots
        cdef Py_ssize_t old_slots = self.mask + 1 if old != NULL else 0, i, j
        cdef RootSlot* fresh = <RootSlot*>calloc(capacity, sizeof(RootSlot))
        if fresh == NULL:
            raise MemoryError(f"no memory for a table of {capacity} trees")
        self.slots = fresh
        self.mask = capacity - 1
        self.grow_at = capacity * 4 // 5
        self.wrapped = capacity
        self.shift = 64
        while capacity > 1:
            capacity >>= 1
            self.shift -= 1
        for i in range(old_slots):
            if old[i].root:
                j = home_of(self, old[i].root)
                while fresh[j].root:
                    j = (j + 1) & self.mask
                fresh[j] = old[i]
        free(old)
        return 0

    cdef int shrink(self) except -1:
        """Give memory back where an entry costs more than 64 bytes (ACK-14); called once a rotation, not per tuple."""
        cdef Py_ssize_t capacity = self.mask + 1
        while capacity > 64 and self.count * 64 < capacity * <Py_ssize_t>sizeof(RootSlot):
            capacity >>= 1
        if capacity != self.mask + 1:
            self.resize(capacity)
        return 0
