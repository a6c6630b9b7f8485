"""A map whose entries die of age: what is not put again is expired by the n-th rotation (RM-1 to RM-3)."""
cimport cython


@cython.final
cdef class RotatingMap:
    cdef list generations               # dicts, newest first; always the same number of them; a key is in one at most
    cdef object expire

    cpdef put(self, key, value)
    cpdef get(self, key, default=*)
    cpdef remove(self, key)
    cpdef dict rotate(self)
    cdef int call_expire(self, dict expired) except -1
