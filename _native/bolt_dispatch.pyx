"""A bolt task's emits: children of the inputs that they are anchored to."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t

from _native.dispatch cimport Outlet, OutStream
from _native.edge_ids cimport draw_edge
from _native.task_core cimport TaskCore, check_thread, checked_values, deliver, pick
from _native.tuples cimport (FAILED_WITH_TASK, IS_CONTROL, IS_TICK, MANY_ROOTS, TAKEN, Roots, Source, Tuple, add_root, new_tuple)

cdef str DEFAULT = "default"


cdef inline Tuple child(BoltDispatch core, tuple values, Source origin, Tuple anchor, object anchors):
    """A new delivery in the trees of its anchors: one edge per anchor, XORed into both (ACK-2)."""
    cdef Tuple made = new_tuple(values, origin)
    if anchor is not None:
        if anchor.root != 0:
            if anchor.flags & MANY_ROOTS:
                core.anchor_to(made, anchor)
            else:
                made.root = anchor.root
                made.edge = draw_edge(core.ids)
                anchor.ack_value ^= made.edge
    elif anchors is not None:
        for each in anchors:
            core.anchor_to(made, <Tuple>each)
    return made


cdef class BoltDispatch(TaskCore):
    """The emitting half of a bolt's core."""

    cdef int emit_values(self, object given, OutStream stream, Tuple anchor, object anchors) except -1:
        """Deliver values to every subscriber of stream, anchored to anchor, or to each of anchors."""
        cdef Outlet outlet
        cdef Py_ssize_t i
        cdef tuple values
        if stream is None:
            raise self.misuse("unknown_stream", stream=DEFAULT)
        values = checked_values(self, given, stream)
        outlet = stream.only
        if outlet is None and stream.direct:
            raise self.misuse("direct_stream", stream=stream.origin.stream)
        if outlet is not None:
            i = pick(self, outlet, values)
            self.emitted += 1
            return deliver(self, outlet, i, child(self, values, stream.origin, anchor, anchors))
        chosen = [(pick(self, outlet, values),) if outlet.picks_one else self.targets_of(outlet, values)
                  for outlet in stream.outlets]     # may raise: then nothing is sent
        self.emitted += 1
        for outlet, targets in zip(stream.outlets, chosen):
            for i in targets:
                deliver(self, outlet, i, child(self, values, stream.origin, anchor, anchors))
        return 0

    cdef int anchor_to(self, Tuple child, Tuple anchor) except -1:
        cdef Roots* many
        cdef uint64_t edge
        cdef Py_ssize_t i
        if anchor.root == 0:
            return 0
        edge = draw_edge(self.ids)
        anchor.ack_value ^= edge
        if not anchor.flags & MANY_ROOTS:
            return add_root(child, anchor.root, edge)
        many = <Roots*><size_t>anchor.root
        for i in range(many.count):
            add_root(child, many.items[i].root, edge)
        return 0

    cdef int check_anchor(self, Tuple anchor) except -1:
        if anchor.state == TAKEN and anchor.owner == <PyObject*>self:
            return 0
        if anchor.flags & IS_TICK or anchor.state == FAILED_WITH_TASK:
            return 0
        raise self.misuse("anchor", tuple=anchor)

    cpdef emit(self, object values, object anchors, object stream):
        """Emit for BoltEmitter and the executor: anchors is None, a Tuple of this task, or an iterable of them."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else self.stream_of(stream)
        check_thread(self)
        if type(anchors) is Tuple:
            if (<Tuple>anchors).state != TAKEN or (<Tuple>anchors).owner != <PyObject*>self:
                self.check_anchor(<Tuple>anchors)
            self.emit_values(values, out, <Tuple>anchors, None)
            return
        if anchors is not None:
            self.check_anchors(anchors)
        self.emit_values(values, out, None, anchors)

    cdef int check_anchors(self, object anchors) except -1:
        """Raise unless anchors are tuples of this task, in a collection that may be walked more than once."""
        if not isinstance(anchors, (list, tuple, set, frozenset)):
            raise self.misuse("anchors", anchors=anchors)
        for each in anchors:
            if type(each) is not Tuple:
                raise self.misuse("anchors", anchors=each)
            self.check_anchor(<Tuple>each)
        return 0

    def emit_direct(self, int32_t task, values, anchors, stream):
        """Emit to one task of each direct subscriber of a stream that is declared direct."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef bint found = False
        check_thread(self)
        if not out.direct:
            raise self.misuse("not_direct", stream=stream)
        values = checked_values(self, values, out)
        if type(anchors) is Tuple:
            anchors = (anchors,)
        if anchors is not None:
            self.check_anchors(anchors)
        for outlet in out.outlets:
            if task in outlet.index_of:
                found = True
                deliver(self, outlet, outlet.index_of[task], child(self, <tuple>values, out.origin, None, anchors))
        if not found and out.outlets:
            raise self.misuse("direct_target", stream=stream, task=task)
        self.emitted += 1

    def emit_control(self, values, stream, Tuple anchor=None):
        """Send values as a control tuple to every task of every subscriber of stream, whatever the grouping; stops nobody."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef Py_ssize_t i
        cdef Tuple made
        values = checked_values(self, values, out)
        for outlet in out.outlets:
            for i in range(outlet.tasks):
                made = child(self, <tuple>values, out.origin, anchor, None)
                made.flags |= IS_CONTROL
                deliver(self, outlet, i, made)
