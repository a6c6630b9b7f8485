"""What an instance of a bolt holds in its hands."""
from _native.bolt_core cimport BoltCore

cdef class BoltEmitter:
    cdef BoltCore core
    cdef readonly bint retired       # its instance is gone: settles are ignored, emits are errors
