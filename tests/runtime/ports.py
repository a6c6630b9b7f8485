"""Components that use the task port as checkpoints do."""

from typing import Any

from engine import Bolt, Failure, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.topology.task_port import BoltPortUser, SpoutPortUser
from tests.runtime.stage import loop

BARRIER = "barrier"


class Marks(SpoutPortUser, Spout):
    """Emits numbers, and after each tenth one a control tuple to all subscribers."""

    output_fields = {"default": Fields("number"), "control": Fields("what", "number")}

    def __init__(self, count: int, *, timeout_secs: float | None = None, tracked: bool = True) -> None:
        self.count, self.timeout_secs, self.tracked = count, timeout_secs, tracked
        self.number = 0
        self.verdicts: list[tuple[str, Any, float]] = []
        self.failures: list[Failure] = []

    def next_tuple(self) -> None:
        if self.number >= self.count:
            raise SpoutExhausted
        self.collector.emit((self.number,), self.number)
        self.number += 1
        if self.number % 10 == 0:
            message_id = (BARRIER, self.number) if self.tracked else None
            self.port.emit_control((BARRIER, self.number), message_id, "control", timeout_secs=self.timeout_secs)

    def ack(self, message_id: Any) -> None:
        self.verdicts.append(("acked", message_id, loop().time()))

    def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        self.failures.append(self.context.failure)
        self.verdicts.append(("failed", message_id, loop().time()))

    @property
    def barriers(self) -> list[tuple[str, int, float]]:
        """Return the verdicts of control tuples: acked or failed, number, time."""
        return [(what, message_id[1], at) for what, message_id, at in self.verdicts if isinstance(message_id, tuple)]


class Notes(BoltPortUser, Bolt):
    """Records its inputs in order, and forwards control tuples."""

    output_fields = {"default": Fields("number"), "control": Fields("what", "number")}

    def __init__(self, diary: dict[int, list[Any]] | None = None) -> None:
        self.diary = diary if diary is not None else {}

    def prepare(self) -> None:
        self.got = self.diary.setdefault(self.context.task_id, [])

    def execute(self, tup: Tuple) -> None:
        self.got.append(tup[0])
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)

    def on_control(self, tup: Tuple) -> None:
        self.got.append(tup.values)
        self.port.emit_control(tup.values, tup, "control")
        self.port.settle_control(tup)


def marked(spout: Marks, **bolts: Any) -> Any:
    """Build spout → first (2 tasks, by fields) → second (2 tasks). Both bolts subscribe to the control stream of their source."""
    diary: dict[int, list[Any]] = {}
    builder = TopologyBuilder("marked")
    builder.set_spout("source", lambda: spout)
    first = bolts.get("first", lambda: Notes(diary))
    second = bolts.get("second", lambda: Notes(diary))
    builder.set_bolt("first", first, parallelism=2).fields_grouping("source", "number").shuffle_grouping("source", stream="control")
    builder.set_bolt("second", second, parallelism=2).global_grouping("first").fields_grouping("first", "what", stream="control")
    return builder.build(), diary
