"""`HeldCall` holds back what one call of a bolt emits and settles, so that a call that raises has done neither (SV-13).

Values, anchors and targets are checked when the call emits, so that an error arises where it does without a hold. Only the deliveries wait.
No edge is drawn before they leave, so nothing has to be taken back from the ledger of an anchor.

All of this is beside `_native.bolt`, so that a bolt without retries runs the same code as ever.
"""
from libc.stdint cimport int32_t
cimport cython

from _native.bolt cimport BoltCore
from _native.task cimport HOLDS, Outlet, OutStream, check_thread, checked_values, deliver, pick_target
from _native.tuples cimport FAILED_BEFORE, WAITING, Source, Tuple, new_tuple, remove_taken

cdef str DEFAULT = "default"


def failed_calls(Tuple tup not None):
    """Return how many calls with this input have raised and were retried."""
    return tup.failed_calls if tup.flags & FAILED_BEFORE else 0


def note_failed_call(Tuple tup not None):
    """Count a call that has raised and will be retried. Return the number of such calls with this input."""
    if not tup.flags & FAILED_BEFORE:
        tup.flags |= FAILED_BEFORE
        tup.failed_calls = 0
    tup.failed_calls += 1
    return tup.failed_calls


def requeue(BoltCore core not None, Tuple tup not None):
    """Let a taken input wait again, before all others. If the instance is replaced meanwhile, the next one takes it."""
    core.requeue_singly()
    remove_taken(&core.taken_list, tup, WAITING)
    core.held_tuples.released.appendleft(tup)
    core.rare_paths |= HOLDS
    core.executed -= 1      # so that an input counts once


@cython.final
cdef class HeldEmit:
    """One emit whose targets are chosen."""


