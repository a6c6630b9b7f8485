from collections.abc import Callable
from typing import Literal, final

from _native.aging import AgingTable
from _native.queues import SignalRing

@final
class AckLedger(AgingTable):
    """Open trees of one acker. `timeout_from` is "progress" or "emit". Its methods with Python signatures are for tests."""

    def __init__(
        self,
        *,
        timeout_from: Literal["progress", "emit"] = "progress",
        timeouts: bool = True,
        exact: frozenset[int] = ...,
        least_slots: int | None = None,
    ) -> None:
        """exact: spout tasks whose failed trees get their verdict when all their tuples are settled (EO-6)."""
    @property
    def from_progress(self) -> bool: ...
    def on_init(self, root: int, value: int, task: int) -> Literal["open", "acked", "failed"]: ...
    def on_ack(self, root: int, value: int) -> Literal["open", "acked", "failed"]: ...
    def on_fail(self, root: int, value: int = 0) -> Literal["open", "acked", "failed"]: ...
    def on_effect(self, root: int) -> None: ...
    @property
    def had_no_effect(self) -> bool:
        """True if the last tree that failed was settled, and none of its tuples had had an effect."""

    def on_reset(self, root: int) -> None: ...
    def on_drop_task(self, task: int) -> int: ...
    def set_own_clock(self, root: int) -> None:
        """Exempt root from rotations, because the root has its own deadline (barriers, batches)."""

    def __contains__(self, root: int, /) -> bool: ...
    @property
    def last_task(self) -> int:
        """The spout task of the last verdict."""

@final
class AckerCore:
    """The compiled part of an acker's executor. `spouts` maps the task id of a spout to its ring of verdicts."""

    def __init__(
        self,
        task_id: int,
        inbox: SignalRing,
        spouts: dict[int, SignalRing],
        now: Callable[[], float],
        *,
        timeout_from: Literal["progress", "emit"] = "progress",
        timeouts: bool = True,
    ) -> None: ...
    def set_exact(self, exact: frozenset[int], effects: bytearray) -> None:
        """Set the exact spouts of the run, before its first signal.

        exact: task ids of the spouts whose failed rows may be retried alone (EO-6). effects: has a byte for each task id.
        """

    def begin(self, *, timeout_from: Literal["progress", "emit"] = "progress", timeouts: bool = True) -> None:
        """Start with an empty ledger. After the death of the actor, all of its trees are lost."""

    def run_burst(self) -> bool:
        """Apply signals for at most 5 ms. True if more signals wait."""

    def sweep(self) -> list[tuple[int, int]]:
        """Sweep one slice of the ledger for expired trees. Return (root, spout task) of each expired tree that has a spout task."""

    def overdue(self) -> list[tuple[int, int]]:
        """Close the trees whose own deadline has passed. Return (root, spout task) of each tree."""

    def tell_failures(self) -> None:
        """Fail the trees of which a tuple has failed, although others are not settled."""

    def note_effects(self) -> None:
        """Note that all open trees may have had an effect, because a task has emitted without an anchor."""

    def fail_tree(self, root: int, task: int, failure: object) -> None:
        """Send the failure of an expired tree that was removed from the ledger."""

    @property
    def next_deadline(self) -> float | None:
        """Earliest deadline of a tree with its own deadline, in seconds of the run's clock. None if there is no such tree."""

    @property
    def task_id(self) -> int: ...
    @property
    def ledger(self) -> AckLedger: ...
    @property
    def inbox(self) -> SignalRing: ...
    @property
    def executed(self) -> int: ...
    @property
    def acked(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def busy_secs(self) -> float: ...
    @property
    def rotations(self) -> int: ...
