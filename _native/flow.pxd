"""The compiled part of flow control. It has the windows of bolt tasks, the choice of a task, packs, and the done prefix (FC-1 to FC-6)."""
from libc.stdint cimport int32_t

from _native.timing cimport LatencyHistogram


cdef enum FlowState:
    NORMAL = 0                          # the last ack arrived within the threshold
    SLOW = 1                            # the last ack took longer than the threshold
    BUSY = 2                            # the task failed a pack or stalled, and has acked nothing since


cdef class PackDelivery:
    cdef readonly TaskWindow window     # of the task that gets the pack
    cdef readonly object pack
    cdef readonly double sent_at
    cdef readonly Py_ssize_t record_count
    cdef readonly bint is_outstanding   # the window counts the delivery as in flight
    cdef readonly bint was_called_back  # the pack was queued for another task; this task may still process it
    cdef public object payload          # the `Records` for the bolt, in which the bolt marks a failed record; None in tests without a bolt
    cdef bint filled_window             # the window was full when it was sent


cdef class TaskWindow:
    cdef readonly int32_t task_id
    cdef readonly Py_ssize_t size, max_size     # packs that may be in flight
    cdef readonly Py_ssize_t concurrency        # packs that the task processes at the same time
    cdef readonly Py_ssize_t in_flight, in_flight_records
    cdef readonly Py_ssize_t last_records       # records in the newest pack that was sent
    cdef readonly Py_ssize_t acked_packs, acked_records, resends
    cdef readonly Py_ssize_t failures_since_ack # revoked penalties included
    cdef readonly double head_began     # when the task began its oldest pack, as far as the sender knows
    cdef readonly double paused_until   # a BUSY task gets no pack before this time
    cdef readonly LatencyHistogram service
    cdef FlowState code
    cdef double fixed_threshold, pack_secs
    cdef double record_secs, pack_service   # smoothed service times; 0 before the first ack
    cdef double last_ack
    cdef Py_ssize_t growth_acks         # acks that count towards growing the window by one
    cdef readonly Py_ssize_t streak     # number of the current failure streak; an ack or a stall ends a streak
    cdef int streak_failures            # failures of the current streak, revoked penalties excluded
    cdef Py_ssize_t index               # index among the windows of the chooser
    cdef dict outstanding               # deliveries in flight, the oldest first; a dict used as an ordered set

    cpdef double expected_wait(self, double now) noexcept
    cpdef Py_ssize_t records_in(self, double secs) noexcept
    cpdef bint has_room(self, double now) noexcept
    cpdef PackDelivery open_delivery(self, object pack, Py_ssize_t record_count, double now)
    cdef bint take_ack(self, PackDelivery delivery, double now) except -1
    cdef bint take_back(self, PackDelivery delivery, double now) except -1
    cdef double threshold(self) noexcept
    cdef void shrink(self) noexcept


cdef class TaskChooser:
    cdef readonly tuple windows
    cdef Py_ssize_t turn
    cdef bint by_turns

    cdef void advance_turn(self, TaskWindow window) noexcept
    cpdef double next_probe(self, double now) noexcept
    cdef double next_stall(self, double now, double stall_secs, double next_check) noexcept
    cpdef TaskWindow choose(self, double now, TaskWindow other_than=*)


cdef class DonePrefix:
    cdef readonly long long done        # number of the last record of the prefix
    cdef readonly object position       # of that record; None before the first
    cdef dict ahead                     # ranges above a gap: first number -> (last number, position of the last)

    cpdef bint mark_done(self, long long first, long long last, object position) except -1


cdef class Pack:
    cdef readonly long long first       # number of its first record
    cdef readonly list entries          # one (position, record, when it was yielded, bytes) for each record
    cdef public int tries               # number of failures of the pack
    cdef public bint is_done
    cdef public object penalty          # of the task where the pack failed last; None if no task is blamed
    cdef list parts                     # the packs into which it was split; None if it was not split


cdef class FlowFeed:                    # not final, because it is the base of FlowController
    cdef readonly TaskChooser chooser
    cdef readonly DonePrefix prefix
    cdef readonly long long sent_records    # also the number of the last sent record
    cdef public bint source_ended       # the buffer contains the last records of the source
    cdef readonly object buffer         # a deque of entries that were never sent
    cdef readonly list resend_queue     # a heap of (due time, first number, pack, window of the previous task)
    cdef public double next_stall_check
    cdef public object goes_alone       # tells of a position whether its record is sent alone; None: no record is
    cdef bint probed_with_resend        # the last pack that was sent to a BUSY task had failed before
    cdef Py_ssize_t pack_records, pack_bytes, max_pending
    cdef Py_ssize_t buffered_bytes
    cdef double pack_secs, pack_age_secs
    cdef readonly double stall_secs
    cdef object size_of

    cdef Py_ssize_t most_records(self, TaskWindow window) except -1
    cdef bint is_turn_of_new(self, TaskWindow window) noexcept
    cdef bint waits_to_fill(self, TaskWindow window, Py_ssize_t most, double now) except -1
    cdef list take_entries(self, Py_ssize_t most)
    cdef bint mark_pack_done(self, Pack pack) except -1
    cdef PackDelivery put_pack(self, Pack pack, TaskWindow window, double now)
