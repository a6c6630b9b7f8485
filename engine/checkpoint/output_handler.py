"""Barrier handler of a bolt that works on whole intervals, such as a committer (EO-9).

At the PREPARE it stages the output of the interval, and at the COMMIT it publishes this output, until it succeeds.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from engine.api import TaskContext
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.barrier_handler import DurableBarrierHandler, Write
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.given_up import GivenUpRow
from engine.checkpoint.staged_output import StagedTask
from engine.errors import ERROR, FatalError
from engine.topology.interval_output import IntervalOutput, RefusedRow
from engine.topology.task_port import BoltPort

IS_BEHIND: Final = (
    "The state provider has lost what it had acknowledged, or was deleted, or another topology of this name has written to the target. "
    "Restore the newest copy of the state. To begin anew, empty the target and delete the state, then let the target forget: "
    "python -m engine committers forget FILE.py. Or begin with another target."
)
FORGETS: Final = (
    "memory:// forgets at the end of each process what the target has. Set state_provider to a durable store, such as sqlite:///out.db. "
    "To begin anew, empty the target, and let it forget: python -m engine committers forget FILE.py. Or begin with another target."
)
LACKS_SOME: Final = (
    "If the target was restored, restore its newest copy. If the topology has run without this committer, begin with another target, which "
    "will have what comes from now on. Nothing was changed."
)


class OutputHandler(DurableBarrierHandler):
    """Handles the barriers of a bolt that works on whole intervals, such as a committer (EO-9)."""

    _bolt: IntervalOutput

    def __init__(
        self, checkpoints: Checkpoints, bolt: IntervalOutput, context: TaskContext, port: BoltPort, sources: frozenset[int]
    ) -> None:
        super().__init__(checkpoints, bolt, context, port, sources)
        self._outputs = checkpoints.outputs.get(context.component_id)
        """The staged output of the component. None if it is no committer, and stages nothing."""

    @property
    def has_work(self) -> bool:
        """True while the task has rows that no checkpoint has committed."""
        return self._bolt.has_rows

    async def _freeze(self, barrier: Barrier) -> Write:
        context, outputs = self._context, self._outputs
        staged: list[Sequence[bytes] | None] = []

        async def stage() -> None:
            staged.append(await self._bolt.stage())

        await self._call_hook(stage)
        self._bolt.begin_interval(barrier.txid + 1, barrier.round + 2)  # the COMMIT of this checkpoint has a round of its own
        [blobs] = staged
        output = None if blobs is None else StagedTask(barrier.txid, barrier.round, context.task_index, context.tasks, blobs)

        async def write() -> tuple[int, int]:
            if output is not None and outputs is not None:
                await self._checkpoints.patiently(lambda: outputs.stage(output))
            return 0, sum(map(len, blobs or ()))

        return write

    async def _commit_frozen(self, txid: int) -> None:
        if self._outputs is None:
            return
        for output in self._outputs.unpublished(self._context.task_index, txid):
            self._note_repeating(self._checkpoints.publish_deaths.suspicion)
            await self._repeat(partial(self._publish, output.task_index), f"publish({txid})")
            await self._checkpoints.patiently(partial(self._outputs.drop, output))

    async def _publish(self, task_index: int) -> None:
        """Publish an output. Rows that its target refuses become dead letters first, so that the rest can be published."""
        component_id = self._context.component_id
        refused: Sequence[RefusedRow] = ()

        async def publish() -> None:
            nonlocal refused
            refused = await self._bolt.publish(output)

        while True:
            output = await self._checkpoints.output_to_publish(component_id, task_index)
            async with self._checkpoints.publish_deaths.under_way():
                await self._call_hook(publish)
            if not refused:
                return
            self._checkpoints.leave_out(component_id, output, {row.number: self._given_up(row) for row in refused})
            self._port.note_given_up(len(refused))

    def _given_up(self, row: RefusedRow) -> GivenUpRow:
        return GivenUpRow(row.source, (row.values, row.stream, None), self._failure(ERROR, row.error), 1)

    async def _restore(self, committing: int | None) -> None:
        record, outputs = self._checkpoints.machine.record, self._outputs
        if committing is not None:
            await self._commit_frozen(committing)
        if outputs is not None and not outputs.is_compared(self._context.task_index):
            is_published = committing is None or not outputs.was_staged
            compare = partial(self._compare_txids, record.decided_txid, is_published=is_published)
            await self._repeat(compare, "the comparison of txids")
            outputs.note_compared(self._context.task_index)
        self._bolt.begin_interval(record.decided_txid + 1, record.round + 1)

    async def _compare_txids(self, decided_txid: int, *, is_published: bool) -> None:
        """Raise FatalError if the target has a later txid than the record, or lacks some that it will not do without (EO-9).

        is_published: False while other tasks may still publish the decided txid.
        """
        published = await self._bolt.published()
        if published is None:
            return
        newest, where = published.newest_txid, f"committer {self._context.component_id!r}: its target has the output of checkpoint"
        if newest > decided_txid:
            what = "nothing" if decided_txid < 0 else f"checkpoint {decided_txid}"
            hint = FORGETS if self._context.config.state_provider.startswith("memory:") else IS_BEHIND
            raise FatalError(f"{where} {newest}, but the state provider has committed {what}", hint=hint)
        if 0 <= newest < decided_txid - (not is_published) and published.refuses_gaps:
            raise FatalError(f"{where} {newest}, and lacks what was committed since, up to checkpoint {decided_txid}", hint=LACKS_SOME)
