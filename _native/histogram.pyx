"""Latencies in buckets: exact below 32 microseconds, within 1/16 above, up to about 19 hours; 5 KB, no allocation per value."""
from libc.string cimport memset
cimport cython


@cython.final
cdef class LatencyHistogram:
    """Counts seconds; `record` from Cython, `add` from Python."""

    def add(self, double secs):
        record(self, secs)

    def percentile(self, double percent):
        """The value in seconds below which percent (0 to 100) of the values lie, to the upper bound of its bucket; None when empty."""
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
        """The mean in seconds; None when empty."""
        return self.total / self.count if self.count else None

    def counts(self):
        """(upper bound in seconds, values in the bucket) of each bucket that is not empty, ascending."""
        return [(upper_bound(i), self.buckets[i]) for i in range(BUCKETS) if self.buckets[i]]

    def merge(self, LatencyHistogram other not None):
        """Add the values of other."""
        cdef int i
        for i in range(BUCKETS):
            self.buckets[i] += other.buckets[i]
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)

    def clear(self):
        memset(self.buckets, 0, sizeof(self.buckets))
        self.count, self.total, self.largest = 0, 0.0, 0.0


cdef double upper_bound(int bucket):
    """The least value in seconds that lies beyond the bucket."""
    if bucket < 32:
        return (bucket + 1) * 1e-6
    cdef int doubling = bucket // 16 - 1
    return (bucket - doubling * 16 + 1) * <double>(1 << doubling if doubling < 31 else 2.0 ** doubling) * 1e-6
