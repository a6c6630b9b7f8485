"""Implementation of `RunPort`: requests of tasks and features to the whole run."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import EngineBug, Failure
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.spout_executor import SpoutExecutor

if TYPE_CHECKING:
    from engine.state import Ledger


class LiveRunPort:
    """The run's port. The user's spouts are set once they are made."""

    def __init__(self, ledger_of: "Callable[[str], Ledger] | None" = None) -> None:
        self._ledger_of = ledger_of
        self.spouts: Sequence[SpoutExecutor] = ()
        self.bolts: Sequence[BoltExecutor] = ()
        self.ackers: Sequence[AckerExecutor] = ()
        self._shown: dict[str, dict[int, Callable[[], Any]]] = {}
        self._begin_commit: Callable[[], None] | None = None
        self.take_back: Callable[[Failure, Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
        """The supervisor's `roll_back`, once there is one."""

    def request_commit(self) -> None:
        if self._begin_commit is not None:
            self._begin_commit()

    def on_commit_request(self, begin: Callable[[], None]) -> None:
        self._begin_commit = begin

    def hold_spouts(self, *, on: bool) -> None:
        for spout in self.spouts:
            spout.hold_back(on=on)

    @property
    def is_quiet(self) -> bool:
        return all(bolt.has_settled_all for bolt in self.bolts)

    async def roll_back(self, failure: Failure, before_drop: Callable[[], Awaitable[None]]) -> None:
        if self.take_back is not None:
            await self.take_back(failure, before_drop)

    def acked_by(self, component_id: str | None) -> int:
        return sum(bolt.core.acked for bolt in self.bolts if bolt.info.component_id == component_id)

    def acked(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for bolt in self.bolts:
            component_id = bolt.info.component_id
            counts[component_id] = counts.get(component_id, 0) + bolt.core.acked
        return counts

    def show_in_snapshot(self, entry: str, task_id: int, read: Callable[[], Any]) -> None:
        self._shown.setdefault(entry, {})[task_id] = read

    def shown(self, entry: str) -> tuple[Any, ...]:
        return tuple(read() for _, read in sorted(self._shown.get(entry, {}).items()))

    def ledger(self, name: str) -> "Ledger":
        if self._ledger_of is None:
            raise EngineBug("a ledger was asked for in a run that has no store", name=name)
        return self._ledger_of(name)

    def tell_failures(self) -> None:
        for acker in self.ackers:
            acker.core.tell_failures()

    def cut_acks(self) -> None:
        for spout in self.spouts:
            spout.core.cut_acks()
            if spout.marks is not None:
                spout.marks.cut()

    def release_acks(self) -> None:
        for spout in self.spouts:
            spout.core.release_acks()
            if spout.marks is not None:
                spout.marks.note_committed()

    @property
    def held_acks(self) -> Collection[str]:
        return {spout.info.component_id for spout in self.spouts if spout.core.held}

    @property
    def all_spouts_wait(self) -> bool:
        return bool(self.spouts) and all(spout.waits_for_commit for spout in self.spouts)
