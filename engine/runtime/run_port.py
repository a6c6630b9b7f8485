"""The working `RunPort`: what a task may ask of the whole run."""

from collections.abc import Callable, Mapping, Sequence

from engine.errors import EngineBug
from engine.flow.status import FlowSnapshot
from engine.runtime.spout_executor import SpoutExecutor
from engine.state import Ledger
from engine.topology.task_port import SpoutStatus


class ClusterRunPort:
    """The run's port; the user's spouts are named once they are made."""

    def __init__(self, ledger_of: Callable[[str], Ledger] | None = None) -> None:
        self._ledger_of = ledger_of
        self.spouts: Sequence[SpoutExecutor] = ()
        self._flows: dict[int, Callable[[], FlowSnapshot]] = {}
        self._begin_checkpoint: Callable[[], None] | None = None

    def request_checkpoint(self) -> None:
        if self._begin_checkpoint is not None:
            self._begin_checkpoint()

    def on_checkpoint_request(self, begin: Callable[[], None]) -> None:
        self._begin_checkpoint = begin

    def hold_spouts(self, *, on: bool) -> None:
        for spout in self.spouts:
            spout.hold_back(on=on)

    def show_flow(self, task_id: int, read: Callable[[], FlowSnapshot]) -> None:
        self._flows[task_id] = read

    def flow(self) -> tuple[FlowSnapshot, ...]:
        """How the flow of each spout task that has one stands, by their ids ascending; of one that is closed, how it stood."""
        return tuple(read() for _, read in sorted(self._flows.items()))

    def ledger(self, name: str) -> Ledger:
        if self._ledger_of is None:
            raise EngineBug("a ledger was asked for in a run that has no store", name=name)
        return self._ledger_of(name)

    def spout_status(self) -> Mapping[int, SpoutStatus]:
        return {spout.info.task_id: spout.status for spout in self.spouts}
