"""Tuples that are sent to one task, their trees, and the list of taken tuples.

A tuple belongs to no tree (root 0), to one tree (root and edge are fields of the tuple), or through several anchors to several trees
(a Roots block). Its ack sends `edge ^ ack_value` for each root (ACK-2, ACK-3).
"""
from cpython.object cimport Py_TYPE, PyObject, PyTypeObject, destructor
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
cimport cython

cdef extern from *:
    """
    #ifdef __SANITIZE_ADDRESS__
    #define MOST_SPARE 1       /* so that the sanitizer sees a late use of a tuple */
    #else
    #define MOST_SPARE 2048
    #endif
    /* Memory of a tuple that the garbage collector does not track yet. It may collect garbage, and so run any code. */
    #define allocate(type) PyObject_GC_New(PyObject, (PyTypeObject*)(type))
    #define forget_count(raw) Py_SET_REFCNT(raw, 0)
    /* A new or spare tuple has no objects to release. */
    #define fill(tup, its_held, its_origin) (Py_INCREF(its_held), Py_INCREF(its_origin), (tup)->held = (its_held), (tup)->origin = (its_origin))

    static PyTypeObject* attempt_type = NULL;     /* TransactionAttempt: two ints, so an atom as well */
    #define set_attempt_type(type) (attempt_type = (type))

    /* Whether a tuple of values may lead back to its delivery by the item i or one before it. The type of i is no atom.
       Not inlined, because the registers that it needs would be saved for each tuple. */
    static Py_NO_INLINE int may_lead_back_by(PyObject* held, Py_ssize_t i) {
        if (i == 0 && Py_TYPE(PyTuple_GET_ITEM(held, 0)) == attempt_type) return 0;
        return PyObject_GC_IsTracked(held);       /* False: someone has looked deeper, and found only atoms */
    }

    /* Tuples that hold each other may form a long chain. The trashcan deallocates it step by step, not as deep as it is long.
       Not inlined, because the registers that it needs would be saved for each tuple. */
    static Py_NO_INLINE void dealloc_in_steps(PyObject* raw, destructor dealloc) {
        PyObject_GC_UnTrack(raw);
        Py_TRASHCAN_BEGIN(raw, Py_TYPE(raw)->tp_dealloc)
        dealloc(raw);
        Py_TRASHCAN_END
    }
    """
    enum: MOST_SPARE
    PyObject* allocate(type kind) except NULL
    void set_attempt_type(PyTypeObject* kind)
    bint may_lead_back_by(object held, Py_ssize_t i) noexcept
    void forget_count(PyObject* raw)
    void fill(Tuple tup, object held, Source origin)
    void dealloc_in_steps(PyObject* raw, destructor dealloc) noexcept

cdef extern from "Python.h":
    bint PyType_IS_GC(PyTypeObject* kind)
    void PyObject_GC_UnTrack(PyObject* raw)

NO_ROOTS = ()

cdef PyObject* spare[MOST_SPARE]     # memory of deallocated tuples, whose values and origin are released
cdef Py_ssize_t spare_count = 0


def treat_as_atoms(type kind not None):
    """Let the values of this class count as atoms, because they never hold anything but atoms. For the attempts of batches."""
    set_attempt_type(<PyTypeObject*>kind)       # a class of a module, so it is never deallocated


cdef inline bint may_lead_back(object held, uint8_t flags) noexcept:
    """Return True unless all values are atoms. No cycle runs through a tuple of atoms."""
    cdef Py_ssize_t i
    if flags & ONE_VALUE:
        return PyType_IS_GC(Py_TYPE(held))
    i = PyTuple_GET_SIZE(held)
    while i:
        i -= 1
        if PyType_IS_GC(Py_TYPE(<object>PyTuple_GET_ITEM(held, i))):
            return may_lead_back_by(held, i)
    return False


