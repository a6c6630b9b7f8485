"""Tuples of a spout task, from the poll to the verdict of their trees.

`run_burst` passes verdicts to the spout's ack and fail, then polls next_tuple. `open_trees` contains the trees that wait for a verdict.
Only a verdict removes a root (ACK-8).

A spout that cannot rewind is told of an ack when the effects of its tree are committed (EO-4). Until then the ack is in `held_acks`, and its
tree stays open. Each ack is held, cut by a PREPARE, and released by its COMMIT.
"""
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE, PyTuple_GetSlice
from libc.stdint cimport int32_t, uint32_t, uint64_t
cimport cython

from _native.ids cimport draw_edge
from _native.row_stamp cimport RowStamp
from _native.queues cimport (ACKED, ACKER_DIED, DROP, FAILED, INIT, OWN_CLOCK, RELEASED, REPLY, SETTLED_AT, Signal, SignalRing,
                             move_signals, send_signal, send_signal_with)
from _native.tables cimport ROOTS_AHEAD, RootSlot, RootTable, find_or_add_root, find_root, prefetch_root, remove_slot
from _native.task cimport (TRACES, WATCHES, Outlet, OutStream, TaskCore, UserMethod, acker_ring, call_none, call_one, check_thread, checked_values,
                           deliver, pick_target, signal_acker)
from _native.timing cimport LatencyHistogram, record_latency
from _native.tuples cimport IS_CONTROL, REPORTS_SETTLE, Tuple, new_tuple

cdef str DEFAULT = "default"
cdef uint64_t NO_LIMIT = <uint64_t>-1
cdef uint64_t HELD_ACK = <uint64_t>1 << 63     # in the `extra` of an open tree, beside the time of its emit: it is acked, and waits for a commit

cdef enum:
    ACKS_PER_LAP = 4096        # acks that a burst spout collects at the begin of a turn
    MOST_TURNS_GIVEN = 64      # turns in a row in which a spout gives way to bolts that are behind
    IDLE_SLOTS = 65536         # a larger table of open trees frees memory when it is nearly empty for IDLE_SECS
    IDLE_SECS = 5              # longer than a checkpoint interval, whose commits empty the table each time


