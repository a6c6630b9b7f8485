"""Time that tasks and user code take. Has a histogram of latencies, and a timer for the steps of coroutines."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef enum:
    BUCKETS = 640
    DOUBLINGS = 28          # edges of `doublings`

cdef class LatencyHistogram:            # of seconds; each doubling has 16 buckets, from a microsecond to hours
    cdef uint64_t buckets[BUCKETS]
    cdef readonly uint64_t count
    cdef readonly double total, largest


cdef extern from *:
    """
    static inline int highest_bit(unsigned long long bits) {
    #if defined(__GNUC__)
        return 63 - __builtin_clzll(bits);
    #else
        int at = 0;
        while (bits >>= 1) at++;
        return at;
    #endif
    }
    """
    int highest_bit(unsigned long long bits) noexcept


cdef inline int bucket_of(double secs) noexcept:
    """Return the bucket of secs, from 0 to less than 2**63 microseconds."""
    cdef uint64_t us = <uint64_t>(secs * 1e6)
    cdef int doubling, at
    if us < 32:
        return <int>us
    doubling = highest_bit(us) - 4
    at = doubling * 16 + <int>(us >> doubling)
    return at if at < BUCKETS else BUCKETS - 1


cdef inline void record_latency(LatencyHistogram histogram, double secs) noexcept:
    if not secs > 0:                  # the clock went back
        secs = 0
    histogram.buckets[bucket_of(secs)] += 1
    histogram.count += 1
    histogram.total += secs
    if secs > histogram.largest:
        histogram.largest = secs


cdef class StepTimer:
    cdef object now, note            # () -> seconds; (seconds) -> None
    cdef double limit_secs
    cdef readonly double resumed_at  # when a suspended coroutine last continued
    cdef readonly double total_secs  # of all steps

    cdef int end_step(self, double began) except -1

cdef class TimedSteps:
    cdef object coroutine
    cdef StepTimer timer
    cdef bint has_suspended

    cdef object run_step(self, object value)


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT

    PySendResult PyIter_Send(object iterator, object value, PyObject** result) except PYGEN_ERROR
