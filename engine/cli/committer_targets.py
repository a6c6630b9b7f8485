"""Asks the targets of a topology's committers for their newest checkpoint, or lets them forget it (EO-11).

A committer needs the context of a task. So this is a run of its own, without sources, whose bolts have the ids of the committers.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from engine.api import Bolt, Spout, SpoutExhausted, Tuple
from engine.config import Config
from engine.errors import EngineError, UsageError
from engine.raised import raised_text
from engine.runtime.run import run as start_run
from engine.state import codec_named
from engine.topology import ComponentSpec, Topology, TopologyBuilder
from engine.topology.spec import AT_CHECKPOINTS, COMMITTER
from engine.transactional.interval import TaskOfBefore
from engine.transactional.interval_bolt import IntervalBolt

Answer = int | None | EngineError
"""Newest checkpoint of a target, -1 before the first. None: the target does not tell. An error: it could not be asked."""


def committers_of(topology: Topology) -> list[ComponentSpec]:
    """Return the committers of a topology without batches."""
    return [spec for spec in topology.bolts if spec.marks.issuperset((COMMITTER, AT_CHECKPOINTS))]


async def ask_targets(topology_name: str, specs: Sequence[ComponentSpec], config: Config, *, forget: bool = False) -> dict[str, Answer]:
    """Return the answer of each target, by component id. forget: let it forget first."""
    answers: dict[str, Answer] = {}
    builder = TopologyBuilder(topology_name)
    source = f"no {' '.join(spec.component_id for spec in specs)}"  # the id of no committer
    builder.set_spout(source, NoRows)
    for spec in specs:
        builder.set_bolt(spec.component_id, partial(TargetBolt, spec, answers, forget=forget)).shuffle_grouping(source)
    async with start_run(builder.build(), Config(state_timeout_secs=config.state_timeout_secs)) as run:
        await run.completed()
    return answers


class NoRows(Spout):
    """Emits nothing."""

    output_fields = "nothing"

    def next_tuple(self) -> None:
        raise SpoutExhausted


class TargetBolt(Bolt):
    """Asks the target of one committer, when it is prepared."""

    def __init__(self, spec: ComponentSpec, answers: dict[str, Answer], *, forget: bool) -> None:
        self._spec, self._answers, self._forgets = spec, answers, forget

    async def prepare(self) -> None:
        committer: Any = IntervalBolt(self._spec, codec_named("msgpack"), commits=True, may_count_with_failures=False)
        committer.context = TaskOfBefore(self.context, 0, self._spec.parallelism)
        committer.collector = self.collector
        committer.prepare()
        try:
            if self._forgets:
                await committer.forget()
            published = await committer.published()
            self._answers[self._spec.component_id] = None if published is None else published.newest_txid
        except EngineError as error:
            self._answers[self._spec.component_id] = error
        except Exception as error:  # noqa: BLE001 - a committer of the user, and the command shows it
            text = f"committer {self._spec.component_id!r}: its target cannot be asked: {raised_text(error)}"
            self._answers[self._spec.component_id] = UsageError(text, hint="Correct published_txid() or forget() of its class.")
        finally:
            await committer.cleanup()

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)
