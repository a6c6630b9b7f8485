"""Judges a simulated run: each root has one verdict, and no tuple and no object is left."""

import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from engine import Run
from engine.names import POOL_NAME
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.testing import ACKER, Finished, KillTask
from tests.simulation.child_kills import children_left
from tests.simulation.plan import Plan
from tests.simulation.world import World

Close = Callable[[], Coroutine[Any, Any, None]]
ENDED = ("complete", "drained")
"""Final states of a run in which nothing was in flight when it closed."""


class Judge:
    """Watches one run from its start, and judges it after its end."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._older_threads = set(threading.enumerate())
        self.world = world
        self.plan = plan
        self.ticked = {bolt.component_id for bolt in plan.bolts if bolt.tick_secs is not None}
        self.may_keep = {bolt.component_id for bolt in plan.bolts if bolt.kind in ("plain", "async") and (bolt.hold or bolt.keep)}
        """Bolts that keep tuples on purpose. Nobody can look into those in processes."""
        self.run: Run | None = None
        self.left_at_close: list[str] = []
        self.references: list[weakref.ref[Any]] = []

    def watch(self, run: Run) -> None:
        """Inspect each actor just before it closes, because then it drops its tuples."""
        self.run = run
        assembly = run._assembly
        assert assembly is not None
        self.references = [weakref.ref(thing) for thing in (run, *assembly.tasks, *assembly.ackers)]
        for spout in assembly.spouts:
            spout.close = self.inspect_before(spout.close, self.left_at_spout, spout)  # type: ignore[method-assign]
        for bolt in assembly.bolts:
            bolt.close = self.inspect_before(bolt.close, self.left_at_bolt, bolt)  # type: ignore[method-assign]

    def inspect_before(self, close: Close, look: Callable[[Any], None], executor: Any) -> Close:
        """Return a `close` that inspects its executor first."""

        async def closed() -> None:
            look(executor)
            await close()

        return closed

    def left_at_spout(self, spout: Any) -> None:
        """Check that no tree is open. A spout that died and is not yet replaced has none (ACK-13)."""
        book = self.world.books.get((spout.info.component_id, spout.info.task_index))
        if spout.component is None and book is not None:
            book.open.clear()
        if spout.core.pending or spout.core.has_acks_to_flush:
            self.left_at_close.append(f"spout task {spout.info.task_id}: {spout.core.pending} trees are open at its close")

    def left_at_bolt(self, bolt: Any) -> None:
        """Check that no tuple waits or is in a call. Only bolts that keep tuples on purpose may have some."""
        kept = {*self.world.kept, *(tup for instance in self.world.living() for tup in getattr(instance, "held", ()))}
        in_flight = bolt.calls.in_flight
        if isinstance(bolt, ProcessBoltExecutor):
            kept.update(bolt.calls.taken.values() if bolt.info.component_id in self.may_keep else ())
            in_flight = 0 if bolt.info.component_id in self.ticked else in_flight  # the child may be in a tick
        left = [tup for tup in bolt.core.taken_tuples() if tup not in kept]
        tuples = [tup for tup in bolt.core.mailbox.waiting() if not tup.is_tick]  # a tick may come at the last moment
        waiting = len(tuples) + len(bolt.core.held_tuples) + in_flight
        if left or waiting:
            self.left_at_close.append(f"bolt task {bolt.info.task_id}: {len(left)} taken up ({left[:3]}), {waiting} waiting at its close")

    def judge(self, finished: Finished | None) -> None:
        """Check a run that came to rest: each root has its verdict, and books, mailboxes and ledgers are empty."""
        if self.run is None or finished is None or finished.state not in ENDED:
            return
        for text in self.left_at_close:
            self.world.add_violation(text)
        for key, book in self.world.books.items():
            if book.open:
                some = f"{list(book.open)[:5]}, {len(book.open)} in all"
                self.world.add_violation(f"{key}: no verdict for {some}, though the run is {finished.state}")
            if book.left and finished.state == "complete":
                self.world.add_violation(f"{key}: {len(book.left)} numbers were never emitted, though the run is complete")
        self.judge_ledgers(self.run, finished)

    def judge_ledgers(self, run: Run, finished: Finished) -> None:
        """Check that no open tree is left in a ledger."""
        if any(isinstance(strike.fault, KillTask) and strike.fault.component_id == ACKER for strike in finished.strikes):
            return  # trees that were opened before their spout heard of the acker's death have failed, and may be left here
        assembly = run._assembly
        assert assembly is not None
        for acker in assembly.ackers:
            trees = sum(acker.core.ledger.on_drop_task(spout.info.task_id) for spout in assembly.spouts)
            if trees:
                self.world.add_violation(f"acker {acker.info.task_index}: {trees} open trees are left")

    def judge_children(self) -> None:
        """Check that no child outlives its run."""
        if left := children_left(self.plan.name):
            self.world.add_violation(f"these children outlive the run: {left}")

    def judge_memory(self) -> None:
        """Check that all components, all actors and the run are garbage. Cycles may need a second collection."""
        self.run = None
        self.world.kept.clear()
        references = (*self.world.instances, *self.references)
        for thread in set(threading.enumerate()) - self._older_threads:
            if thread.name.startswith(POOL_NAME):  # a thread of a pool that is shut down holds its last call until it has ended
                thread.join(5)
        for _ in range(2):
            gc.collect()
            alive = [thing for reference in references if (thing := reference()) is not None]
            if not alive:
                return
        self.world.add_violation(f"{len(alive)} objects outlive the run: {alive[:3]}")
