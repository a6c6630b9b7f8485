"""Tables of trees and of aging entries. `RootTable` maps root ids to two words, and `RotatingMap` expires entries (RM-1 to RM-3)."""
cimport cython
from libc.stdint cimport uint64_t

cdef enum:
    LEAST_SLOTS = 4096   # of a table: 98 KB
    ROOTS_AHEAD = 8      # the reader of a ring prefetches the slot of the root that is this number of signals ahead

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define prefetch(address) __builtin_prefetch(address, 1)
    #else
    #define prefetch(address) ((void)(address))
    #endif
    """
    void prefetch(void* address) noexcept

cdef struct RootSlot:
    uint64_t root    # 0: the slot is empty (ids are never 0)
    uint64_t word
    uint64_t extra

# Open addressing. Base of the ack ledger, and of the table of a spout's open trees.
cdef class RootTable:
    cdef RootSlot* slots
    cdef Py_ssize_t least_slots
    cdef Py_ssize_t mask      # slots - 1, slots a power of two
    cdef int shift            # 64 - log2(slots): a root's home is its hash >> shift
    cdef Py_ssize_t count
    cdef Py_ssize_t grow_at   # count beyond which the table doubles: 0.8 of the slots
    cdef Py_ssize_t wrapped   # the lowest slot with an entry that moved across the table's end; mask + 1: none

    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int shrink(self) except -1


cdef inline Py_ssize_t home_of(RootTable table, uint64_t root) noexcept:
    return <Py_ssize_t>((root * <uint64_t>0x9E3779B97F4A7C15ULL) >> table.shift)


cdef inline void prefetch_root(RootTable table, uint64_t root) noexcept:
    """Fetch the slot of root into the cache. In a large table the slot is in no cache, and the wait takes longer than the work."""
    prefetch(&table.slots[home_of(table, root)])


cdef inline RootSlot* find_root(RootTable table, uint64_t root) noexcept:
    """Return the slot of root, or NULL. Ends because the table is never full (grow_at < slots)."""
    cdef Py_ssize_t i = home_of(table, root)
    while table.slots[i].root:
        if table.slots[i].root == root:
            return &table.slots[i]
        i = (i + 1) & table.mask
    return NULL


cdef inline RootSlot* find_or_add_root(RootTable table, uint64_t root) except NULL:
    """Return the slot of root. A new one has word = extra = 0. The pointer is valid until the next add, remove or resize."""
    if table.count >= table.grow_at:
        table.resize((table.mask + 1) * 2)
    cdef Py_ssize_t i = home_of(table, root)
    while table.slots[i].root:
        if table.slots[i].root == root:
            return &table.slots[i]
        i = (i + 1) & table.mask
    cdef RootSlot* slot = &table.slots[i]
    slot.root = root
    slot.word = 0
    slot.extra = 0
    table.count += 1
    return slot


cdef inline void remove_slot(RootTable table, RootSlot* slot) noexcept:
    """Empty the slot and close the gap. Later slots of its cluster move down, or across the table's end to the top."""
    cdef Py_ssize_t hole = slot - table.slots, i = hole, mask = table.mask
    while True:
        i = (i + 1) & mask
        if not table.slots[i].root:
            break
        # the entry at i may fill the hole, unless its home is cyclically after the hole
        if ((i - home_of(table, table.slots[i].root)) & mask) >= ((i - hole) & mask):
            table.slots[hole] = table.slots[i]
            if (i < hole or i >= table.wrapped) and hole < table.wrapped:
                table.wrapped = hole
            hole = i
    table.slots[hole].root = 0
    table.count -= 1


@cython.final
cdef class RotatingMap:
    cdef list generations               # a fixed number of dicts, newest first; a key is in at most one
    cdef object expire

    cpdef put(self, key, value)
    cpdef get(self, key, default=*)
    cpdef remove(self, key)
    cpdef dict rotate(self)
    cdef int call_expire(self, dict expired) except -1
