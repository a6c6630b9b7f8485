"""One bolt task as its sender sees it (FC-2 to FC-5): the window, the state, the service time; and the choice among several."""
from libc.stdint cimport int32_t

from _native.histogram cimport LatencyHistogram


cdef enum FlowState:
    NORMAL = 0                          # acks within the threshold
    SLOW = 1                            # the last ack was over it
    BUSY = 2                            # it failed something, or stood still, and has acked nothing since


cdef class Sending:
    cdef readonly AdaptiveFlowConsumer consumer
    cdef readonly object pack
    cdef readonly double sent_at
    cdef readonly Py_ssize_t records
    cdef readonly bint is_outstanding   # at the task, as far as its consumer knows
    cdef readonly bint was_called_back  # its pack was sent again, though the task may still do it
    cdef public object contents         # what the bolt gets, and says by which of its records it stands; None where nobody asks
    cdef bint filled                    # the window was full with it


cdef class AdaptiveFlowConsumer:
    cdef readonly int32_t task_id
    cdef readonly Py_ssize_t window, max_window
    cdef readonly Py_ssize_t width       # packs that it works on at once
    cdef readonly Py_ssize_t in_flight, in_flight_records
    cdef readonly Py_ssize_t last_records   # of the last pack that was sent to it
    cdef readonly Py_ssize_t settled_packs, settled_records, resends
    cdef readonly Py_ssize_t failed_since_ack   # whoever's doing it was
    cdef readonly double head_began     # since when its oldest pack is worked on, as far as can be known
    cdef readonly double paused_until   # of a BUSY one: no pack before
    cdef readonly LatencyHistogram service
    cdef FlowState code
    cdef double fixed_threshold, pack_secs
    cdef double record_secs, pack_service   # smoothed; 0 before the first ack
    cdef double last_settle
    cdef Py_ssize_t credit              # acks that count towards the next place of the window
    cdef readonly Py_ssize_t row        # which row of failures it is in, counted; an ack ends one
    cdef int failures                   # in this row, without those that were excused
    cdef Py_ssize_t place               # among the tasks to choose from
    cdef dict there                     # the sendings that are at the task, the oldest first

    cdef double wait(self, double now) noexcept
    cdef Py_ssize_t records_in(self, double secs) noexcept
    cpdef Sending send(self, object pack, Py_ssize_t records, double now)
    cdef bint settle(self, Sending sending, double now) except -1
    cdef bint has_room(self, double now) noexcept
    cdef bint take_back(self, Sending sending, double now) except -1
    cdef double threshold(self) noexcept
    cdef void shrink(self) noexcept


cdef class FlowTasks:
    cdef readonly tuple consumers
    cdef Py_ssize_t turn
    cdef bint by_turns

    cdef void went_to(self, AdaptiveFlowConsumer consumer) noexcept
    cdef double probe_after(self, double now) noexcept
    cdef double stall_after(self, double now, double stall_secs, double look) noexcept
    cpdef AdaptiveFlowConsumer choose(self, double now, AdaptiveFlowConsumer other_than=*)