cdef Tuple new_tuple(object held, Source origin, uint8_t flags):
    """Return a tuple that belongs to no tree. `held` is the tuple of values, or the only value if flags has ONE_VALUE."""
    global spare_count
    cdef PyObject* raw
    if may_lead_back(held, flags):
        flags |= COLLECTABLE
    if spare_count == 0:
        raw = allocate(Tuple)
    else:
        spare_count -= 1
        raw = spare[spare_count]
    forget_count(raw)       # the cast of the return counts the only reference
    fill(<Tuple>raw, held, origin)
    (<Tuple>raw).root = (<Tuple>raw).edge = (<Tuple>raw).ack_value = 0
    (<Tuple>raw).state, (<Tuple>raw).flags = WAITING, flags
    return <Tuple>raw


def make_tuple(tuple values, Source origin):
    """Return a tuple that belongs to no tree, for ticks and tests."""
    cdef Tuple tup = new_tuple(values, origin, 0)
    if tup.flags & COLLECTABLE:
        track(tup)
    return tup


@cython.final
cdef class Source:
    """Origin of tuples: one stream of one task, with the Fields of the stream."""

    def __init__(self, str component_id, str stream, int32_t task_id, fields):
        self.component_id = component_id
        self.stream = stream
        self.task_id = task_id
        self.fields = fields
        self.positions = {name: index for index, name in enumerate(fields)}
        self.arity = len(self.positions)

    def __repr__(self):
        return f"Source({self.component_id!r}, {self.stream!r}, task {self.task_id})"


cdef Roots* new_roots(Py_ssize_t count) except NULL:
    cdef Roots* roots = <Roots*>malloc(sizeof(Roots) + count * sizeof(RootEdge))
    if roots == NULL:
        raise MemoryError("no memory for the roots of a tuple")
    roots.count = 0
    return roots


cdef int add_root(Tuple tup, uint64_t root, uint64_t edge) except -1:
    """Put tup into the tree of root by edge. If it is already in that tree, the edges are XORed (ACK-2)."""
    cdef Roots* roots
    cdef Py_ssize_t i
    if tup.root == 0:
        tup.root, tup.edge = root, edge
        return 0
    if not tup.flags & MANY_ROOTS:
        if tup.root == root:
            tup.edge ^= edge
            return 0
        roots = new_roots(2)
        roots.count = 1
        roots.items[0].root, roots.items[0].edge = tup.root, tup.edge
        tup.root, tup.edge = <uint64_t><size_t>roots, 0
        tup.flags |= MANY_ROOTS
    else:
        roots = <Roots*><size_t>tup.root
    for i in range(roots.count):
        if roots.items[i].root == root:
            roots.items[i].edge ^= edge
            return 0
    if roots.count >= 2 and roots.count & (roots.count - 1) == 0:     # a block is full at each power of two
        roots = <Roots*>realloc(roots, sizeof(Roots) + 2 * roots.count * sizeof(RootEdge))
        if roots == NULL:
            raise MemoryError("no memory for the roots of a tuple")
        tup.root = <uint64_t><size_t>roots
    roots.items[roots.count].root, roots.items[roots.count].edge = root, edge
    roots.count += 1
    return 0


