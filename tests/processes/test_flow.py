"""Order, back-pressure and timeouts are as in one process (PR-3)."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import BasicBolt, Config, Topology, TopologyBuilder, Tuple, spout
from engine.runtime.processes.child_process import ChildProcess
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.runtime.processes.process_calls import ProcessCalls
from engine.runtime.processes.progress import Progress
from engine.testing import Capture, Feeder, run_topology
from tests.processes import bolts, late_bolts
from tests.processes.test_deaths import until
from tests.processes.test_instances import Play


@pytest.mark.guarantee("PR-3", "GRP-4")
def test_the_order_of_each_task_stays() -> None:
    assert Play(bolts.Echo, range(20_000)).capture.values == [(number,) for number in range(20_000)]


class Gate(BasicBolt):
    """Processes nothing until a test opens it."""

    opened: asyncio.Event

    async def execute(self, tup: Tuple) -> None:
        await self.opened.wait()


def counting(limit: int = 10**9) -> Any:
    @spout("number")
    def numbers() -> Any:
        yield from ((number,) for number in range(limit))

    return numbers


def fed(bolt: type[Any], **settings: Any) -> tuple[Feeder, Topology]:
    """Return a feeder, and a topology of it and a bolt in a process."""
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(**settings))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolt, processes=True).shuffle_grouping("numbers")
    return feeder, builder.build()


async def stands_still(count: Callable[[], int]) -> None:
    """Wait until a count has not changed for half a second."""
    for _ in range(60):
        before = count()
        await asyncio.sleep(0.5)
        if count() == before:
            return
    raise AssertionError("the count goes on")


class Sleepy(BasicBolt):
    """Takes some time for each input."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)


