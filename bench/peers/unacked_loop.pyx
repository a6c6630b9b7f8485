# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# distutils: extra_compile_args = -O3
"""The bare loop without its ledger. It has user callbacks and one mailbox hop, but no ids, trees or verdicts.

The bare loop of `shared/floor` always tracks. This one is written in its style, for the un-acked work: an emit draws no ids and opens no
tree, and an ack settles nothing. It builds each tuple, pushes it through a ring, and calls the user's bolt. The Python callbacks are the
same, without the spout's `ack`. The ring has no bound, and there are no metrics and no errors.
"""
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from libc.stdlib cimport calloc, free
cimport cython


@cython.freelist(1024)
@cython.final
cdef class UntrackedTuple:
    cdef public tuple values

    def __getitem__(self, i):
        return self.values[i]


@cython.final
cdef class Ring:
    """Waiting tuples. At most one burst waits, because spout and bolt take turns. The ring has a reference to each tuple."""
    cdef PyObject** slots
    cdef Py_ssize_t mask, head, tail
    cdef object execute

    def __cinit__(self, Py_ssize_t capacity=1 << 14):
        self.mask = capacity - 1
        self.slots = <PyObject**>calloc(capacity, sizeof(PyObject*))
        if self.slots is NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.slots is not NULL:
            while self.head != self.tail:
                self.pop()
            free(self.slots)

    def bind(self, execute):
        self.execute = execute

    cdef inline void push(self, UntrackedTuple tup):
        Py_INCREF(tup)
        self.slots[self.tail & self.mask] = <PyObject*>tup
        self.tail += 1

    cdef inline UntrackedTuple pop(self):
        cdef UntrackedTuple tup = <UntrackedTuple>self.slots[self.head & self.mask]
        self.head += 1
        Py_DECREF(tup)
        return tup

    cpdef Py_ssize_t drain(self, Py_ssize_t limit):
        cdef Py_ssize_t n = 0
        execute = self.execute
        while n < limit and self.head != self.tail:
            execute(self.pop())
            n += 1
        return n


@cython.final
cdef class SpoutSide:
    """Round-robin emits of one spout."""
    cdef list targets
    cdef Py_ssize_t turn

    def __init__(self, list targets):
        self.targets = targets

    cpdef emit(self, tuple values):
        cdef UntrackedTuple tup = UntrackedTuple.__new__(UntrackedTuple)
        tup.values = values
        self.turn = (self.turn + 1) % len(self.targets)
        (<Ring>self.targets[self.turn]).push(tup)

    cpdef Py_ssize_t burst(self, next_tuple, Py_ssize_t limit):
        cdef Py_ssize_t n = 0
        while n < limit:
            next_tuple()
            n += 1
        return n


@cython.final
cdef class BoltSide:
    """Acks of one bolt. Without a tree an ack does nothing."""

    cpdef ack(self, UntrackedTuple tup):
        pass
