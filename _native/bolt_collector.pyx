# cython: binding=False, embedsignature=True, embedsignature.format=clinic
"""`BoltCollector` is the object through which an instance of a bolt emits and settles: `self.collector`.

Each tuple needs a call of a collector. The interpreter enters a C method directly if the object has exactly the class that defines it. The
method also must not be a `binding` function. So the class is final, and also has the rare methods.
"""
from libc.stdint cimport int32_t
cimport cython

from _native.bolt cimport BoltCore
from _native.task cimport check_thread
from _native.tuples cimport Tuple


@cython.final
cdef class BoltCollector:
    """Collector of one instance of a Bolt or BurstBolt (`engine.api.BoltCollector`).

    `ready()` returns an awaitable, and `report_error(error)` reports an error.
    """

    def __init__(self, BoltCore core not None, *, ready=None, report_error=None):
        self.core, self.on_ready, self.on_error = core, ready, report_error

    def retire(self):
        """From now on ignore settles and raise errors for emits, because the instance has ended."""
        self.retired = True

    def check_alive(self):
        """Raise an error if the instance has ended."""
        if self.retired:
            raise self.core.misuse("retired")

    def emit(self, values, anchors=None, stream="default"):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit(values, anchors, stream)

    def emit_many(self, rows, anchors=None, stream="default"):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit_rows(rows, anchors, stream, False)

    def emit_each(self, values, anchors=None, stream="default"):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit_rows(values, anchors, stream, True)

    def emit_aligned(self, list rows, list anchors, stream="default", bint single_values=False):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit_aligned(rows, anchors, stream, single_values)

    def emit_direct(self, int32_t task, values, anchors=None, stream="default"):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit_direct(task, values, anchors, stream)

    def ack(self, tup):
        if not self.retired:
            if type(tup) is not Tuple:
                raise self.core.misuse("not_a_tuple", method="ack", given=tup)
            check_thread(self.core)
            self.core.ack_tuple(<Tuple>tup)

    def fail(self, tup, error=None):
        if not self.retired:
            if type(tup) is not Tuple:
                raise self.core.misuse("not_a_tuple", method="fail", given=tup)
            check_thread(self.core)
            self.core.fail_tuple(<Tuple>tup, self.core.failed_reason if error is None else self.core.failed_reason.because(error))

    def reset_timeout(self, tup):
        if not self.retired:
            if type(tup) is not Tuple:
                raise self.core.misuse("not_a_tuple", method="reset_timeout", given=tup)
            self.core.reset_timeout(<Tuple>tup)

    def report_error(self, error):
        self.on_error(error)

    def ready(self):
        return self.on_ready()
