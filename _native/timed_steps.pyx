"""Coroutines whose steps are timed: how a component that blocks inside `async def` is noticed.

A step goes from one suspension to the next: it holds the loop. Costs two readings of the clock a step; a generator in Python
that does the same costs as much again as what it watches.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
cimport cython


@cython.final
cdef class StepTimer:
    """Watches coroutines: `await timer(coroutine)` is `await coroutine`, and tells `note(secs)` of each step of at least `limit_secs`."""

    def __init__(self, now, double limit_secs, note):
        self.now, self.limit_secs, self.note = now, limit_secs, note

    def __call__(self, coroutine not None):
        cdef TimedSteps steps = TimedSteps.__new__(TimedSteps)
        steps.coroutine, steps.timer = coroutine, self
        return steps

    cdef int end_step(self, double began) except -1:
        cdef double took = self.now() - began
        if took >= self.limit_secs:
            self.note(took)
        return 0


@cython.final
cdef class TimedSteps:
    """What a StepTimer makes of a coroutine; to be awaited once."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.go_on(None)

    def send(self, value):
        """Go on with value; the coroutine's result comes as StopIteration."""
        return self.go_on(value)

    cdef object go_on(self, object value):
        cdef double began = self.timer.now()
        cdef PyObject* raw = NULL
        cdef PySendResult what
        if self.has_suspended:
            self.timer.resumed_at = began
        try:
            what = PyIter_Send(self.coroutine, value, &raw)
        finally:
            self.timer.end_step(began)
        result = <object>raw
        Py_DECREF(result)
        if what == PYGEN_RETURN:
            raise StopIteration(result)
        self.has_suspended = True
        return result

    def throw(self, *error):
        """Go on with an exception, as a coroutine's own throw()."""
        cdef double began = self.timer.now()
        if self.has_suspended:
            self.timer.resumed_at = began
        try:
            return self.coroutine.throw(*error)
        finally:
            self.timer.end_step(began)

    def close(self):
        """End the coroutine where it is suspended."""
        self.coroutine.close()
