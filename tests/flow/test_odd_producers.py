"""Unusual producers: no record is lost, and no position passes an unfinished record (FC-1, FC-6)."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine import (
    ComponentError,
    Config,
    FailTuple,
    Failure,
    FlowControlBolt,
    FlowControlSpout,
    FlowProducer,
    FlowSettings,
    SpoutExhausted,
    UsageError,
    run,
)
from engine.flow.controller import FlowController
from engine.flow.record_reader import record_reader
from engine.runtime.run import Run
from tests.flow.flow_topologies import AsyncNumbers, Numbers, Work, records, run_flow, topology

POISON = 7


class Poisoned(Work):
    """Never ends one of the records."""

    async def process(self, record: int) -> None:
        if record == POISON:
            raise FailTuple
        await super().process(record)


class OneList(FlowProducer):
    """Uses one list as the position and changes it; it also changes the list that it gets as `after`."""

    def records(self, after: Any) -> Any:
        return self.changing(after)

    def changing(self, after: Any) -> Iterator[tuple[Any, int]]:
        position = [[0]] if after is None else after
        while position[0][0] < 1000:
            position[0][0] += 1
            yield position, position[0][0]


class OneListAsync(OneList):
    """The same from an async generator."""

    async def records(self, after: Any) -> Any:
        for item in self.changing(after):
            yield item


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("producer", [OneList, OneListAsync])
def test_a_position_that_the_producer_changes_later_is_stored_as_it_was_yielded(producer: type[OneList], tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/flow.db")
    for _ in range(2):
        finished = run_flow(producer, lambda: Poisoned([]), config=config, until=2.0)
        assert finished.snapshot.flow[0].position == f"[[{POISON - 1}]]"
    done: list[tuple[int, int]] = []
    finished = run_flow(producer, lambda: Work(done), config=config)
    assert records(done) == list(range(POISON, 1001))
    assert finished.snapshot.flow[0].position == "[[1000]]"


class SaysExhausted(FlowProducer):
    """Ends by SpoutExhausted, like other spouts."""

    def records(self, after: Any) -> Any:
        yield from ((number, number) for number in range((after or 0) + 1, 501))
        raise SpoutExhausted


class SaysExhaustedAsync(FlowProducer):
    """The same from an async generator."""

    async def records(self, after: Any) -> Any:
        for number in range((after or 0) + 1, 501):
            yield number, number
        raise SpoutExhausted


@pytest.mark.guarantee("FC-1", "FC-6")
@pytest.mark.parametrize("producer", [SaysExhausted, SaysExhaustedAsync])
def test_a_producer_that_raises_spout_exhausted_has_ended_and_its_records_are_processed(producer: type[FlowProducer]) -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(producer, lambda: Work(done))
    assert (finished.state, finished.errors) == ("complete", ())
    assert records(done) == list(range(1, 501))
    assert finished.snapshot.flow[0].position == "500"


class Unmeasured(Numbers):
    """Raises in `size_of` for one record."""

    def size_of(self, record: Any) -> int:
        if record == 300:
            raise ValueError("no size")
        return 1


class UnmeasuredAsync(AsyncNumbers):
    """The same from an async generator."""

    size_of = Unmeasured.size_of


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("producer", [Unmeasured, UnmeasuredAsync])
def test_no_position_passes_a_record_of_unknown_size(producer: type[Numbers]) -> None:
    done: list[tuple[int, int]] = []
    config = Config(on_error="fail")
    finished = run_flow(lambda: producer(1000), lambda: Work(done, lambda task, record: 0.0001), config=config, until=2.0)
    assert finished.state == "stopped", "the run must not complete while records are open"
    assert records(done) == list(range(1, 300))
    assert finished.snapshot.flow[0].position == "299"
    assert "no size" in finished.errors[0].text


class Large(FlowProducer):
    """Counts the records that were read. Each is a megabyte."""

    def __init__(self, read: list[int]) -> None:
        self.read = read

    def records(self, after: Any) -> Any:
        for number in range(1, 2001):
            self.read.append(number)
            yield number, number

    def size_of(self, record: Any) -> int:
        return 1 << 20


class LargeAsync(Large):
    """The same from an async generator."""

    async def records(self, after: Any) -> Any:
        for item in super().records(after):
            yield item


@pytest.mark.guarantee("FC-1")
@pytest.mark.parametrize("producer", [Large, LargeAsync])
def test_reading_ahead_is_bounded_by_the_bytes_of_a_pack(producer: type[Large]) -> None:
    class Notes(FlowControlBolt):
        def process(self, record: int) -> None:
            ahead.append(len(read) - record)

    read: list[int] = []
    ahead: list[int] = []
    finished = run_flow(lambda: producer(read), Notes, tasks=1)
    assert finished.state == "complete"
    assert len(ahead) == 2000
    assert max(ahead) < 32, "a thousand such records would need a gigabyte"


def test_an_idle_async_producer_that_never_waits_does_not_block_the_run() -> None:
    class Polls(FlowProducer):
        async def records(self, after: Any) -> Any:
            yield 1, 1
            while asyncio.get_running_loop().time() < 60:
                asked.append(asyncio.get_running_loop().time())
                yield None
            yield 2, 2

    asked: list[float] = []
    done: list[tuple[int, int]] = []
    finished = run_flow(Polls, lambda: Work(done))
    assert (finished.state, records(done)) == ("complete", [1, 2])
    pauses = [after - before for before, after in pairwise(asked)]
    assert pauses[:8] == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.064], abs=0.0005)
    assert max(pauses) < 0.065


@pytest.mark.parametrize("found", [None, 5, "async generator"])
def test_records_that_returns_no_iterable_is_a_clear_error(found: Any) -> None:
    class Wrong(FlowProducer):
        def records(self, after: Any) -> Any:
            return AsyncNumbers(1).records(after) if found == "async generator" else found

    with pytest.raises(ComponentError, match=r"Wrong\.records\(\) returned .* which cannot be iterated"):
        run_flow(Wrong, lambda: Work([]), config=Config(on_error="restart"))


@pytest.mark.guarantee("FC-6")
def test_an_async_give_up_is_refused() -> None:
    class Keeps(Numbers):
        async def give_up(self, position: Any, record: Any, failure: Failure) -> None:  # type: ignore[override]
            await asyncio.sleep(1)

    with pytest.raises(UsageError, match=r"Keeps\.give_up\(\) is async"):
        FlowControlSpout(Keeps(1))


class Closed(Numbers):
    """Holds a resource while it is read."""

    def records(self, after: Any) -> Any:
        try:
            yield from super().records(after)
        finally:
            self.begun_behind.append("closed")


class ClosedAsync(Numbers):
    """The same in an async generator, which awaits in its clean-up, and reads ahead."""

    async def records(self, after: Any) -> Any:
        try:
            for item in super().records(after):
                yield item
        finally:
            await asyncio.sleep(0.1)
            self.begun_behind.append("closed")


@pytest.mark.parametrize("producer", [Closed, ClosedAsync])
def test_a_generator_is_closed_with_its_spout(producer: type[Numbers]) -> None:
    said: list[Any] = []

    async def stops(run: Run) -> None:
        await asyncio.sleep(0.5)
        await run.stop()
        assert said[-1] == "closed"

    run_flow(lambda: producer(10**6, said), lambda: Work([]), during=stops)
    assert said.count("closed") == 1


@pytest.mark.guarantee("FC-1")
def test_a_pack_that_reached_its_bytes_is_sent_at_once() -> None:
    controller = FlowController(FlowSettings(pack_bytes=1000), [1])
    for now in (0.0, 1.0):
        controller.offer_record("before", "x", now)
        delivery = controller.next_delivery(now)
        assert delivery is not None
        if now == 0.0:
            controller.note_tree_ack(delivery, 0.0001)
    assert not controller.offer_record("a", "x" * 600, 1.0)
    assert controller.next_delivery(1.0) is None, "the task has work, so the pack may wait for more records"
    assert controller.records_wanted(1.0) > 0
    assert controller.offer_record("b", "x" * 600, 1.0), "no more records must be wanted"
    assert controller.records_wanted(1.0) == 0
    delivery = controller.next_delivery(1.0)
    assert delivery is not None
    assert [entry[0] for entry in delivery.pack.entries] == ["a"], "two records would exceed the bytes of a pack"


@pytest.mark.guarantee("FC-7")
def test_records_read_ahead_from_an_async_producer_are_shown_and_bounded() -> None:
    class Ahead(FlowProducer):
        async def records(self, after: Any) -> Any:
            for number in range(1, 100_000):
                yielded.append(number)
                yield number, number

    yielded: list[int] = []
    finished = run_flow(Ahead, lambda: Work([], lambda task, record: 0.05), until=3.0)
    [flow] = finished.snapshot.flow
    assert flow.buffered_records == len(yielded) - flow.pending_records - flow.done_records
    assert 2048 <= flow.buffered_records <= 4096 + 1000, "reading continues at half of the buffer, and may add a pack"


@pytest.mark.guarantee("FC-1")
async def test_a_slow_generator_leaves_turns_to_the_rest_of_the_run() -> None:
    class Slow(FlowProducer):
        def records(self, after: Any) -> Iterator[tuple[int, int]]:
            for number in range(1, 41):
                time.sleep(0.003)
                pulled_at[turns] += 1
                yield number, number

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turns, pulled_at = 0, Counter[int]()
    counting = asyncio.create_task(count_turns())
    done: list[tuple[int, int]] = []
    async with run(topology(Slow, lambda: Work(done, lambda task, record: 0.0))) as running:
        await running.completed()
    counting.cancel()
    assert records(done) == list(range(1, 41))
    assert max(pulled_at.values()) <= 2, "others must get a turn after 5 ms"


@pytest.mark.guarantee("FC-1")
def test_a_pull_that_takes_5_ms_ends_with_more_to_come() -> None:
    class Stepping(Numbers):
        def records(self, after: Any) -> Iterator[tuple[int, int]]:
            for each in super().records(after):
                now[0] += 0.001
                yield each

    now, offered = [0.0], []
    context: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: now[0]))
    reader = record_reader(Stepping(100), None, context, lambda position, record, at: bool(offered.append(record)))
    assert reader.pull_records(3) is False, "all requested records were read"
    assert reader.pull_records(100) is True
    assert offered == list(range(1, 12)), "3 and 8 records, as the clock is read after 1, 2, 4 and 8"
    for _ in range(12):
        reader.pull_records(100)
    assert offered == list(range(1, 101))
    assert reader.has_ended


@pytest.mark.guarantee("FC-1")
def test_the_missing_records_of_a_slow_generator_are_requested_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.flow.record_reader.PULL_SECS", -1.0)  # each pull ends after its first record
    done: list[tuple[int, int]] = []
    settings = FlowSettings(pack_ms=100, pack_age_ms=1000)
    finished = run_flow(lambda: Numbers(1000), lambda: Work(done), tasks=1, settings=settings)
    assert records(done) == list(range(1, 1001))
    [task] = finished.snapshot.flow[0].tasks
    assert task.settled < 50, "the task must get packs of a hundred"
