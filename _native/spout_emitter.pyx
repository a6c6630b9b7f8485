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
        self.retired = self.rare = True

    def keep(self, bint on):
        """Have `emit_rarely` take the emits, or no more."""
        self.rare = on or self.retired

    def emit_rarely(self, values, message_id, stream):
        """Emit while `keep` is on, or the instance is gone."""
        raise self.core.misuse("retired")

    def check_alive(self):
        """Raise where the instance is gone."""
        if self.retired:
            raise self.core.misuse("retired")

    def emit(self, values, message_id=None, stream=DEFAULT):
        if self.rare:
            self.emit_rarely(values, message_id, stream)
        else:
            self.core.emit(values, message_id, stream)
