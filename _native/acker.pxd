"""An acker. `AckLedger` has one slot for each open tree. `AckerCore` applies signals to the ledger and sends verdicts (ACK-2 to ACK-4)."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from _native.aging cimport AgingTable
from _native.queues cimport Signal, SignalRing
from _native.tables cimport RootSlot

cdef enum Verdict:
    TREE_OPEN = 0
    TREE_ACKED = 1
    TREE_FAILED = 2

cdef class AckLedger(AgingTable):        # a slot: XOR of the tree's unsettled edges; its spout task, flags and generation
    cdef readonly bint from_progress     # acks restart the timeout (False: only init and reset restart it)
    cdef uint64_t own_clock              # not 0: the tree of the last signal has its own deadline
    cdef frozenset exact                 # spout tasks whose failed trees get their verdict when all their tuples are settled (EO-6)
    cdef readonly bint had_no_effect     # the tree of the last TREE_FAILED is settled, and none of its tuples has had an effect

    cdef Verdict apply_init(self, uint64_t root, uint64_t value, int32_t task) except? TREE_FAILED
    cdef Verdict apply_exact_ack(self, uint64_t root, uint64_t value, uint64_t effect) except? TREE_FAILED
    cdef Verdict apply_fail(self, uint64_t root, uint64_t value) except? TREE_FAILED
    cdef Verdict open_failed(self, RootSlot* slot) except? TREE_FAILED
    cdef Verdict close_failed(self, RootSlot* slot) noexcept
    cdef int mark_effect(self, uint64_t root) except -1
    cdef void mark_all(self) noexcept
    cdef void apply_reset(self, uint64_t root) noexcept

cdef class AckerCore:
    cdef readonly int32_t task_id
    cdef readonly AckLedger ledger
    cdef readonly SignalRing inbox
    cdef list spouts                 # task id -> the SignalRing of that spout task, or None
    cdef Py_ssize_t spout_count
    cdef frozenset exact             # as in the ledger
    cdef dict early_failures         # root -> Failure of a tree that has no verdict: it came before the init, or tuples are unsettled
    cdef bytearray effects_of        # task id -> 1 if a tuple that the task settles may have had an effect
    cdef uint8_t* effects            # the same
    cdef uint32_t effect_tasks       # its length; 0 in a run without exact spouts
    cdef dict own_clocks             # root -> [timeout in secs, deadline, spout task]
    cdef object now
    cdef readonly uint64_t executed, acked, failed
    cdef readonly double busy_secs
    cdef readonly uint64_t rotations

    cdef int apply_exact_ack(self, Signal* got) except -1
    cdef int apply_signal(self, Signal* got) except -1
    cdef int send_acked(self, uint64_t root) except -1
    cpdef fail_tree(self, uint64_t root, int32_t task, failure)
    cdef int send_failed(self, uint64_t root, object failure) except -1
    cdef int send_verdict(self, Verdict verdict, uint64_t root, object failure) except -1
    cdef int restart_own_clock(self, uint64_t root) except -1
