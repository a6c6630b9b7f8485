"""How long a coroutine holds the loop between two suspensions."""
from cpython.object cimport PyObject

cdef class StepTimer:
    cdef object now, note            # () -> seconds; (seconds) -> None
    cdef double limit_secs
    cdef readonly double resumed_at  # when the loop last went on with one that had suspended

    cdef int end_step(self, double began) except -1

cdef class TimedSteps:
    cdef object coroutine
    cdef StepTimer timer
    cdef bint has_suspended

    cdef object go_on(self, object value)


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT

    PySendResult PyIter_Send(object iterator, object value, PyObject** result) except PYGEN_ERROR
