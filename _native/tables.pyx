"""Tables of trees and of aging entries.

`RootTable` takes 24 bytes a slot. After growth its load is between 0.4 and 0.8, so an entry takes 30 to 60 bytes. The smallest table is
mostly empty with the usual number of open trees, because searches in a fuller one take longer. It probes linearly, because neighbours share
a cache line. It deletes by a backward shift, because tombstones would fill a table whose entries live for a millisecond.

`RotatingMap` is like Storm's. One difference: if a callback raises, the other entries still get their callbacks.
"""
from itertools import chain
from types import GenericAlias

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
cimport cython


cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* Return zeroed memory for free(), NULL if there is none. A large table is read at random, so with pages of 4 KiB nearly each access
       also waits for the page table. Huge pages avoid this, if the system allows them. */
    static void* zeroed_memory(size_t size)
    {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        const size_t page = 2 << 20;
        void* memory;
        if (size >= 2 * page) {
            if (posix_memalign(&memory, page, size) != 0)
                return NULL;
            madvise(memory, size, MADV_HUGEPAGE);
            return memset(memory, 0, size);
        }
    #endif
        return calloc(1, size);
    }
    """
    void* zeroed_memory(size_t size) noexcept


cdef class RootTable:
    def __cinit__(self, *args, Py_ssize_t least_slots=LEAST_SLOTS, **kwargs):
        self.least_slots = least_slots
        self.resize(least_slots)

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        """Size of the slots in bytes."""
        return (self.mask + 1) * sizeof(RootSlot)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """Move all entries to a table of `capacity` slots. The capacity is a power of two that has room for all entries."""
        cdef RootSlot* old = self.slots
        cdef Py_ssize_t old_slots = self.mask + 1 if old != NULL else 0, i, j
        cdef RootSlot* fresh = <RootSlot*>zeroed_memory(capacity * sizeof(RootSlot))
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
        """Free memory if an entry takes more than 64 bytes (ACK-14). Called once a rotation, not per tuple."""
        cdef Py_ssize_t capacity = self.mask + 1
        while capacity > self.least_slots and self.count * 64 < capacity * <Py_ssize_t>sizeof(RootSlot):
            capacity >>= 1
        if capacity != self.mask + 1:
            self.resize(capacity)
        return 0


@cython.final
cdef class RotatingMap:
    """A map whose entries age by `rotate`. An entry expires in the n-th rotation after its last `put`.

    `buckets` is n, at least 2. With a rotation every E / (n - 1) seconds, an entry expires E to E * n / (n - 1) seconds after its last
    put. More buckets are more exact, but need more probes. `expire(key, value)` is called for each entry that expires.
    """

    def __cinit__(self, buckets=3, expire=None):
        if buckets < 2:
            raise ValueError(f"RotatingMap: buckets is {buckets}, but must be at least 2: with 1, a rotation expires new entries")
        self.generations = [{} for _ in range(buckets)]
        self.expire = expire

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def buckets(self):
        """Number of rotations from the last `put` of an entry until it expires."""
        return len(self.generations)

    cpdef put(self, key, value):
        """Write an entry. Its age begins again at 0."""
        cdef Py_ssize_t age
        cdef dict older
        for age in range(1, len(self.generations)):
            older = self.generations[age]
            if older:
                older.pop(key, None)
        (<dict>self.generations[0])[key] = value

    cpdef get(self, key, default=None):
        """Return the value of a key, or the default. The entry does not become newer."""
        cdef dict generation
        cdef PyObject* found
        for generation in self.generations:
            found = PyDict_GetItemWithError(generation, key)
            if found is not NULL:
                return <object>found
        return default

    cpdef remove(self, key):
        """Remove an entry without a call of `expire`. Return its value, None if there is no entry."""
        cdef dict generation
        for generation in self.generations:
            if key in generation:
                return generation.pop(key)
        return None

    cpdef dict rotate(self):
        """Make every entry one rotation older, and return the entries that expired.

        The rotation is complete before the first call of `expire`, which may put a key again. `expire` is called for every entry. If calls
        raise an Exception, the first one is raised after the last call, with a note that counts the others. Any other BaseException, like
        KeyboardInterrupt or CancelledError, is raised at once.
        """
        self.generations.insert(0, {})
        cdef dict expired = self.generations.pop()
        if self.expire is not None:
            self.call_expire(expired)
        return expired

    cdef int call_expire(self, dict expired) except -1:
        cdef Py_ssize_t more = 0
        first = None
        for key, value in expired.items():
            try:
                self.expire(key, value)
            except Exception as error:
                if first is None:
                    first = error
                else:
                    more += 1
        if first is None:
            return 0
        if more:
            first.add_note(f"expire raised for {more} more of the {len(expired)} entries that expired with this one")
        raise first

    def clear(self):
        """Remove all entries without a call of `expire`."""
        cdef dict generation
        for generation in self.generations:
            generation.clear()

    def items(self):
        """Iterate over (key, value), the newest bucket first. The map must not change meanwhile."""
        return chain.from_iterable([(<dict>generation).items() for generation in self.generations])

    def __iter__(self):
        return chain.from_iterable([*self.generations])

    def __contains__(self, key):
        cdef dict generation
        for generation in self.generations:
            if key in generation:
                return True
        return False

    def __len__(self):
        cdef dict generation
        cdef Py_ssize_t entries = 0
        for generation in self.generations:
            entries += len(generation)
        return entries
