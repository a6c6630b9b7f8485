"""Time that tasks and user code take.

`LatencyHistogram` takes 5 KB and allocates nothing per value. `StepTimer` finds components that block the loop inside `async def`. A step
is the time from one suspension of a coroutine to the next, in which it blocks the loop. A step costs two readings of the clock. The same
timer as a Python generator would double the cost of the coroutine.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.string cimport memset
cimport cython


@cython.final
cdef class LatencyHistogram:
    """Counts of seconds in buckets. They are exact below 32 microseconds, within 1/16 above, and reach about 100 days.

    `record_latency` adds a value from Cython, `add` from Python.
    """

    def add(self, double secs):
        record_latency(self, secs)

    def percentile(self, double percent):
        """Return the percentile `percent` (0 to 100) in seconds, rounded up to the bound of its bucket. None if empty."""
        cdef double wanted = self.count * percent / 100.0
        cdef unsigned long long seen = 0
        cdef int i
        if self.count == 0:
            return None
        for i in range(BUCKETS):
            seen += self.buckets[i]
            if self.buckets[i] and seen >= wanted:
                return min(upper_bound(i), self.largest)
        return self.largest

    def mean(self):
        """Return the mean in seconds, None if the histogram is empty."""
        return self.total / self.count if self.count else None

    def counts(self):
        """Return (upper bound in seconds, number of values) of each bucket that is not empty, ascending."""
        return [(upper_bound(i), self.buckets[i]) for i in range(BUCKETS) if self.buckets[i]]

    def doublings(self):
        """Return the number of values below 1, 2, 4, … 2**27 microseconds (134 s), cumulated."""
        cdef int edge, i = 0
        cdef uint64_t seen = 0
        found = []
        for edge in range(DOUBLINGS):
            while i < BUCKETS and i < first_at(edge):
                seen += self.buckets[i]
                i += 1
            found.append(seen)
        return tuple(found)

    def merge(self, LatencyHistogram other not None):
        """Add the values of another histogram."""
        cdef int i
        for i in range(BUCKETS):
            self.buckets[i] += other.buckets[i]
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def clear(self):
        memset(self.buckets, 0, sizeof(self.buckets))
        self.count, self.total, self.largest = 0, 0.0, 0.0


cdef int first_at(int edge) noexcept:
    """Return the bucket that begins at 2**edge microseconds."""
    return 1 << edge if edge < 5 else (edge - 3) * 16


cdef double upper_bound(int bucket):
    """Return the least value in seconds beyond the bucket."""
    if bucket < 32:
        return (bucket + 1) * 1e-6
    cdef int doubling = bucket // 16 - 1
    return (bucket - doubling * 16 + 1) * <double>(1 << doubling if doubling < 31 else 2.0 ** doubling) * 1e-6


@cython.final
cdef class StepTimer:
    """Times coroutines: `await timer(coroutine)` is `await coroutine`, and calls `note(secs)` for each step of `limit_secs` or more.

    A coroutine that raises GeneratorExit is not closed by anybody. So its error becomes a RuntimeError, as PEP 479 does for StopIteration.
    """

    def __init__(self, now, double limit_secs, note):
        self.now, self.limit_secs, self.note = now, limit_secs, note

    def __call__(self, coroutine not None):
        cdef TimedSteps steps = TimedSteps.__new__(TimedSteps)
        steps.coroutine, steps.timer = coroutine, self
        return steps

    cdef int end_step(self, double began) except -1:
        cdef double took = self.now() - began
        self.total_secs += took
        if took >= self.limit_secs:
            self.note(took)
        return 0


@cython.final
cdef class TimedSteps:
    """Awaitable of a StepTimer around one coroutine. May be awaited once."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.run_step(None)

    def send(self, value):
        """Resume with a value. Raises StopIteration with the coroutine's result."""
        return self.run_step(value)

    cdef object run_step(self, object value):
        cdef double began = self.timer.now()
        cdef PyObject* raw = NULL
        cdef PySendResult what
        if self.has_suspended:
            self.timer.resumed_at = began
        try:
            what = PyIter_Send(self.coroutine, value, &raw)
        except GeneratorExit as error:      # not a close(), which does not come here
            raise RuntimeError("the call raised GeneratorExit") from error
        finally:
            self.timer.end_step(began)
        result = <object>raw
        Py_DECREF(result)
        if what == PYGEN_RETURN:
            raise StopIteration(result)
        self.has_suspended = True
        return result

    def throw(self, *error):
        """Resume with an exception, like a coroutine's own throw()."""
        cdef double began = self.timer.now()
        if self.has_suspended:
            self.timer.resumed_at = began
        try:
            return self.coroutine.throw(*error)
        except GeneratorExit as raised:
            raise RuntimeError("the call raised GeneratorExit") from raised
        finally:
            self.timer.end_step(began)

    def close(self):
        """End the coroutine at its suspension."""
        self.coroutine.close()
