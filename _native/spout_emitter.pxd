"""What an instance of a spout holds in its hands."""
from _native.spout_core cimport SpoutCore

cdef class SpoutEmitter:
    cdef SpoutCore core
    cdef readonly bint retired       # its instance is gone: emits are errors
    cdef bint rare                   # emits go to emit_rarely
