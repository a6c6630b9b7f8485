"""The working `RunPort`: what a task may ask of the whole run."""

from collections.abc import Callable, Mapping, Sequence

from engine.executor.spout_executor import SpoutExecutor
from engine.topology.task_port import SpoutStatus


class ClusterRunPort:
    """The run's port; the user's spouts are named once they are made."""

    def __init__(self) -> None:
        self.spouts: Sequence[SpoutExecutor] = ()
        self._begin_checkpoint: Callable[[], None] | None = None

    def request_checkpoint(self) -> None:
        if self._begin_checkpoint is not None:
            self._begin_checkpoint()

    def on_checkpoint_request(self, begin: Callable[[], None]) -> None:
        self._begin_checkpoint = begin

    def hold_spouts(self, *, on: bool) -> None:
        for spout in self.spouts:
            spout.hold_back(on=on)

    def spout_status(self) -> Mapping[int, SpoutStatus]:
        return {spout.place.task_id: spout.status for spout in self.spouts}
