"""Tuples of batches at one task. The task counts arriving tuples, passes them to the bolt, and counts sent tuples (TX-5)."""
from libc.stdint cimport int32_t, uint64_t

from _native.bolt cimport BoltCore
from _native.task cimport OutStream, SentCounts, UserMethod
from _native.tuples cimport Tuple

cdef class TaskBatch:
    cdef readonly object attempt     # the TransactionAttempt, which is the first value of every tuple of the batch
    cdef BatchFeed feed
    cdef UserMethod method           # the execute of the bolt's instance for this attempt
    cdef SentCounts sent             # to each target
    cdef uint64_t* received          # from each source
    cdef public bint dead            # failed: further tuples are dropped
    cdef public bint over            # nothing more may be emitted
    cdef public object waiting       # tuples that wait for an awaited call, oldest first; None: no call is awaited
    cdef public list tuples          # acked tuples that wait for a burst; None: tuples are executed one by one
    cdef object fields               # of `tuples`
    cdef object execute_many
    cdef object settler              # of the bursts
    cdef public Py_ssize_t burst_rows   # maximum length of `tuples`

cdef class BatchFeed:
    cdef readonly BoltCore core
    cdef object runner               # handles the rare cases: BatchRunner, or EmitterRunner
    cdef readonly dict batches       # attempt -> TaskBatch, of open attempts
    cdef readonly TaskBatch current  # of the last tuple
    cdef readonly TaskBatch calling  # of the execute that runs now
    cdef int32_t first_source
    cdef Py_ssize_t sources          # number of ids from the lowest source task to the highest
    cdef bint emits_results          # of a BasicBolt: emit the values that execute returns or yields

    cdef TaskBatch batch_of(self, object attempt)
    cdef int handle_tuple(self, TaskBatch batch, Tuple tup) except -1
    cdef int call(self, TaskBatch batch, Tuple tup) except -1
    cdef int gather(self, TaskBatch batch, Tuple tup) except -1
    cdef int ack_taken(self, Tuple tup) except -1
    cdef int call_many(self, TaskBatch batch) except -1
    cdef int emit_result(self, TaskBatch batch, Tuple tup, object result) except -1
    cdef int emit_values(self, TaskBatch batch, object values, object stream) except -1
    cdef tuple with_attempt(self, TaskBatch batch, object values, OutStream out)

cdef class BatchEmitter:             # not final, because it is the base of the runners' collectors
    cdef readonly BatchFeed feed
    cdef readonly TaskBatch batch

    cdef object checked(self, object rows, str method)

cdef class DigestingEmitter(BatchEmitter):
    cdef readonly uint64_t emitted
    cdef uint64_t hashes
    cdef bint digests

    cdef int add_to_digest(self, object values) except -1
