"""A map whose entries die of age: what is not put again is expired by the n-th rotation (RM-1 to RM-3).

As Storm's RotatingMap; differs: a callback that raises keeps no other entry from its own.
"""
from itertools import chain
from types import GenericAlias

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject


@cython.final
cdef class RotatingMap:
    """A map that `rotate` ages: an entry dies in the n-th rotation after its last `put`.

    `buckets` is n, at least 2. With a rotation every E / (n - 1) seconds an entry dies E to E * n / (n - 1) seconds after its
    last put: more buckets are more exact, and cost more probes. `expire(key, value)` is called for each entry that dies.
    """

    def __cinit__(self, buckets=3, expire=None):
        if buckets < 2:
            raise ValueError(f"RotatingMap: buckets is {buckets}, but with fewer than 2 a rotation expires what was just put")
        self.generations = [{} for _ in range(buckets)]
        self.expire = expire

    @classmethod
    def __class_getitem__(cls, item):
        return GenericAlias(cls, item)

    @property
    def buckets(self):
        """How many rotations after its last put an entry dies."""
        return len(self.generations)

    cpdef put(self, key, value):
        """Write an entry as new, whatever its age was."""
        cdef Py_ssize_t age
        cdef dict older
        for age in range(1, len(self.generations)):
            older = self.generations[age]
            if older:
                older.pop(key, None)
        (<dict>self.generations[0])[key] = value

    cpdef get(self, key, default=None):
        """Return the value of a key, which stays as old as it was, or the default."""
        cdef dict generation
        cdef PyObject* found
        for generation in self.generations:
            found = PyDict_GetItemWithError(generation, key)
            if found is not NULL:
                return <object>found
        return default

    cpdef remove(self, key):
        """Take an entry out, without `expire`; return its value, or None where there is none."""
        cdef dict generation
        for generation in self.generations:
            if key in generation:
                return generation.pop(key)
        return None

    cpdef dict rotate(self):
        """Make every entry one rotation older; return those that died.

        The rotation is done before the first call of `expire`, which may put a key again. `expire` is called for every entry;
        if calls raise an Exception, the first one is raised after the last call, with a note of how many more there were.
        What is no Exception (KeyboardInterrupt, CancelledError) is raised at once.
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
        """Take all entries out, without `expire`."""
        cdef dict generation
        for generation in self.generations:
            generation.clear()

    def items(self):
        """Iterate over (key, value), the newest bucket first; the map must not change meanwhile."""
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
