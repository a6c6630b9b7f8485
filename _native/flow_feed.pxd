"""What a flow-control spout does for every pack and every record: buffer, pack, send, settle, ack (FC-1, FC-6)."""
from _native.flow_consumer cimport AdaptiveFlowConsumer, FlowTasks, Sending


cdef class DonePrefix:
    cdef readonly long long done        # the last number below which nothing is missing, itself included
    cdef readonly object position       # of the record of that number; None before the first
    cdef dict ahead                     # first number -> (last number, its position), of ranges above a gap

    cpdef bint add(self, long long first, long long last, object position) except -1


cdef class Pack:
    cdef readonly long long first       # the number of its first record
    cdef readonly list entries          # (position, record, when it was yielded, bytes) of each
    cdef public int tries               # how often it has failed
    cdef public bint is_done
    cdef public object blame            # against whom its failure is held, until it fails elsewhere too; else None
    cdef list parts                     # the packs that it was split into; else None


cdef class FlowFeed:                    # not final: the base of FlowController
    cdef readonly FlowTasks tasks
    cdef readonly DonePrefix prefix
    cdef readonly long long sent        # the number of the last record that was sent
    cdef public bint is_last            # the source has ended: what is buffered is all there will be
    cdef readonly object buffer         # a deque of entries
    cdef readonly list resends          # a heap of (when it is due, its first number, the pack, the task that had it)
    cdef public double next_stall_look
    cdef bint probed_again              # the last pack for a BUSY task was one that had failed before
    cdef Py_ssize_t pack_records, pack_bytes, max_pending
    cdef Py_ssize_t buffered_bytes
    cdef double pack_secs, pack_age_secs
    cdef readonly double stall_secs
    cdef object size_of

    cdef Py_ssize_t most_records(self, AdaptiveFlowConsumer consumer) except -1
    cdef bint is_turn_of_new(self, AdaptiveFlowConsumer consumer) noexcept
    cdef bint waits_to_fill(self, AdaptiveFlowConsumer consumer, Py_ssize_t most, double now) except -1
    cdef list take_entries(self, Py_ssize_t most)
    cdef bint note_done(self, Pack pack) except -1
    cdef Sending put(self, Pack pack, AdaptiveFlowConsumer consumer, double now)