# The garbage collector tracks a tuple only if its values may lead back to it, and only once user code can have it. So it never walks a
# million waiting tuples. no_gc_clear, because a tuple is immutable, and each cycle through it also has an object that can be cleared.
@cython.final
@cython.no_gc_clear
cdef class Tuple:
    """One message for one task. Only the engine creates tuples.

    Values are read as `tup[0]` or `tup["word"]`, by `len(tup)` and by iteration. A tuple is equal only to itself.
    """

    def __cinit__(self):
        PyObject_GC_UnTrack(<PyObject*>self)
        raise TypeError("only the engine makes tuples. A bolt receives them; in a test, feed values with engine.testing.Feeder")

    def __dealloc__(self):
        cdef TakenTuples* taken = self.owner
        cdef uint64_t root = self.root
        if self.state == TAKEN and taken != NULL:
            remove_taken(taken, self, SETTLED)
            if root == 0:
                taken.on_rootless_forgotten(taken.core, <PyObject*>self.held, <PyObject*>self.origin, self.flags)
            else:
                taken.on_forgotten(taken.core, root, self.edge ^ self.ack_value, <Roots*><size_t>root if self.flags & MANY_ROOTS else NULL)
        if self.flags & MANY_ROOTS:
            free(<void*><size_t>root)

    def __getitem__(self, key):
        if isinstance(key, str):
            try:
                return values_of(self)[<Py_ssize_t>self.origin.positions[key]]
            except KeyError:
                return values_of(self)[self.origin.fields.index(key)]      # raises an error that names the nearest field
        return values_of(self)[key]

    def __len__(self):
        return len(values_of(self))

    def __iter__(self):
        return iter(values_of(self))

    def __contains__(self, value):
        return value in values_of(self)

    @property
    def values(self):
        """The values, as a tuple."""
        return values_of(self)

    @property
    def fields(self):
        """The Fields of the tuple's stream."""
        return self.origin.fields

    @property
    def stream(self):
        return self.origin.stream

    @property
    def source_component(self):
        """The id of the component that emitted the tuple."""
        return self.origin.component_id

    @property
    def source_task(self):
        """The id of the task that emitted the tuple."""
        return self.origin.task_id

    @property
    def is_tick(self):
        """True for a tick (`tick_tuple_freq_secs`). A tick has no values, and settling it has no effect."""
        return (self.flags & IS_MARK) == IS_TICK

    @property
    def is_control(self):
        """True for a tuple that the executor handles: a barrier, a batch report, or a mark."""
        return (self.flags & IS_CONTROL) != 0

    @property
    def is_mark(self):
        """True for a mark, which has a watermark."""
        return is_mark(self)

    @property
    def is_settled(self):
        """True if the bolt or the engine has acked or failed the tuple."""
        return self.state >= SETTLED

    @property
    def roots(self):
        """Root ids of the tuple's trees, for traces and tests."""
        cdef Roots* many
        cdef Py_ssize_t i
        if self.root == 0:
            return NO_ROOTS
        if not self.flags & MANY_ROOTS:
            return (self.root,)
        many = <Roots*><size_t>self.root
        return tuple([many.items[i].root for i in range(many.count)])

    def __repr__(self):
        values = repr(values_of(self))
        if len(values) > 200:
            values = values[:197] + "..."
        return f"<Tuple {values} from {self.origin.component_id}[{self.origin.task_id}] on {self.origin.stream}>"


cdef destructor dealloc_whole = (<PyTypeObject*>Tuple).tp_dealloc


cdef void dealloc_tuple(PyObject* raw) noexcept:
    """Deallocate a tuple. Atoms hold nothing, so only other values can be the start of a long chain."""
    if (<Tuple>raw).flags & COLLECTABLE:
        dealloc_in_steps(raw, release_tuple)
    else:
        release_tuple(raw)


cdef void release_tuple(PyObject* raw) noexcept:
    """Release what a tuple holds, and keep its memory for the next one. A taken tuple, or one of several trees, is deallocated completely."""
    global spare_count
    cdef PyObject* held
    cdef PyObject* origin
    if (<Tuple>raw).state == TAKEN or (<Tuple>raw).flags & MANY_ROOTS:
        dealloc_whole(raw)
        return
    held, origin = <PyObject*>(<Tuple>raw).held, <PyObject*>(<Tuple>raw).origin
    Py_DECREF(<object>held)     # may run any code, which may make and deallocate tuples
    Py_DECREF(<object>origin)
    if spare_count == MOST_SPARE:
        (<PyTypeObject*>Tuple).tp_free(raw)
        return
    spare[spare_count] = raw
    spare_count += 1


(<PyTypeObject*>Tuple).tp_dealloc = dealloc_tuple


cdef list list_taken(TakenTuples* taken):
    """Return the tuples of the list, oldest first."""
    cdef list found = []
    cdef PyObject* at = taken.newest
    while at != NULL:
        found.append(<Tuple>at)
        at = (<Tuple>at).older
    found.reverse()
    return found


cdef list list_oldest(TakenTuples* taken, Py_ssize_t most):
    """Return the first tuples of the list, at most `most`, oldest first."""
    cdef list found = []
    cdef PyObject* at = taken.oldest
    while at != NULL and most > 0:
        found.append(<Tuple>at)
        at = (<Tuple>at).newer
        most -= 1
    return found
