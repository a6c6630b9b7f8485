# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""`SpoutCollector` is the object through which an instance of a spout emits: `self.collector`.

Each tuple needs a call of a collector. The interpreter enters a C method directly if the object has exactly the class that defines it. The
method also must not be a `binding` function. So the class is final, and also has the rare methods.
"""
from itertools import repeat

from libc.stdint cimport int32_t, uint64_t
cimport cython

from _native.spout cimport SpoutCore

ROWS_PER_TURN = 1024      # rows that are emitted in one turn of the loop, in about half a millisecond


@cython.final
cdef class SpoutCollector:
    """Collector of one instance of a spout (`engine.api.SpoutCollector`).

    While rows of an `emit_many` are pending, each emit is queued behind them: `divert(True)`. pending: the task's `PendingRows`.
    """

    def __init__(self, SpoutCore core not None, pending=None, *, ready=None, report_error=None):
        self.core, self.pending, self.on_ready, self.on_error = core, pending, ready, report_error

    def retire(self):
        """From now on raise errors for emits, because the instance has ended."""
        self.retired = self.diverts = True

    def divert(self, bint on):
        """Start or stop queuing emits behind the pending rows."""
        self.diverts = on or self.retired

    def check_alive(self):
        """Raise an error if the instance has ended."""
        if self.retired:
            raise self.core.misuse("retired")

    def emit(self, values, message_id=None, stream="default"):
        if self.diverts:
            self.emit_rarely(values, message_id, stream)
        else:
            self.core.emit(values, message_id, stream)

    cdef int emit_rarely(self, object values, object message_id, object stream) except -1:
        """Emit behind the pending rows. On another thread, raise an error at once."""
        self.check_alive()
        if self.pending.is_on_loop_thread:
            return self.emit_later((<object>self.core).emit, ((values, message_id, stream),))
        self.core.emit(values, message_id, stream)
        return 0

    cdef int emit_later(self, object emit, object arguments) except -1:
        self.pending.append_calls(emit, iter(arguments))
        return 0

    def emit_many(self, rows, message_ids=None, stream="default"):
        cdef Py_ssize_t at_once
        cdef uint64_t before = self.core.emitted
        self.rows_emitted = 0
        self.check_alive()
        if type(rows) is not list:
            rows = self.listed(rows)
        if message_ids is not None:
            if type(message_ids) is not list:
                message_ids = self.listed(message_ids)      # an item of a range takes long
            if len(message_ids) != len(rows):
                raise self.core.misuse("row_ids", rows=len(rows), ids=len(message_ids))
        at_once = 0 if self.diverts and self.pending.is_on_loop_thread else min(<Py_ssize_t>ROWS_PER_TURN, len(rows))
        try:
            self.core.emit_rows(rows, message_ids, 0, at_once, stream)
        finally:
            self.rows_emitted = <Py_ssize_t>(self.core.emitted - before)
        if len(rows) > at_once:      # copies, because the caller may change its lists as soon as this returns
            ids = repeat(None) if message_ids is None else message_ids[at_once:]
            self.emit_later((<object>self.core).emit, zip(rows[at_once:], ids, repeat(stream)))

    cdef list listed(self, object given):
        if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
            raise self.core.misuse("not_rows", method="emit_many", given=given)
        return list(given)

    def emit_direct(self, int32_t task, values, message_id=None, stream="default"):
        self.check_alive()
        if self.diverts and self.pending.is_on_loop_thread:
            self.emit_later((<object>self.core).emit_direct, ((task, values, message_id, stream),))
        else:
            self.core.emit_direct(task, values, message_id, stream)

    def report_error(self, error):
        self.on_error(error)

    def ready(self):
        return self.on_ready()
