"""Records of a Kafka spout: offsets of each partition between fetch and commit, and emits (KS-2, KS-3)."""
from libc.stdint cimport int64_t


cdef enum EntryState:
    WAITING = 0                         # fetched, not emitted yet
    IN_FLIGHT = 1                       # emitted, no verdict yet
    HELD = 2                            # failed, not emitted again yet
    DONE = 3
    STALE = 4                           # in order: in flight, and to be emitted again behind an earlier entry


cdef class Entry:
    cdef PartitionOffsets partition
    cdef readonly int64_t offset
    cdef readonly object record         # None once the entry is done
    cdef readonly int failures
    cdef EntryState state


cdef class PartitionOffsets:            # not final: the base of OffsetManager
    cdef list entries                   # in the order of their offsets; None for a done entry that the head has passed
    cdef Py_ssize_t head                # the first entry that is not done
    cdef Py_ssize_t cursor              # the first entry that is not emitted
    cdef readonly int64_t position      # the next offset to fetch
    cdef readonly int64_t passed        # number of entries that the head has passed
    cdef readonly Py_ssize_t in_flight
    cdef readonly Py_ssize_t held
    cdef readonly int64_t skipped       # records in the acked set
    cdef readonly bint closed
    cdef readonly bint in_order         # nothing is emitted past a failed entry (KS-11)
    cdef Py_ssize_t stale               # number of STALE entries
    cdef Py_ssize_t room                # in order: number of entries that may be in flight
    cdef object on_quiet                # called when nothing is in flight; None: nobody waits
    cdef list skips                     # the acked set: start, stop, start, stop, ...
    cdef Py_ssize_t skips_seen

    cdef bint is_skipped(self, int64_t offset)
    cdef Entry take_next(self)
    cdef bint is_stopped(self)
    cdef Py_ssize_t index_of(self, Entry entry) except -1
    cdef int rewind(self, Entry entry) except -1
    cdef int settle_entry(self, Entry entry) except -1
    cdef bint is_superseded(self, Entry entry) except -1
    cdef int pass_done(self) except -1
    cdef int leave_flight(self) except -1


cdef class RoundRobin:                  # not final: the base of Partitions
    cdef list partitions                # the PartitionOffsets, in turn
    cdef Py_ssize_t next_turn, left     # index of the next turn; number of records that the current partition may still emit
    cdef PartitionOffsets current
    cdef public bint suspended          # nothing may be emitted
    cdef object notify_low              # called once, when fewer than `low` records wait; None: nobody asked
    cdef Py_ssize_t low

    cdef Entry take_next(self)
    cdef int check_waiting(self) except -1
    cdef Py_ssize_t count_waiting(self) except -1


cdef class RecordFeed:
    cdef readonly RoundRobin partitions
    cdef object translate, to_stream
    cdef object emit                    # of the collector
    cdef object spout                   # KafkaSpout: handles the rare cases
    cdef bint tracked
    cdef public bint has_retries        # failed entries wait for their time

    cdef bint emit_entry(self, Entry entry) except -1
