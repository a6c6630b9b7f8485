"""Rows and verdicts between a bolt task and the child process that has its instance.

Each row of a frame has a number. In the child, the number is the root of the row's tree. So the roots of an emitted tuple are the numbers
of its anchors. Each signal to the child's acker names its input by its number.
"""
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint64_t

from _native.bolt cimport BoltCore
from _native.burst cimport Burst
from _native.queues cimport ACK, FAIL, Mailbox, Signal, SignalRing, has_drained, post_tuple, take_tuple
from _native.tuples cimport IS_CONTROL, MANY_ROOTS, Source, Tuple, new_tuple, values_of


cdef enum:
    MOST_LEVELS = 2        # of values within values that `is_plain` looks at. More may take long, because shared values are visited again

cdef enum RowKind:
    UNTRACKED      # of no tree
    TRACKED
    CONTROL        # a control tuple


# In the run


def rows_of(Burst burst not None):
    """Return the rows of a burst in order, as a list of (Source, kind, list of values)."""
    cdef list found = []
    cdef list rows = None
    cdef Source origin = None
    cdef bint is_tracked = False
    cdef Tuple tup
    for tup in burst.tuples:
        if tup.origin is not origin or is_tracked != (tup.root != 0):
            origin, is_tracked, rows = tup.origin, tup.root != 0, []
            found.append((origin, TRACKED if is_tracked else UNTRACKED, rows))
        rows.append(values_of(tup))
    return found


def kind_of(Tuple tup not None):
    """Return the kind of a row with this tuple."""
    return CONTROL if tup.flags & IS_CONTROL else TRACKED if tup.root != 0 else UNTRACKED


def origin_of(Tuple tup not None):
    """Return the Source of a tuple."""
    return tup.origin


def emit_rows(BoltCore core not None, str stream, list rows, list anchors, dict taken not None, target):
    """Emit rows of a child. anchors: of each row, its number, a tuple of numbers, or 0 for none. taken: the inputs by number.

    target: task id for a direct stream, else None. Returns (number, error) for each row that could not be emitted.
    """
    cdef Py_ssize_t i
    cdef list refused = []
    for i in range(PyList_GET_SIZE(rows)):
        number = <object>PyList_GET_ITEM(anchors, i)
        if type(number) is tuple:
            anchor = [taken[each] for each in <tuple>number if each in taken]
        else:
            anchor = taken.get(number)
        try:
            if target is None:
                core.emit(<object>PyList_GET_ITEM(rows, i), anchor, stream)
            else:
                core.emit_direct(target, <object>PyList_GET_ITEM(rows, i), anchor, stream)
        except Exception as error:
            refused.append((number, error))
    return refused


def ack_rows(BoltCore core not None, list numbers, dict taken not None):
    """Ack the inputs with these numbers, and remove them from `taken`. Ignores unknown numbers."""
    for number in numbers:
        tup = taken.pop(number, None)
        if tup is not None:
            core.ack_tuple(<Tuple>tup)


# In the child


def post_numbered(Mailbox box not None, Source origin not None, RowKind kind, list rows, uint64_t first):
    """Post rows as tuples of trees whose roots are the numbers from `first` on, or of no tree. Never stops a sender."""
    cdef Tuple tup
    cdef uint64_t number = first
    for values in rows:
        tup = new_tuple(<tuple?>values, origin, IS_CONTROL if kind == CONTROL else 0)
        if kind != UNTRACKED:
            tup.root = tup.edge = number
        number += 1
        post_tuple(box, tup, NULL)


def first_waiting(BoltCore core not None, uint64_t posted):
    """Return the number of the first row that waits in the mailbox, is held back, or has to run again. `posted` + 1 if none does.

    Rows may have gaps between them, because some could not be loaded, or the call of a burst has settled them. Rows of no tree have no
    number. They are counted back from the end, and after a gap their number may be too large.
    """
    cdef Mailbox box = core.mailbox
    cdef uint64_t first = posted + 1 - <uint64_t>(box.tail - box.head - core.tick_waits)
    cdef Py_ssize_t i
    cdef Tuple tup
    for i in range(box.head, box.tail):
        tup = <Tuple>box.ring[i & box.mask]
        if tup.root != 0:
            first = min(first, tup.root)
            break
    for tup in (*core.singly, *core.held_tuples.tuples()):
        if tup.root != 0:
            first = min(first, tup.root)
    return first


def take_emits(Mailbox box not None, Py_ssize_t most):
    """Take up to `most` tuples as a list of (Source, rows, anchors). An anchor is a root, a tuple of roots, or 0."""
    cdef list found = []
    cdef list rows = None, anchors = None
    cdef Source origin = None
    cdef Tuple tup
    cdef PyObject* raw
    while most > 0:
        raw = take_tuple(box)
        if raw == NULL:
            break
        tup = <Tuple>raw
        Py_DECREF(tup)
        if tup.origin is not origin:
            origin, rows, anchors = tup.origin, [], []
            found.append((origin, rows, anchors))
        rows.append(values_of(tup))
        anchors.append(tup.roots if tup.flags & MANY_ROOTS else tup.root)
        most -= 1
    if has_drained(box):
        box.resume_senders()
    return found


def are_plain(list rows not None, Py_ssize_t first=0):
    """Return True if each value, from the `first` of its row on, is of a built-in type that always loads."""
    cdef Py_ssize_t i
    cdef tuple values
    for values in rows:
        for i in range(first, len(values)):
            if not is_plain(values[i], MOST_LEVELS):
                return False
    return True


cdef bint is_plain(object value, int levels) except -1:
    cdef type kind = type(value)
    if kind is str or kind is int or kind is float or kind is bytes or kind is bool or value is None:
        return True
    if levels == 0:
        return False
    if kind is tuple or kind is list:
        for each in value:
            if not is_plain(each, levels - 1):
                return False
        return True
    if kind is dict:
        for key, each in (<dict>value).items():
            if not is_plain(key, levels - 1) or not is_plain(each, levels - 1):
                return False
        return True
    return False


def take_verdicts(SignalRing ring not None):
    """Take all signals as (numbers of the acks, list of (number, Failure)). The Failure is None if the timeout is reset."""
    cdef list acks = [], others = []
    cdef Signal* signal
    while ring.head != ring.tail:
        signal = &ring.ring[ring.head & ring.mask]
        if signal.kind == ACK:
            acks.append(signal.root)
        else:
            others.append((signal.root, ring.objects.popleft() if signal.kind == FAIL else None))
        ring.head += 1
    ring.reset_empty()
    return acks, others


def exit_at_hangup(int connection, int parent, int status):
    """Wait until the other end of a socket or a process is gone, then end this process at once. Needs no GIL, so no code can delay it.

    parent: pidfd of the process, or -1. A process that the parent has forked may hold the other end of the socket open.
    """
    with nogil:
        exit_when_gone(connection, parent, status)
