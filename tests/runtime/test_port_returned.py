"""The task port: waiting until all calls of taken inputs have returned."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.topology.task_port import BoltPortUser
from tests.runtime.ports import BARRIER, Marks, Notes, marked
from tests.runtime.stage import Numbers, Sink, chain, loop, play_run


class Slow(Notes):
    """Runs several calls of different lengths at once."""

    concurrency = 4
    fails: frozenset[int] = frozenset()

    def prepare(self) -> None:
        super().prepare()
        self.in_flight = 0

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        self.in_flight += 1
        try:
            await asyncio.sleep(1 + tup[0] % 3)
            if tup[0] in self.fails:
                raise ValueError("fails before the barrier")
            self.got.append(tup[0])
            self.collector.ack(tup)
        finally:
            self.in_flight -= 1

    def on_control(self, tup: Tuple) -> None:
        assert self.in_flight == 0, "calls of earlier inputs must have returned"
        super().on_control(tup)


def test_a_control_tuple_waits_for_calls_in_flight_and_is_not_overtaken() -> None:
    diary: dict[int, list[Any]] = {}
    spout = Marks(30)
    topology, _ = marked(spout, first=lambda: Slow(diary))
    play_run(topology)
    for task in (2, 3):
        entries = diary[task]
        for number in (10, 20, 30):
            at = entries.index((BARRIER, number))
            assert all(entry < number for entry in entries[:at] if isinstance(entry, int))
            assert all(entry >= number for entry in entries[at:] if isinstance(entry, int))


@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_an_exception_before_a_control_tuple_is_handled_before_it(on_error: Any) -> None:
    """Given running calls that raise while a control tuple waits, then a dying instance does not get the control tuple."""
    handed: list[Any] = []
    diary: dict[int, list[Any]] = {}

    class Raises(Slow):
        fails = frozenset([8])

        def on_control(self, tup: Tuple) -> None:
            handed.append((tup.values, self.failed_before))
            super().on_control(tup)

        def prepare(self) -> None:
            super().prepare()
            self.failed_before = False

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            try:
                await super().execute(tup)
            except ValueError:
                self.failed_before = True
                raise

    Raises.on_error = on_error
    spout = Marks(10)
    builder = TopologyBuilder("raises")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("raises", lambda: Raises(diary)).shuffle_grouping("source").shuffle_grouping("source", stream="control")
    builder.set_bolt("end", Sink).shuffle_grouping("raises")
    play_run(builder.build())
    assert handed == [((BARRIER, 10), on_error == "fail")]
    assert [barrier[:2] for barrier in spout.barriers] == [("acked", 10)]
    assert 8 in [message_id for what, message_id, _ in spout.verdicts if what == "failed"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_returned_also_works_in_background_work_and_no_tuple_is_taken_meanwhile(concurrency: int) -> None:
    seen: list[tuple[float, int]] = []

    class Background(BoltPortUser, Bolt):
        def prepare(self) -> None:
            self.in_flight = 0
            self.context.create_task(self.pause())

        async def pause(self) -> None:
            await asyncio.sleep(2.5)
            await self.port.returned()
            seen.append((loop().time(), self.in_flight))

        async def execute(self, tup: Tuple) -> None:
            self.in_flight += 1
            await asyncio.sleep(1 + tup[0] % 2)
            self.in_flight -= 1
            self.collector.ack(tup)

    Background.concurrency = concurrency
    spout = Numbers(40)
    run = play_run(chain(lambda: spout, Background))
    assert run.state == "complete"
    ((at, in_flight),) = seen
    assert in_flight == 0
    assert at <= 5
    assert sorted(spout.acked) == list(range(40))
