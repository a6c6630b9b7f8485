"""Records of a Kafka spout. Tracks the offsets of each partition from fetch to commit, and emits records (KS-2, KS-3)."""
from libc.stdint cimport int64_t

from _native.spout_collector cimport SpoutCollector


cdef enum EntryState:
    WAITING = 0                         # fetched, not emitted yet
    IN_FLIGHT = 1                       # emitted, no verdict yet
    HELD = 2                            # failed, not emitted again yet
    DONE = 3
    STALE = 4                           # in order: in flight, and must be emitted again after an earlier entry


cdef class Entry:
    cdef PartitionOffsets partition
    cdef readonly int64_t offset
    cdef readonly object record         # None once the entry is done
    cdef readonly int failures
    cdef EntryState state


cdef class PartitionOffsets:            # not final, because it is the base of OffsetManager
    cdef public object partition        # a tuple of the topic and the number. None in tests
    cdef list entries                   # in the order of their offsets; None for a done entry that the head has passed
    cdef Py_ssize_t head                # the first entry that is not done
    cdef Py_ssize_t cursor              # the first entry that is not emitted
    cdef readonly int64_t position      # the next offset to fetch
    cdef readonly int64_t passed        # number of entries that the head has passed
    cdef readonly Py_ssize_t in_flight
    cdef readonly Py_ssize_t held
    cdef readonly int64_t skipped       # number of records in the acked set
    cdef readonly bint closed
    cdef readonly bint in_order         # no entry after a failed entry is emitted (KS-11)
    cdef Py_ssize_t stale               # number of STALE entries
    cdef Py_ssize_t room                # in order: number of entries that may be in flight
    cdef object on_quiet                # called when nothing is in flight; None: no caller waits
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


cdef class RoundRobin:                  # not final, because it is the base of Partitions
    cdef list partitions                # the PartitionOffsets, in turn
    cdef Py_ssize_t next_turn, left     # index of the next turn; number of records that the current partition may still emit
    cdef PartitionOffsets current
    cdef public bint suspended          # nothing may be emitted
    cdef object notify_low              # called once, when fewer than `low` records wait; None: not requested
    cdef Py_ssize_t low

    cdef Entry take_next(self)
    cdef int check_waiting(self) except -1
    cdef Py_ssize_t count_waiting(self) except -1


cdef class RecordFeed:
    cdef readonly RoundRobin partitions
    cdef object translate, to_stream    # translate is None for the default values
    cdef object emit                    # of the collector. None: the spout has ended
    cdef SpoutCollector emitter         # the collector, if it is compiled
    cdef object spout                   # KafkaSpout: handles the rare cases
    cdef bint tracked
    cdef bint by_place                  # the message ids are places, because the engine keeps the rows
    cdef public bint has_retries        # failed entries wait for their retry

    cdef bint emit_entry(self, Entry entry) except -1