@cython.final
cdef class OpenTrees(RootTable):
    """Message ids of a spout task's open trees, by root."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.slots != NULL:
            for i in range(self.mask + 1):
                if self.slots[i].root:
                    Py_DECREF(<object><PyObject*><size_t>self.slots[i].word)

    def roots(self):
        """Return the root ids, in no order."""
        return [self.slots[i].root for i in range(self.mask + 1) if self.slots[i].root]


cdef inline double emitted_at(RootSlot* slot) noexcept:
    """Return the time of the emit of an open tree, in seconds."""
    cdef uint64_t bits = slot.extra & ~HELD_ACK
    return (<double*>&bits)[0]


cdef inline int emit_one(SpoutCore core, OutStream out, object given, object message_id) except -1:
    """Emit what a spout has given as the values of a tuple."""
    if not core.emits_rarely:
        return emit_now(core, out, checked_values(core, given, out), message_id)
    return emit_rarely(core, out, given, message_id)


cdef int emit_rarely(SpoutCore core, OutStream out, object given, object message_id) except -1:
    """Emit the values of a spout that keeps its rows, or whose rows have times. What is a row of the flow already stays as it is.

    The filter of rows may drop them. The message id of a kept row has the row itself, as the spout has emitted it.
    """
    cdef object row_id = message_id
    cdef object values = given if is_row(out, given) else checked_values(core, given, out)
    if out.only is None and out.direct:
        raise core.misuse("direct_stream", stream=out.origin.stream)
    if core.keeps_rows:
        if core.row_filter is not None and not core.row_filter(plain_values(values), out.origin.stream, message_id):
            return 0
        row_id = (values, out.origin.stream, message_id, core.row_mark)
    if out.stamp is None:
        return emit_now(core, out, <tuple>values, row_id)
    core.emit_stamped(values, message_id, row_id, out)
    if core.held_ids and not core.keeps_rows:
        core.note_again(message_id)
    return 0


cdef inline bint is_row(OutStream out, object given) noexcept:
    """Tell whether values are a row of the flow already, which needs no copy."""
    return out.stamp is not None and type(given) is out.stamp.row_class and PyTuple_GET_SIZE(given) == out.arity


cdef inline object plain_values(object values):
    """Return the values of a row as a plain tuple, for whoever is told of it."""
    return values if type(values) is tuple else PyTuple_GetSlice(values, 0, PyTuple_GET_SIZE(values))


cdef inline object plain_id(SpoutCore core, object message_id):
    """Return the message id of a kept row with plain values."""
    if not core.keeps_rows or type(message_id) is not tuple or type((<tuple>message_id)[0]) is tuple:
        return message_id
    return (plain_values((<tuple>message_id)[0]), *(<tuple>message_id)[1:])


cdef inline int emit_now(SpoutCore core, OutStream out, tuple values, object message_id) except -1:
    """Emit values. The common case (one subscriber that chooses one task) is inlined here."""
    cdef Py_ssize_t target
    cdef Tuple made
    if out.only is None:
        if out.direct:
            raise core.misuse("direct_stream", stream=out.origin.stream)
        return core.emit_to(values, message_id, out, None)
    target = pick_target(core, out.only, values)
    core.emitted += 1
    made = new_tuple(values, out.origin, 0)
    if message_id is None or core.acker_count == 0:
        deliver(core, out.only, target, made)
        return 0 if message_id is None else core.ack_soon(message_id)
    made.root = core.new_root(message_id)
    made.edge = draw_edge(core.ids)
    if core.reports_settle:
        made.flags |= REPORTS_SETTLE
    deliver(core, out.only, target, made)
    return core.open_tree(made.root, made.edge, message_id)


@cython.final
cdef class SpoutCore(TaskCore):
    """The compiled part of a spout's executor. TaskCore describes the arguments that bolts also have.

    A spout has no mailbox. It receives verdicts through a ring.
    """

    def __init__(self, int32_t task_id, *, SignalRing verdicts, Py_ssize_t max_pending=0, acker_failure=None, **common):
        TaskCore.__init__(self, task_id, **common)
        self.open_trees = OpenTrees()
        self.next_root = draw_edge(self.ids)
        self.nearly_empty_since = -1.0
        self.acked_now, self.acked_ids = [], []
        self.flushed_roots = set()
        self.held_acks = SignalRing()
        self.told_kind = ACKED
        self.awaited_acks = 1
        self.acker_failure = acker_failure
        self.verdicts = verdicts
        self.max_pending = max_pending
        self.emit_limit = NO_LIMIT
        self.other_stride, self.other_usual_call = 1, self.usual_call
        self.complete_latency = LatencyHistogram()

    def bind(self, next_tuple, on_ack, on_fail, on_settled=None, *, on_acks=None, bint polls_bursts=False):
        """Serve a new instance. `on_ack` is None if it has no ack method. `on_fail` gets (message_id, failure).

        `on_acks` gets lists of acked message ids, instead of `on_ack`. polls_bursts: `next_tuple` gets the number of tuples that it may emit.
        """
        self.next_tuple, self.on_fail, self.polls_bursts = UserMethod(next_tuple), on_fail, polls_bursts
        self.on_ack = None if on_ack is None else UserMethod(on_ack)
        self.on_acks = None if on_acks is None else UserMethod(on_acks)
        self.acked_ids = []
        self.listen(on_settled)

    def listen(self, on_settled):
        """Report the settle of each receiving task from the next emit on. None stops the reports (task_port.on_settled)."""
        self.on_settled = on_settled
        self.reports_settle = on_settled is not None

    def limit_emits(self, more):
        """Stop the polls after this many more emits. A poll that emits several rows may pass the limit. None: there is no limit."""
        self.emit_limit = NO_LIMIT if more is None else self.emitted + <uint64_t>more

    @property
    def at_limit(self):
        """True if the polls have stopped at the limit."""
        return self.emitted >= self.emit_limit

    # Emits

    cpdef emit(self, object values, object message_id, object stream):
        """Emit for `SpoutCollector`."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else None
        check_thread(self)
        if out is None:
            out = self.stream_of(stream)
        emit_one(self, out, values, message_id)

    cdef int emit_rows(self, list rows, list message_ids, Py_ssize_t begin, Py_ssize_t end, object stream) except -1:
        """Emit the rows from begin to end. `message_ids` has the same length, or is None."""
        cdef OutStream out = self.default_stream if stream is DEFAULT else None
        cdef Py_ssize_t i
        check_thread(self)
        if out is None:
            out = self.stream_of(stream)
        for i in range(begin, end):
            emit_one(self, out, rows[i], None if message_ids is None else message_ids[i])
        return 0

    def emit_direct(self, int32_t task, values, message_id, stream):
        """Emit to one task of each direct subscriber of a stream that is declared direct."""
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        check_thread(self)
        if not out.direct:
            raise self.misuse("not_direct", stream=stream)
        if out.outlets and not any([task in (<Outlet>each).index_of for each in out.outlets]):
            raise self.misuse("direct_target", stream=stream, task=task)
        values = checked_values(self, values, out)
        if self.keeps_rows:
            if self.row_filter is not None and not self.row_filter(values, stream, message_id):
                return
            message_id = (values, stream, message_id, self.row_mark)
        self.emit_to(values, message_id, out, task)

    def emit_again(self, tuple row not None):
        """Emit a row (values, stream, message id, mark) that was emitted before. `row_filter` does not see it."""
        cdef OutStream out = self.stream_of(row[1])
        check_thread(self)
        if out.direct:
            raise self.misuse("direct_stream", stream=row[1])
        if out.stamp is None:
            self.emit_to(checked_values(self, row[0], out), row, out, None)
        else:
            out.stamp.times.comes_again = True
            try:
                self.emit_stamped(checked_values(self, row[0], out), row[2], row, out)
            finally:
                out.stamp.times.comes_again = False
            if self.held_ids:
                self.note_again(row[3])

    # Event time

    def set_stamps(self, dict stamps not None):
        """Let these RowStamps make the rows of their streams, for a new instance."""
        cdef OutStream out
        for name, stamp in stamps.items():
            out = self.stream_of(name)
            out.stamp = <RowStamp?>stamp
        self.has_times = bool(stamps)
        self.emits_rarely = self.keeps_rows or self.has_times

    def keep_rows(self, bint on):
        """Keep each row until its verdict: its message id is (values, stream, message id, row_mark), and each row has a tree."""
        self.keeps_rows = on
        self.emits_rarely = on or self.has_times

    cdef int emit_stamped(self, object values, object message_id, object row_id, OutStream out) except -1:
        """Emit what the stamp makes of a row: nothing, one tuple, or several tuples of one tree. A row that it refuses fails."""
        cdef uint64_t root = 0, edges = 0
        try:
            made = out.stamp.stamp(values, message_id)
        except Exception as error:
            return self.refuse_row(plain_values(values), plain_id(self, row_id), out, error)
        if type(made) is tuple:
            return emit_now(self, out, <tuple>made, row_id)
        if len(made) == 1:
            return emit_now(self, out, <tuple>made[0], row_id)
        chosen = [(row, outlet, target) for row in made for outlet in out.outlets for target in self.choose_targets(outlet, row, None)]
        self.emitted += max(1, len(made))
        if row_id is not None and self.acker_count:
            root = self.new_root(row_id)
        for row, outlet, target in chosen:
            edges ^= self.send_tuple(<Outlet>outlet, target, row, out, root)
        if root != 0:
            return self.open_tree(root, edges, row_id)
        return self.ack_soon(row_id) if row_id is not None else 0

    cdef int note_again(self, object key) except -1:
        """Note the tree of a row that has failed before, because it holds the watermark until its verdict."""
        try:
            held = self.held_ids.get(key)
        except TypeError:      # it cannot be hashed, so it is not there
            return 0
        if held is not None:
            held.root = self.last_root
        return 0

    cdef int refuse_row(self, tuple values, object row_id, OutStream out, object error) except -1:
        """Let a row fail that has no time, or of which no row can be made. It fails as if the first bolt had failed it."""
        cdef uint64_t root
        self.emitted += 1
        failure = self.on_refused(values, row_id, error)
        if row_id is None or failure is None:      # None: it has left on another stream
            return 0
        root = self.new_root(row_id)
        self.add_open(root, row_id)
        return send_signal_with(self.verdicts, FAILED, root, self.task_id, failure, 1)

    def oldest_open(self):
        """Return the time of the emit of the oldest open tree that is not acked. None if there is none."""
        cdef RootSlot* slot = find_root(self.open_trees, self.oldest_root) if self.oldest_root else NULL
        cdef Py_ssize_t i
        if slot == NULL or slot.extra & HELD_ACK:
            slot = NULL
            for i in range(self.open_trees.mask + 1):
                if self.open_trees.slots[i].root and not self.open_trees.slots[i].extra & HELD_ACK:
                    if slot == NULL or self.open_trees.slots[i].extra < slot.extra:      # bits of doubles above 0 have their order
                        slot = &self.open_trees.slots[i]
            self.oldest_root = 0 if slot == NULL else slot.root
        return None if slot == NULL else emitted_at(slot)

    def is_open(self, uint64_t root):
        """Tell whether a tree is open, and not acked."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        return slot != NULL and not slot.extra & HELD_ACK

    cdef int emit_to(self, tuple values, object message_id, OutStream out, object direct_task) except -1:
        """Deliver values to every subscriber of out. With a message id, the tuples are the first of a tree (ACK-1)."""
        cdef Outlet outlet
        cdef uint64_t root = 0, edges = 0
        cdef Py_ssize_t i
        chosen = [self.choose_targets(outlet, values, direct_task) for outlet in out.outlets]     # may raise before anything is sent
        self.emitted += 1
        if message_id is not None and self.acker_count and out.outlets:
            root = self.new_root(message_id)
        for outlet, targets in zip(out.outlets, chosen):
            for i in targets:
                edges ^= self.send_tuple(outlet, i, values, out, root)
        if root != 0:
            self.open_tree(root, edges, message_id)
        elif message_id is not None:
            self.ack_soon(message_id)
        return 0

    cdef uint64_t new_root(self, object message_id) except? 0:
        """Return an id for a new tree. Draw the next one too, so that its slot is in the cache when its tree opens."""
        cdef uint64_t root = self.next_root
        self.last_root = root
        self.next_root = draw_edge(self.ids)
        prefetch_root(self.open_trees, self.next_root)
        if self.rare_paths & (TRACES | WATCHES):
            self.note_opened(root, message_id)
        return root

    cdef int note_opened(self, uint64_t root, object message_id) except -1:
        if self.rare_paths & WATCHES:
            self.watch.note_opened(self.task_id, root, plain_id(self, message_id))     # may set a trace
        if self.rare_paths & TRACES:
            self.trace("opened", (root,), self.task_id)
        return 0

    cdef object choose_targets(self, Outlet outlet, tuple values, object direct_task):
        """Return the targets of one outlet among several, or of an outlet that may choose several."""
        if outlet.picks_one:
            return (pick_target(self, outlet, values),)
        if direct_task is None:
            return self.targets_of(outlet, values)
        return (outlet.index_of[direct_task],) if direct_task in outlet.index_of else ()

    cdef uint64_t send_tuple(self, Outlet outlet, Py_ssize_t target, tuple values, OutStream out, uint64_t root) except? 0:
        """Post one delivery and return its edge. 0 if it belongs to no tree."""
        cdef Tuple made = new_tuple(values, out.origin, 0)
        if root != 0:
            made.root = root
            made.edge = draw_edge(self.ids)
            if self.reports_settle:
                made.flags |= REPORTS_SETTLE
        deliver(self, outlet, target, made)
        return made.edge

    cdef int ack_soon(self, object message_id) except -1:
        """Ack a tree that needs no acker in the next burst. An emit by background work wakes the task for this ack."""
        self.acked_now.append(message_id)
        if not self.in_burst:
            self.verdicts.make_way()
        return 0

    cdef int open_tree(self, uint64_t root, uint64_t edges, object message_id) except -1:
        """Add the tree, and signal its acker. A tree without tuples (a custom grouping chose no task) is done at once."""
        if edges == 0:
            self.ack_soon(message_id)
            return 0
        self.add_open(root, message_id)
        signal_acker(self, INIT, root, edges)
        return 0

    cdef inline int add_open(self, uint64_t root, object message_id) except -1:
        cdef RootSlot* slot = find_or_add_root(self.open_trees, root)
        cdef double at = self.lap_start if self.in_burst else self.now()
        Py_INCREF(message_id)
        slot.word = <uint64_t><size_t><PyObject*>message_id
        slot.extra = (<uint64_t*>&at)[0]
        return 0

    def emit_control(self, values, stream, message_id=None, timeout_secs=None):
        """Send values as a control tuple to every task of every subscriber.

        With a message id, the tuples form a tree with its own timeout.
        """
        cdef OutStream out = self.stream_of(stream)
        cdef Outlet outlet
        cdef Tuple made
        cdef uint64_t root = 0, edges = 0
        cdef Py_ssize_t i
        values = checked_values(self, values, out)
        if message_id is not None and self.acker_count and out.outlets:
            root = self.new_root(message_id)
            if timeout_secs is not None:
                send_signal_with(acker_ring(self, root), OWN_CLOCK, root, self.task_id, timeout_secs)
        elif message_id is not None:
            self.ack_soon(message_id)
        for outlet in out.outlets:
            for i in range(outlet.tasks):
                made = new_tuple(values, out.origin, IS_CONTROL)
                if root != 0:
                    made.root, made.edge = root, draw_edge(self.ids)
                    edges ^= made.edge
                deliver(self, outlet, i, made)
        if root != 0:
            self.open_tree(root, edges, message_id)

    # Bursts

    def run_burst(self, Py_ssize_t limit):
        """Deliver verdicts, then poll, with up to limit calls or 5 ms in all. Return a SpoutOutcome.

        An exception is an error of the spout.
        """
        cdef Py_ssize_t calls = 0, lapped = 0
        cdef SpoutOutcome outcome = POLL_AGAIN
        cdef bint polls = False
        self.returned, self.in_poll = None, False
        self.begin_turn()
        self.in_burst = True
        try:
            if (self.on_acks is not None and self.collect_acks() and self.flush_ids()) or (self.acked_now and self.flush_acked()):
                return AWAITABLE
            while calls < limit:
                if self.verdicts.head != self.verdicts.tail:
                    calls += 1
                    if self.verdicts.tail - self.verdicts.head > ROOTS_AHEAD:
                        prefetch_root(self.open_trees, self.verdicts.ring[(self.verdicts.head + ROOTS_AHEAD) & self.verdicts.mask].root)
                    if self.apply_signal(&self.verdicts.ring[self.verdicts.head & self.verdicts.mask]):
                        outcome = AWAITABLE
                        break
                else:
                    outcome = AWAITABLE if self.on_acks is not None and self.flush_ids() else self.why_not_poll()
                    if outcome == QUIET and self.acked_now:     # an ack has emitted a tuple
                        calls += 1
                        outcome = AWAITABLE if self.flush_acked() else POLL_AGAIN
                    elif outcome == POLL_AGAIN:
                        if not polls:
                            polls = True
                            if self.begin_polls(calls - lapped):
                                lapped = calls
                                break
                            lapped = calls
                        outcome = self.poll(limit - calls)
                        calls += max(1, <Py_ssize_t>(self.emitted - self.emits_seen)) if self.polls_bursts else 1
                    if outcome != POLL_AGAIN:
                        break
                if calls - lapped >= self.stride:
                    if self.end_lap(calls - lapped):
                        lapped = calls
                        break
                    lapped = calls
            if self.on_acks is not None and outcome != AWAITABLE and self.flush_ids():
                outcome = AWAITABLE
        finally:
            if calls > lapped:
                self.end_lap(calls - lapped)
            self.end_burst(outcome, polls)
        return outcome

    cdef int end_burst(self, SpoutOutcome outcome, bint polls) except -1:
        if polls:
            self.swap_strides()
        self.in_burst = False
        if self.verdicts.head == self.verdicts.tail:
            self.verdicts.reset_empty()
        if self.open_trees.mask <= IDLE_SLOTS or self.open_trees.count * 16 >= self.open_trees.mask:
            self.nearly_empty_since = -1.0
        elif self.nearly_empty_since < 0.0:
            self.nearly_empty_since = self.turn_start
        elif self.turn_start - self.nearly_empty_since >= IDLE_SECS:
            self.open_trees.shrink()
        if outcome != GAVE_WAY:
            self.turns_given = 0
        if self.rare_paths & WATCHES:      # once per burst, because a test for each verdict slows all runs
            self.watch.note_burst(self.task_id)
        return 0

    cdef bint begin_polls(self, Py_ssize_t calls) except -1:
        """Switch from verdicts to polls. They take a different time, so end the lap and change strides. True if the turn is over."""
        cdef bint over = self.end_lap(calls) if calls > 0 else False
        self.swap_strides()
        return over

    cdef void swap_strides(self) noexcept:
        self.stride, self.other_stride = self.other_stride, self.stride
        self.usual_call, self.other_usual_call = self.other_usual_call, self.usual_call

    cdef SpoutOutcome why_not_poll(self) noexcept:
        """Return the reason not to poll the spout, or POLL_AGAIN."""
        if not self.polling or (self.max_pending and self.open_trees.count >= self.max_pending) or self.emitted >= self.emit_limit:
            return QUIET
        if self.backpressure.stopped_by:
            return HELD_UP
        if self.backlog.behind and self.turns_given < MOST_TURNS_GIVEN:
            self.turns_given += 1
            return GAVE_WAY
        return POLL_AGAIN

    cdef SpoutOutcome poll(self, Py_ssize_t most) except *:
        """Call next_tuple once. Return AWAITABLE if `returned` must be awaited, NOTHING_NEW if nothing was emitted, else POLL_AGAIN.

        most: number of tuples that a spout may emit if it polls bursts.
        """
        self.executed += 1
        self.emits_seen = self.emitted
        self.in_poll = True
        if self.polls_bursts:
            if self.max_pending:
                most = min(most, self.max_pending - self.open_trees.count)
            if self.emit_limit - self.emitted < <uint64_t>most:
                most = self.emit_limit - self.emitted
            result = call_one(self.next_tuple, self.fitting(most))
        else:
            result = call_none(self.next_tuple)
        if result is not None:
            self.returned = result
            return AWAITABLE
        self.in_poll = False
        if self.acked_now and self.flush_acked():
            return AWAITABLE
        return POLL_AGAIN if self.emitted != self.emits_seen else NOTHING_NEW

    def forget_returned(self):
        """Release the value that a call returned, because the executor has it."""
        self.returned = None

    def note_returned(self):
        """Note that an awaited method has returned. If it was not a poll, count its verdicts as delivered."""
        self.handed_out += 0 if self.in_poll else self.awaited_acks
        self.awaited_acks = 1

    def polled_in_vain(self):
        """True if the awaited call was a poll that emitted nothing."""
        return self.in_poll and self.emitted == self.emits_seen

    cdef int flush_acked(self) except -1:
        """Ack the trees that need no acker, in order (ACK-6). Return 1 if an ack must be awaited.

        After an awaited ack or an error, the next burst continues.
        """
        cdef Py_ssize_t done = 0
        waiting, self.acked_now = self.acked_now, []
        if self.on_acks is not None:
            self.acked += len(waiting)
            self.acked_ids += waiting
            return self.flush_ids()
        try:
            while done < len(waiting):
                done += 1
                self.acked += 1
                if self.on_ack is not None:
                    result = call_one(self.on_ack, waiting[done - 1])
                    if result is not None:
                        self.returned = result
                        return 1
                self.handed_out += 1
        finally:
            if done < len(waiting):
                self.acked_now = waiting[done:] + self.acked_now
        return 0

    cdef int flush_ids(self) except -1:
        """Pass the acked message ids of a burst to on_acks. Return 1 if `returned` must be awaited."""
        cdef Py_ssize_t count = len(self.acked_ids)
        if count == 0:
            return 0
        ids, self.acked_ids = self.acked_ids, []
        result = call_one(self.on_acks, ids)
        if result is not None:
            self.returned, self.in_poll, self.awaited_acks = result, False, count
            return 1
        self.handed_out += count
        return 0

    cdef bint collect_acks(self) except -1:
        """Collect the ids of acked trees for on_acks, up to the first other verdict. False if no id waits."""
        cdef SignalRing ring = self.verdicts
        cdef Py_ssize_t left = ACKS_PER_LAP
        cdef RootSlot* slot
        cdef uint64_t root
        while left > 0 and ring.head != ring.tail and ring.ring[ring.head & ring.mask].kind == self.told_kind:
            prefetch_root(self.open_trees, ring.ring[(ring.head + ROOTS_AHEAD) & ring.mask].root)
            root = ring.ring[ring.head & ring.mask].root
            ring.head += 1
            left -= 1
            slot = find_root(self.open_trees, root)
            if slot != NULL:
                self.acked_ids.append(<object><PyObject*><size_t>slot.word)
                Py_DECREF(<object><PyObject*><size_t>slot.word)
                record_latency(self.complete_latency, self.lap_start - emitted_at(slot))
                remove_slot(self.open_trees, slot)
                self.acked += 1
            elif self.flushed_roots:
                self.flushed_roots.discard(root)
        if left < ACKS_PER_LAP:
            self.end_lap(0)
        return PyList_GET_SIZE(self.acked_ids) > 0

    cdef int apply_signal(self, Signal* verdict) except -1:
        """Pass one signal to the spout. Return 1 if `returned` must be awaited."""
        cdef Signal got = verdict[0]
        cdef double secs
        self.verdicts.head += 1
        if got.kind == self.told_kind:
            message_id = self.close_tree(got.root, True)
            if message_id is not self:
                self.acked += 1
                if self.on_acks is not None:
                    self.acked_ids.append(message_id)
                    return 0
                if self.on_ack is not None:
                    self.returned = call_one(self.on_ack, message_id)
                self.handed_out += self.returned is None
        elif got.kind == ACKED:
            self.hold_ack(got.root)
        elif got.kind == FAILED:
            failure = self.verdicts.objects.popleft()
            message_id = self.close_tree(got.root, False)
            if message_id is not self:
                self.failed += 1
                if self.keeps_rows:
                    self.returned = self.on_fail(plain_id(self, message_id), failure, got.value != 0)
                else:
                    self.returned = self.on_fail(message_id, failure)
                self.handed_out += self.returned is None
        elif got.kind == ACKER_DIED:
            self.fail_trees_of(got.value)
        elif got.kind == SETTLED_AT:
            secs = (<double*>&got.value)[0]
            self.note_settled(got.root, got.task, secs)
        elif got.kind == REPLY:
            self.note_reply(got.root, got.task, self.verdicts.objects.popleft())
        return self.returned is not None

    cdef object close_tree(self, uint64_t root, bint acked):
        """Close an open tree, and return its message id. Return this core if root is not open (a late signal, or a dead instance)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot == NULL:
            if self.flushed_roots:
                self.flushed_roots.discard(root)
            return self
        message_id = <object><PyObject*><size_t>slot.word
        Py_DECREF(message_id)
        if acked:
            record_latency(self.complete_latency, self.lap_start - emitted_at(slot))
        else:
            self.failed_since = emitted_at(slot)
        remove_slot(self.open_trees, slot)
        return message_id

    def note_settled(self, uint64_t root, int32_t task, double at):
        """Report that a bolt task settled its part of an open tree at this time (task_port.on_settled)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot != NULL and self.on_settled is not None:
            self.on_settled(<object><PyObject*><size_t>slot.word, task, at - emitted_at(slot))

    cdef int note_reply(self, uint64_t root, int32_t task, object answer) except -1:
        """Pass on the answer of a bolt task to the control tuple of an open tree (task_port.reply)."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot != NULL and self.on_reply is not None:
            self.on_reply(<object><PyObject*><size_t>slot.word, task, answer)
        return 0

    cdef int fail_trees_of(self, uint64_t acker) except -1:
        """Fail every open tree of an acker that died and lost them (ACK-13)."""
        cdef uint64_t root
        self.flushed_roots = {root for root in self.flushed_roots if root % self.acker_count != acker}
        acked = {held for _, held, _, _ in self.held_acks.waiting()}
        for root in self.open_trees.roots():
            if root % self.acker_count == acker and root not in acked:
                send_signal_with(self.verdicts, FAILED, root, -1, self.acker_failure)
        return 0

    def begin_flush(self):
        """Send a mark through each acker, behind all signals that have been sent. `is_flushing` until all marks are back here."""
        cdef uint64_t root, acker
        self.flushed_roots = set()
        for acker in range(<uint64_t>self.acker_count):
            root = draw_edge(self.ids)
            while root % <uint64_t>self.acker_count != acker:
                root = draw_edge(self.ids)
            self.flushed_roots.add(root)
            signal_acker(self, INIT, root, 0)     # a tree without tuples, of which this core knows nothing: only its verdict comes back

    def take_failures(self):
        """Handle the failures and marks among the waiting verdicts, and leave the acks to the next burst.

        For a spout with `keeps_rows`, whose `on_fail` is the engine's own, because it may run while a call of the spout is awaited.
        """
        cdef SignalRing ring = self.verdicts
        cdef Py_ssize_t at, kept = ring.head
        cdef Signal got
        cdef uint64_t root
        failed, dead = [], []
        for at in range(ring.head, ring.tail):
            got = ring.ring[at & ring.mask]
            if got.kind == FAILED:
                failed.append((got.root, got.value != 0))
            elif got.kind == ACKER_DIED:
                dead.append(got.value)
            elif got.kind != ACKED or got.root not in self.flushed_roots:
                ring.ring[kept & ring.mask] = got
                kept += 1
            else:
                self.flushed_roots.discard(got.root)
        ring.tail = kept
        for root, had_no_effect in failed:
            failure = ring.objects.popleft()
            message_id = self.close_tree(root, False)
            if message_id is not self:
                self.failed += 1
                self.handed_out += 1
                self.on_fail(plain_id(self, message_id), failure, had_no_effect)
        for root in dead:
            self.fail_trees_of(root)
        if dead:
            self.take_failures()     # of the trees that the acker has lost

    @property
    def is_flushing(self):
        return bool(self.flushed_roots)

    # Acks that wait for a commit (EO-4)

    def hold_acks(self, bint on):
        """Hold acks until a commit, or pass them on at once."""
        self.told_kind = RELEASED if on else ACKED

    cdef int hold_ack(self, uint64_t root) except -1:
        cdef RootSlot* slot = find_root(self.open_trees, root)
        if slot != NULL:
            slot.extra |= HELD_ACK
            send_signal(self.held_acks, RELEASED, root, 0, self.task_id)
            if self.on_held is not None:
                self.on_held(<object><PyObject*><size_t>slot.word)
        return 0

    def cut_acks(self):
        """Let all acks that have arrived by now leave with the next `release_acks`. Called before a barrier is sent anywhere.

        Whatever a tree has changed, it changed before its ack, and so before any task freezes its changes for this barrier.
        """
        if self.told_kind == RELEASED:
            self.take_acks(self.held_acks)
            self.cut_count = self.held_acks.tail - self.held_acks.head

    cdef int take_acks(self, SignalRing to) except -1:
        """Move the acks among the waiting verdicts to a ring, or drop them."""
        cdef SignalRing ring = self.verdicts
        cdef Py_ssize_t at, kept = ring.head
        cdef Signal got
        cdef RootSlot* slot
        for at in range(ring.head, ring.tail):
            got = ring.ring[at & ring.mask]
            if got.kind != ACKED:
                ring.ring[kept & ring.mask] = got
                kept += 1
            elif to is not None:
                send_signal(to, RELEASED, got.root, 0, self.task_id)
                if self.has_times:
                    slot = find_root(self.open_trees, got.root)
                    if slot != NULL:
                        slot.extra |= HELD_ACK
        ring.tail = kept
        return 0

    def release_acks(self):
        """Pass on the acks that have been cut, because the checkpoint is committed."""
        move_signals(self.verdicts, self.held_acks, self.cut_count)
        self.cut_count = 0
        if self.held_acks.head == self.held_acks.tail:
            self.held_acks.reset_empty()

    cdef int forget_held(self) except -1:
        self.cut_count = 0
        self.held_acks.clear()
        return 0

    def fail_open_trees(self, reason not None):
        """Fail all trees whose ack is not on its way to the spout, because everything else is rolled back.

        Later signals for these trees have no effect.
        """
        cdef uint64_t root
        cdef SignalRing ring
        if self.told_kind == RELEASED:
            self.take_acks(None)
            self.forget_held()
        acked = {told for kind, told, _, _ in self.verdicts.waiting() if kind == self.told_kind}
        for root in self.open_trees.roots():
            if root not in acked:
                send_signal_with(self.verdicts, FAILED, root, -1, reason)
        for ring in self.ackers:
            send_signal(ring, DROP, 0, 0, self.task_id)

    @property
    def held(self):
        """Number of acks that wait for a commit."""
        return self.held_acks.tail - self.held_acks.head

    def drop_instance(self):
        """Forget the trees of a dead instance here and at the ackers. Return their number.

        Later signals for these trees have no effect (ACK-13).
        """
        cdef SignalRing ring
        dropped = self.open_trees.count
        if self.rare_paths & WATCHES:
            self.watch.note_dropped(self.task_id)
        self.open_trees = OpenTrees()
        self.acked_now, self.acked_ids = [], []
        self.flushed_roots = set()
        self.returned = None
        self.verdicts.clear()
        self.forget_held()
        if not self.closing:     # otherwise the ackers end too
            for ring in self.ackers:
                send_signal(ring, DROP, 0, 0, self.task_id)
        self.next_tuple = self.on_ack = self.on_acks = None
        self.on_fail = self.on_settled = self.on_reply = self.on_held = None
        return dropped

    def set_watch(self, watch):
        """Tell `watch` of each tree that opens, of each burst, and of dropped trees. None stops the calls.

        The methods are note_opened(task, root, message_id), note_burst(task) and note_dropped(task).
        """
        self.watch = watch
        self.rare_paths = self.rare_paths | WATCHES if watch is not None else self.rare_paths & ~<uint32_t>WATCHES

    def message_of(self, uint64_t root):
        """Return the message id of an open tree of this task, None for any other root."""
        cdef RootSlot* slot = find_root(self.open_trees, root)
        return None if slot == NULL else plain_id(self, <object><PyObject*><size_t>slot.word)

    @property
    def pending(self):
        """Number of open trees."""
        return self.open_trees.count

    @property
    def has_acks_to_flush(self):
        return bool(self.acked_now or self.acked_ids)
