"""A spout task's emits: the first tuples of trees, and the trees that wait for a verdict."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint64_t
cimport cython

from _native.dispatch cimport Outlet, OutStream
from _native.edge_ids cimport draw_edge
from _native.mailbox cimport INIT, OWN_CLOCK, signal_with
from _native.root_table cimport RootSlot, RootTable, expect_root, find_or_add_root
from _native.task_core cimport TRACES, TaskCore, check_thread, checked_values, deliver, pick, ring_for, tell_acker
from _native.tuples cimport IS_CONTROL, REPORTS_SETTLE, Tuple, new_tuple

cdef str DEFAULT = "default"


@cython.final
cdef class OpenTrees(RootTable):
    """The message ids of a spout task's open trees, by root."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.slots != NULL:
            for i in range(self.mask + 1):
                if self.slots[i].root:
                    Py_DECREF(<object><PyObject*><size_t>self.slots[i].word)

    def roots(self):
        """The root ids, in no order."""
        return [self.slots[i].root for i in range(self.mask + 1) if self.slots[i].root]


cdef class SpoutDispatch(TaskCore):
    """The emitting half of a spout's core."""

    def __cinit__(self):
        self.open_trees = OpenTrees()
        self.acked_now = []

    cpdef emit(self, object values, object message_id, object stream):
        """Emit for SpoutEmitter. The common case, one subscriber that picks one task, stands here in one piece."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else None
        cdef Outlet outlet
        cdef Tuple made
        cdef Py_ssize_t target
        check_thread(self)
        if out is None:
            out = self.stream_of(stream)
        values = checked_values(self, values, out)
        outlet = out.only
        if outlet is None:
            if out.direct:
                raise self.misuse("direct_stream", stream=stream)
            self.emit_to(<tuple>values, message_id, out, None)
            return
        target = pick(self, outlet, <tuple>values)
        self.emitted += 1
        made = new_tuple(<tuple>values, out.origin)
        if message_id is None or self.acker_count == 0:
            deliver(self, outlet, target, made)
            if message_id is not None:
                self.ack_soon(message_id)
            return
        made.root = self.new_root()
        expect_root(self.open_trees, made.root)
        made.edge = draw_edge(self.ids)
        if self.reports_settle:
            made.flags |= REPORTS_SETTLE
        deliver(self, outlet, target, made)
        self.open_tree(made.root, made.edge, message_id)

    def emit_direct(self, int32_t task, values, message_id, stream):
        """Emit to one task of each direct subscriber of a stream that is declared direct."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        check_thread(self)
        if not out.direct:
            raise self.misuse("not_direct", stream=stream)
        if out.outlets and not any([task in (<Outlet>each).index_of for each in out.outlets]):
            raise self.misuse("direct_target", stream=stream, task=task)
        self.emit_to(checked_values(self, values, out), message_id, out, task)

    cdef int emit_to(self, tuple values, object message_id, OutStream out, object direct_task) except -1:
        """Deliver values to every subscriber of out; with a message id they are the first tuples of a tree (ACK-1)."""
        cdef Outlet outlet
        cdef uint64_t root = 0, edges = 0
        cdef Py_ssize_t i
        chosen = [self.chosen(outlet, values, direct_task) for outlet in out.outlets]     # may raise: then nothing is sent
        self.emitted += 1
        if message_id is not None and self.acker_count and out.outlets:
            root = self.new_root()
        for outlet, targets in zip(out.outlets, chosen):
            for i in targets:
                edges ^= self.send(outlet, i, values, out, root)
        if root != 0:
            self.open_tree(root, edges, message_id)
        elif message_id is not None:
            self.ack_soon(message_id)
        return 0

    cdef uint64_t new_root(self) except? 0:
        cdef uint64_t root = draw_edge(self.ids)
        if self.rare & TRACES:
            self.trace("opened", (root,), self.task_id)
        return root

    cdef object chosen(self, Outlet outlet, tuple values, object direct_task):
        """The targets of one outlet among several, or of one that may pick several."""
        if outlet.picks_one:
            return (pick(self, outlet, values),)
        if direct_task is None:
            return self.targets_of(outlet, values)
        return (outlet.index_of[direct_task],) if direct_task in outlet.index_of else ()

    cdef uint64_t send(self, Outlet outlet, Py_ssize_t target, tuple values, OutStream out, uint64_t root) except? 0:
        """Post one delivery; its edge, 0 where it belongs to no tree."""
        cdef Tuple made = new_tuple(values, out.origin)
        if root != 0:
            made.root = root
            made.edge = draw_edge(self.ids)
            if self.reports_settle:
                made.flags |= REPORTS_SETTLE
        deliver(self, outlet, target, made)
        return made.edge

    cdef int ack_soon(self, object message_id) except -1:
        """Have a tree acked that needs no acker; what background work emitted wakes the task for it."""
        self.acked_now.append(message_id)
        if not self.in_burst:
            self.verdicts.make_way()
        return 0

    cdef int open_tree(self, uint64_t root, uint64_t edges, object message_id) except -1:
        """Note the tree and tell its acker. One that went to nobody (a custom grouping chose no task) is done."""
        cdef RootSlot* slot
        cdef double at
        if edges == 0:
            self.ack_soon(message_id)
            return 0
        slot = find_or_add_root(self.open_trees, root)
        at = self.lap_start if self.in_burst else self.now()
        Py_INCREF(message_id)
        slot.word = <uint64_t><size_t><PyObject*>message_id
        slot.extra = (<uint64_t*>&at)[0]
        tell_acker(self, INIT, root, edges)
        return 0

    def emit_control(self, values, stream, message_id=None, timeout_secs=None):
        """Send values as a control tuple to every task of every subscriber; with a message id as a tree with a timeout of its own."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef Tuple made
        cdef uint64_t root = 0, edges = 0
        cdef Py_ssize_t i
        values = checked_values(self, values, out)
        if message_id is not None and self.acker_count and out.outlets:
            root = self.new_root()
            if timeout_secs is not None:
                signal_with(ring_for(self, root), OWN_CLOCK, root, self.task_id, timeout_secs)
        elif message_id is not None:
            self.ack_soon(message_id)
        for outlet in out.outlets:
            for i in range(outlet.tasks):
                made = new_tuple(<tuple>values, out.origin)
                made.flags |= IS_CONTROL
                if root != 0:
                    made.root, made.edge = root, draw_edge(self.ids)
                    edges ^= made.edge
                deliver(self, outlet, i, made)
        if root != 0:
            self.open_tree(root, edges, message_id)
