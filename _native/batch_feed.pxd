"""A batch's tuples at one task: counted as they come, handed to the bolt, counted as they are sent (TX-5)."""
from libc.stdint cimport int32_t, uint64_t

from _native.bolt_core cimport BoltCore
from _native.dispatch cimport OutStream, SentCounts
from _native.method cimport Method
from _native.tuples cimport Tuple

cdef class BatchPart:
    cdef readonly object attempt     # the TransactionAttempt: the first value of every tuple of it
    cdef BatchFeed feed
    cdef Method method               # the execute of the bolt's instance for this attempt
    cdef SentCounts sent             # to each target
    cdef uint64_t* received          # from each source
    cdef public bint dead            # failed: what still comes is dropped
    cdef public bint over            # nothing more may be emitted
    cdef public object waiting       # tuples that wait behind a call that is awaited, oldest first; None: none is
    cdef public list rows            # values that wait for a burst of them; None: each tuple is executed by itself
    cdef object row_fields           # of what is in `rows`
    cdef object execute_many
    cdef Py_ssize_t burst_rows       # at most in `rows`

cdef class BatchFeed:
    cdef readonly BoltCore core
    cdef object host                 # what is rare: BatchHost
    cdef readonly dict parts         # attempt -> BatchPart, of those that live
    cdef readonly BatchPart current  # whose tuple came last
    cdef readonly BatchPart calling  # whose execute runs just now
    cdef int32_t first_source
    cdef Py_ssize_t sources          # from the lowest task id to the highest
    cdef bint emits_results          # of a BasicBolt: what execute returns or yields is emitted

    cdef BatchPart part_of(self, object attempt)
    cdef int take(self, BatchPart part, Tuple tup) except -1
    cdef int call(self, BatchPart part, Tuple tup) except -1
    cdef int gather(self, BatchPart part, Tuple tup) except -1
    cdef int call_many(self, BatchPart part) except -1
    cdef int emit_result(self, BatchPart part, Tuple tup, object result) except -1
    cdef int emit_values(self, BatchPart part, object values, object stream) except -1
    cdef tuple with_attempt(self, BatchPart part, object values, OutStream out)

cdef class BatchEmitter:
    cdef readonly BatchFeed feed
    cdef readonly BatchPart part

cdef class DigestingEmitter(BatchEmitter):
    cdef readonly uint64_t emitted
    cdef uint64_t hashes
    cdef bint digests

    cdef int digest(self, object values) except -1
