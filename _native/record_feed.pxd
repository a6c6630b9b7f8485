"""From the windows of a spout's partitions to emitted tuples."""
from _native.offset_window cimport Entry, OffsetWindow


cdef class Rotation:                    # not final: the base of Partitions
    cdef list order                     # the windows, each in its turn
    cdef Py_ssize_t next_turn, left     # whose turn is next; how many records the current one may still emit
    cdef OffsetWindow current
    cdef public bint suspended          # nothing may be emitted
    cdef object tell_low                # called once, when fewer than `low` records wait; None: nobody asked
    cdef Py_ssize_t low

    cdef Entry take_next(self)
    cdef int look_how_many_wait(self) except -1
    cdef Py_ssize_t count_waiting(self) except -1


cdef class RecordFeed:
    cdef readonly Rotation rotation
    cdef object translate, to_stream
    cdef object emit                    # the collector's
    cdef object host                    # what is rare: KafkaSpout
    cdef bint tracked
    cdef public bint has_retries        # failed entries wait for their time

    cdef bint emit_entry(self, Entry entry) except -1
