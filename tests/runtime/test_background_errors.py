"""An instance whose background work raised is replaced, even if a call waits for that work (SV-3)."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Config, Fields, Spout, SpoutExhausted, Tuple
from engine.testing import Capture
from tests.runtime.stage import Numbers, chain, play_run

pytestmark = pytest.mark.guarantee("SV-3")


def test_a_spout_that_waits_for_its_failed_reader_is_replaced_at_once() -> None:
    made: list[Any] = []

    class Reads(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            made.append(self)
            self.rows: asyncio.Queue[int] = asyncio.Queue()
            self.context.create_task(self.read())

        async def read(self) -> None:
            if len(made) == 1:
                raise OSError("the connection broke")
            for number in range(3):
                self.rows.put_nowait(number)

        async def next_tuple(self) -> None:  # type: ignore[override]
            row = await self.rows.get()
            self.collector.emit((row,))
            if row == 2:
                raise SpoutExhausted

    sink = Capture()
    run = play_run(chain(Reads, sink), limit_secs=100)
    assert run.state == "complete"
    assert len(made) == 2
    assert sink.field(0) == [0, 1, 2]


def test_a_call_that_waits_for_failed_background_work_is_cancelled_after_the_message_timeout() -> None:
    made: list[Any] = []

    class Flushes(Bolt):
        def prepare(self) -> None:
            made.append(self)
            self.flushed = asyncio.get_running_loop().create_future()
            self.context.create_task(self.flush())

        async def flush(self) -> None:
            await asyncio.sleep(1)
            if len(made) == 1:
                raise OSError("the connection broke")
            self.flushed.set_result(None)

        async def execute(self, tup: Tuple) -> None:
            await self.flushed
            self.collector.ack(tup)

    spout = Numbers(3, replays=True)
    run = play_run(chain(lambda: spout, Flushes), Config(message_timeout_secs=20), limit_secs=200)
    assert run.state == "complete"
    assert len(made) == 2
    assert sorted(spout.acked) == [0, 1, 2]
