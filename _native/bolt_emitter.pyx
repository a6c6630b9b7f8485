"""What an instance of a bolt holds in its hands: emit, ack, fail, reset_timeout."""
from _native.bolt_core cimport BoltCore
from _native.task_core cimport check_thread
from _native.tuples cimport Tuple

cdef str DEFAULT = "default"


# Not final: the executor's BoltCollector adds to it what is rare enough for Python.
cdef class BoltEmitter:
    """What an instance of a bolt emits and settles through: base of the executor's BoltCollector. One per instance."""

    def __init__(self, BoltCore core):
        self.core = core

    def retire(self):
        """The instance is gone: its settles are ignored from now on, its emits are errors."""
        self.retired = True

    def check_alive(self):
        """Raise where the instance is gone."""
        if self.retired:
            raise self.core.misuse("retired")

    def emit(self, values, anchors=None, stream=DEFAULT):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit(values, anchors, stream)

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