@cython.final
cdef class HeldCall:
    """What one call has emitted and settled, in order."""

    def __init__(self, BoltCore core not None):
        self.core, self.steps, self.settled = core, [], set()

    def emit(self, values, anchors, stream):
        """Hold the values of one tuple. Raises the errors of `BoltCore.emit`."""
        cdef OutStream out = self.core.default_stream if stream is DEFAULT else self.core.stream_of(stream)
        self.check_open()
        if type(anchors) is Tuple:
            self.check_one(<Tuple>anchors)
            self.hold(values, out, <Tuple>anchors, None)
        else:
            self.hold(values, out, None, self.collection(anchors))

    def emit_rows(self, rows, anchors, stream, bint single_values):
        """Hold one tuple for each row. single_values: a row is the only value of its tuple."""
        cdef OutStream out = self.core.default_stream if stream is DEFAULT else self.core.stream_of(stream)
        cdef Tuple anchor = <Tuple>anchors if type(anchors) is Tuple else None
        cdef tuple several = None
        self.check_open()
        if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
            raise self.core.misuse("not_rows", method="emit_each" if single_values else "emit_many", given=rows)
        rows = list(rows)      # a generator may settle an anchor, so its code runs before the check of the anchors
        if anchor is not None:
            self.check_one(anchor)
        else:
            several = self.collection(anchors)
        for row in rows:
            self.hold((row,) if single_values else row, out, anchor, several)

    def emit_direct(self, int32_t task, values, anchors, stream):
        """Hold a tuple for one task of each direct subscriber."""
        cdef OutStream out = self.core.stream_of(stream)
        cdef Outlet outlet
        cdef HeldEmit held
        self.check_open()
        if not out.direct:
            raise self.core.misuse("not_direct", stream=stream)
        held = self.held_emit(checked_values(self.core, values, out), None,
                              self.collection((anchors,) if type(anchors) is Tuple else anchors))
        held.targets = [(outlet, outlet.index_of[task], out.origin if out.origins is None else out.origins[task])
                        for outlet in out.outlets if task in outlet.index_of]
        if not held.targets and out.outlets:
            raise self.core.misuse("direct_target", stream=stream, task=task)
        self.steps.append(held)

    def settle(self, tup, failure, method):
        """Hold an ack (failure None) or a fail. A second one of the same input is counted and ignored, as without a hold (ACK-5)."""
        check_thread(self.core)
        if type(tup) is not Tuple:
            raise self.core.misuse("not_a_tuple", method=method, given=tup)
        if self.has_raised:
            return      # the input runs again, or has failed
        if tup in self.settled:
            self.core.settled_twice += 1
        elif self.core.is_mine(<Tuple>tup):
            self.settled.add(tup)
            self.steps.append((tup, failure))

    def send(self, fail):
        """Let the steps leave, because the call has returned. `fail(tup, failure)` fails an input.

        Raises UsageError, and sends nothing, if other code has settled an anchor meanwhile.
        """
        cdef Outlet outlet
        cdef HeldEmit held
        cdef list steps = self.steps
        for step in steps:
            if type(step) is HeldEmit:
                self.check((<HeldEmit>step).anchor, (<HeldEmit>step).anchors)
        self.has_returned, self.steps = True, []
        for step in steps:
            if type(step) is not HeldEmit:
                tup, failure = step
                if failure is None:
                    self.core.ack_tuple(<Tuple?>tup)
                else:
                    fail(tup, failure)
                continue
            held = <HeldEmit>step
            self.core.emitted += 1
            for outlet, target, origin in held.targets:
                self.send_one(outlet, target, held, <Source>origin)
        self.settled.clear()

    def drop(self):
        """Forget the steps, because the call has raised."""
        if not self.has_returned:
            self.has_raised = True
            self.steps, self.settled = [], set()

    cdef int check_open(self) except -1:
        """Raise on another thread, and for work that a call has left behind when it raised."""
        check_thread(self.core)
        if self.has_raised:
            raise self.core.misuse("call_over")
        return 0

    cdef int hold(self, object given, OutStream out, Tuple anchor, tuple anchors) except -1:
        """Check the values of a plain emit, and choose its targets."""
        cdef Outlet outlet
        cdef HeldEmit held
        if out is None:
            raise self.core.misuse("unknown_stream", stream=DEFAULT)
        if out.direct:
            raise self.core.misuse("direct_stream", stream=out.origin.stream)
        held = self.held_emit(checked_values(self.core, given, out), anchor, anchors)
        for outlet in out.outlets:
            if outlet.picks_one:
                held.targets.append((outlet, pick_target(self.core, outlet, held.values), out.origin))
            else:
                held.targets.extend((outlet, target, out.origin) for target in self.core.targets_of(outlet, held.values))
        self.steps.append(held)
        return 0

    cdef int send_one(self, Outlet outlet, Py_ssize_t target, HeldEmit held, Source origin) except -1:
        """Deliver a tuple to one target, in the trees of its anchors (ACK-2)."""
        cdef Tuple made = new_tuple(held.values, origin, 0)
        if held.anchor is not None:
            self.core.anchor_to(made, held.anchor)
        elif held.anchors:
            for each in held.anchors:
                self.core.anchor_to(made, <Tuple?>each)
        elif self.core.on_unanchored is not None:
            self.core.note_unanchored()
        return deliver(self.core, outlet, target, made)

    cdef HeldEmit held_emit(self, tuple values, Tuple anchor, tuple anchors):
        cdef HeldEmit held = HeldEmit()
        held.values, held.anchor, held.anchors, held.targets = values, anchor, anchors, []
        return held

    cdef int check(self, Tuple anchor, tuple anchors) except -1:
        if anchor is not None:
            return self.core.check_anchor(anchor)
        if anchors is not None:
            for each in anchors:
                self.core.check_anchor(<Tuple?>each)
        return 0

    cdef int check_one(self, Tuple anchor) except -1:
        """Raise unless this input may be an anchor now."""
        if anchor in self.settled:
            raise self.core.misuse("anchor", tuple=anchor, settled=True)
        return self.core.check_anchor(anchor)

    cdef tuple collection(self, object anchors):
        """Return a copy of several anchors, which the bolt may change later. None for no anchors."""
        if anchors is None:
            return None
        self.core.check_anchors(anchors)
        for each in anchors:
            self.check_one(<Tuple>each)
        return tuple(anchors)
