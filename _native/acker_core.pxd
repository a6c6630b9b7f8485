"""An acker's burst: signals in, verdicts out."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint64_t

from _native.ack_ledger cimport AckLedger, Verdict
from _native.mailbox cimport Signal, SignalRing

cdef class AckerCore:
    cdef readonly int32_t task_id
    cdef readonly AckLedger ledger
    cdef readonly SignalRing inbox
    cdef list spouts                 # task id -> the SignalRing of that spout task, or None
    cdef dict parked_failures        # root -> Failure that came before its init
    cdef dict own_clocks             # root -> [timeout in secs, deadline]
    cdef object now
    cdef readonly uint64_t executed, acked, failed
    cdef readonly double busy_secs
    cdef readonly uint64_t rotations

    cdef int take(self, Signal* got) except -1
    cdef int tell(self, Verdict verdict, uint64_t root, object failure) except -1
    cdef int progress(self, uint64_t root) except -1