@pytest.mark.guarantee("PR-3", "BP-2")
def test_virtual_time_goes_on_while_a_child_waits_for_a_full_mailbox() -> None:
    builder = TopologyBuilder("play", Config(executor_receive_buffer_size=2))
    builder.set_spout("numbers", counting(20))
    builder.set_bolt("bolt", bolts.Echo, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("sleepy", Sleepy).shuffle_grouping("bolt")
    finished = run_topology(builder.build())
    assert finished.snapshot.components["numbers"].acked == 20


@pytest.mark.guarantee("PR-3", "BP-2")
def test_a_slow_bolt_behind_a_child_stops_the_child_and_the_spout() -> None:
    Gate.opened = asyncio.Event()
    builder = TopologyBuilder("play", Config(executor_receive_buffer_size=1000))
    builder.set_spout("numbers", counting(30_000))
    builder.set_bolt("bolt", bolts.Echo, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("gate", Gate).shuffle_grouping("bolt")

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await stands_still(lambda: run.snapshot().components["numbers"].emitted)
            emitted = run.snapshot().components["numbers"].emitted
            assert emitted < 1000 + 1000 + 1000 + 1000 + 3 * 256  # mailboxes, the child's emits, and bursts
            assert run.snapshot().components["gate"].tasks[0].waiting <= 1000 + 2048
            Gate.opened.set()
            await run.completed()
            assert run.snapshot().components["gate"].acked == 30_000

    asyncio.run(main())


@pytest.mark.guarantee("PR-3")
def test_at_most_two_bursts_are_in_a_child() -> None:
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", counting(5_000))
    builder.set_bolt("bolt", partial(bolts.Slow, 0.01), processes=True).shuffle_grouping("numbers")

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await until(lambda: run.snapshot().components["bolt"].acked > 3)
            task = run.snapshot().components["bolt"].tasks[0]
            assert task.executed - task.acked <= 2 * 256
            assert task.waiting > 4_000
            await run.stop()

    asyncio.run(main())


@pytest.mark.guarantee("PR-3")
@pytest.mark.parametrize(("burst", "sent"), [(256, [1]), (1, [1] * 20)])  # frames of one row are full if `burst` is 1
def test_inputs_that_come_one_by_one_go_to_a_busy_child_in_one_frame(
    burst: int, sent: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frames: list[int] = []
    send = ChildProcess.send

    def noting(child: ChildProcess, kind: str, *message: Any) -> int:
        if kind == "rows":
            frames.append(sum(len(rows) for _, _, rows in message[1]))
        return send(child, kind, *message)

    monkeypatch.setattr(ChildProcess, "send", noting)
    feeder, gate = Feeder("number"), tmp_path / "open"
    builder = TopologyBuilder("play", Config(burst=burst))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", partial(late_bolts.WaitsForFile, str(gate)), processes=True).shuffle_grouping("numbers")

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            for number in range(20):
                feeder.feed((number,))
                await until(lambda number=number: run.snapshot().components["numbers"].emitted > number)
            assert frames == sent
            gate.touch()
            feeder.close()
            await run.completed()

    asyncio.run(main())
    assert len(feeder.acked) == 20
    assert sum(frames) == 20
    assert len(frames) <= 10 or burst == 1  # the first frames have 4 rows, until their size is known


@pytest.mark.guarantee("PR-3")
def test_the_next_frame_goes_when_all_rows_have_begun_though_none_has_returned() -> None:
    feeder, topology = fed(late_bolts.AcksAllTogether)

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(topology) as run:
            for number in range(20):
                feeder.feed((number,))
                await until(lambda number=number: run.snapshot().components["numbers"].emitted > number)
            feeder.close()
            await run.completed()

    asyncio.run(main())
    assert len(feeder.acked) == 20


@pytest.mark.guarantee("PR-3", "RUN-2")
def test_a_child_without_rows_never_tells_that_it_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Progress] = []
    note_progress = ProcessCalls.note_progress

    def noting(calls: ProcessCalls, progress: Progress) -> None:
        told.append(progress)
        note_progress(calls, progress)

    monkeypatch.setattr(ProcessCalls, "note_progress", noting)
    assert Play(bolts.Echo, range(1)).values == [(0,)]
    assert told[-1].posted == 1
    assert all(progress.is_idle for progress in told if progress.posted == 0)


@pytest.mark.guarantee("PR-3", "RUN-2")
def test_a_child_tells_at_once_that_it_is_idle_behind_emits_of_several_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    receive = ProcessBoltExecutor._receive

    def noting(executor: ProcessBoltExecutor, message: tuple[Any, ...]) -> None:
        receive(executor, message)
        is_idle = message[0] == "work" and executor.calls.in_flight == 0
        messages.append("emits" if message[0] == "work" and message[1] else "idle" if is_idle else message[0])

    def tells_at_once() -> bool:
        messages.clear()
        assert len(Play(late_bolts.Pages, range(1)).values) == 100
        behind = messages[messages.index("emits") :]
        return "alive" not in behind[: behind.index("idle")]

    monkeypatch.setattr(ProcessBoltExecutor, "_receive", noting)
    assert any(tells_at_once() for _ in range(5))  # a sign of life comes every 0.25 s, so a slow machine may have one between


@pytest.mark.deep
@pytest.mark.guarantee("PR-3", "ACK-8")
def test_a_tuple_that_waits_in_a_child_does_not_time_out() -> None:
    builder = TopologyBuilder("play", Config(message_timeout_secs=0.5))
    builder.set_spout("numbers", counting(30))
    builder.set_bolt("bolt", partial(bolts.Slow, 0.1), processes=True).shuffle_grouping("numbers")

    async def main() -> Any:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await run.completed()
            return run.snapshot().components

    components = asyncio.run(main())
    assert (components["numbers"].acked, components["numbers"].failed) == (30, 0)


@pytest.mark.deep
@pytest.mark.guarantee("PR-3", "ACK-8")
def test_tuples_that_wait_before_others_that_cannot_be_loaded_do_not_time_out() -> None:
    feeder, topology = fed(late_bolts.SleepsSecs, message_timeout_secs=1.0)

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(topology) as run:
            for _ in range(8):  # then the frames can have all of the rest
                feeder.feed((0.0,))
            await until(lambda: len(feeder.acked) == 8)
            for secs in (0.1,) * 30 + (bolts.Unreadable(),) * 30:
                feeder.feed((secs,))
            feeder.close()
            await run.completed()

    asyncio.run(main())
    assert len(feeder.acked) == 38
    assert {failure.reason for _, failure in feeder.failed} == {"error"}


@pytest.mark.deep
@pytest.mark.guarantee("PR-3", "ACK-8")
def test_a_call_that_hangs_times_out_also_if_a_tick_waits_behind_it() -> None:
    feeder, topology = fed(late_bolts.HangsWithTicks, message_timeout_secs=0.5)
    feeder.feed((1,))

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(topology) as run:
            await until(lambda: bool(feeder.failed))
            await run.stop()

    asyncio.run(main())
    assert [failure.reason for _, failure in feeder.failed] == ["timeout"]


@pytest.mark.deep
@pytest.mark.guarantee("PR-2", "PR-3")
def test_a_child_whose_calls_suddenly_become_slow_does_not_count_as_hanging() -> None:
    feeder, topology = fed(late_bolts.SleepsSecs, process_timeout_secs=2.5)

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(topology) as run:
            for _ in range(5_000):
                feeder.feed((None,))
            await until(lambda: len(feeder.acked) == 5_000)
            for _ in range(32):
                feeder.feed((0.2,))
            feeder.close()
            await run.completed()

    asyncio.run(main())
    assert (len(feeder.acked), feeder.failed) == (5_032, [])


@pytest.mark.deep
@pytest.mark.guarantee("PR-3", "ACK-15")
def test_a_tuple_whose_call_takes_too_long_times_out_and_names_the_task() -> None:
    failed = []

    class Numbers(engine.Spout):
        output_fields = "number"
        is_over = False

        def next_tuple(self) -> None:
            if self.is_over:
                raise engine.SpoutExhausted
            self.is_over = True
            self.collector.emit((1,), message_id=1)

        def fail(self, message_id: object) -> None:
            assert self.context.failure is not None
            failed.append(self.context.failure)

    builder = TopologyBuilder("play", Config(message_timeout_secs=0.5))
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("bolt", partial(bolts.Slow, 2.5), processes=True).shuffle_grouping("numbers")

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await run.completed()

    asyncio.run(main())
    assert [(failure.reason, failure.component_id, failure.task_id) for failure in failed] == [("timeout", "bolt", 2)]


@pytest.mark.guarantee("PR-3")
def test_the_loop_never_waits_for_a_child() -> None:
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", counting(5))
    builder.set_bolt("bolt", partial(bolts.Slow, 0.2), processes=True).shuffle_grouping("numbers")

    async def main() -> float:
        longest = 0.0
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            over = asyncio.ensure_future(run.completed())
            while not over.done():
                before = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - before)
        return longest

    assert asyncio.run(main()) < 0.15  # a call takes 0.2 s


@pytest.mark.guarantee("PR-3", "CP-1")
def test_a_barrier_waits_for_the_rows_in_a_child() -> None:
    """The counts of a stateful bolt behind a child are exact after a kill of the child."""
    capture = Capture()
    builder = TopologyBuilder("play", Config(state_checkpoint_interval_ms=50))
    builder.set_spout("numbers", counting(3000))
    builder.set_bolt("bolt", bolts.Echo, parallelism=2, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("count", Total).global_grouping("bolt")
    builder.set_bolt("seen", capture).shuffle_grouping("count")

    async def main() -> Any:
        async with asyncio.timeout(60), engine.run(builder.build()) as run:
            await run.completed()
            return run.snapshot()

    snapshot = asyncio.run(main())
    assert capture.values[-1] == (3000,)
    assert snapshot.components["numbers"].acked == 3000


class Total(engine.StatefulBasicBolt):
    output_fields = "total"

    def execute(self, tup: Tuple) -> tuple[int]:
        total = self.state.get("total", 0) + 1
        self.state.put("total", total)
        return (total,)
