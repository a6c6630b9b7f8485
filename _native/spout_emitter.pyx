"""What an instance of a spout holds in its hands: emit."""
from _native.spout_core cimport SpoutCore

cdef str DEFAULT = "default"


# Not final: the executor's SpoutCollector adds to it what is rare enough for Python.
cdef class SpoutEmitter:
    """What an instance of a spout emits through: base of the executor's SpoutCollector. One per instance."""

    def __init__(self, SpoutCore core):
        self.core = core

    def retire(self):
        """The instance is gone: its emits are errors from now on."""
        self.retired = True

    def check_alive(self):
        """Raise where the instance is gone."""
        if self.retired:
            raise self.core.misuse("retired")

    def emit(self, values, message_id=None, stream=DEFAULT):
        if self.retired:
            raise self.core.misuse("retired")
        self.core.emit(values, message_id, stream)
