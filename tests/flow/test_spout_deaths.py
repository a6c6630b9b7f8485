"""Producers whose give_up() raises, and spouts that die for ever (FC-6, ACK-12)."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from engine import ComponentError, Config, FailTuple, Failure, FatalError, FlowControlBolt, FlowSettings
from tests.flow.flow_topologies import Numbers, Work, records, run_flow


class Refuses(Work):
    """Fails every seventh record."""

    async def process(self, record: int) -> None:
        if record % 7 == 0:
            raise FailTuple("a seventh")
        await super().process(record)


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("on_error", ["restart", "fail"])
@pytest.mark.parametrize("error", [ValueError("no room"), asyncio.CancelledError()], ids=repr)
def test_a_give_up_that_always_raises_does_not_end_the_spout(error: BaseException, on_error: Literal["restart", "fail"]) -> None:
    kept: list[Any] = []

    class Raises(Numbers):
        def give_up(self, position: Any, record: Any, failure: Failure) -> None:
            kept.append(record)
            raise error

    done: list[tuple[int, int]] = []
    begun: list[Any] = []
    config = Config(on_error=on_error)
    finished = run_flow(
        lambda: Raises(100, begun), lambda: Refuses(done), settings=FlowSettings(max_retries=1), config=config, limit_secs=60
    )
    assert finished.state == "complete"
    assert sorted(kept) == list(range(7, 101, 7))
    assert begun == [None]
    assert finished.snapshot.flow[0].position == "100"


@pytest.mark.guarantee("FC-6", "ACK-12")
def test_a_fatal_error_of_give_up_ends_the_run() -> None:
    class Ends(Numbers):
        def give_up(self, position: Any, record: Any, failure: Failure) -> None:
            raise FatalError("no room for good")

    with pytest.raises(ComponentError, match="no room for good"):
        run_flow(lambda: Ends(100), lambda: Refuses([]), settings=FlowSettings(max_retries=1), limit_secs=60)


@pytest.mark.guarantee("ACK-12")
def test_a_spout_that_dies_after_acks_without_progress_ends_the_run() -> None:
    class FirstNeverEnds(FlowControlBolt):
        async def process(self, record: int) -> None:
            await asyncio.sleep(1000 if record == 1 else 0.001)

    begun: list[Any] = []

    class Breaks(Numbers):
        def records(self, after: Any) -> Iterator[Any]:
            self.begun_behind.append(after)
            for number in itertools.count(1):
                if number > 50 and self.context.clock.now() - self.opened > 0.2:
                    raise OSError("the source broke")
                yield (number, number) if number <= 50 else None

        def open(self) -> None:
            self.opened = self.context.clock.now()

    with pytest.raises(ComponentError, match="the source broke"):
        run_flow(lambda: Breaks(0, begun), FirstNeverEnds, config=Config(message_timeout_secs=2000, on_error="restart"), limit_secs=600)
    assert len(begun) == 6


@pytest.mark.guarantee("ACK-12")
def test_a_spout_that_dies_after_each_record_is_replaced_after_growing_pauses() -> None:
    begun: list[float] = []

    class Breaks(Numbers):
        def records(self, after: Any) -> Iterator[Any]:
            first = (after or 0) + 1
            if first > self.count:
                return
            began = self.context.clock.now()
            begun.append(began)
            yield first, first
            while self.context.clock.now() < began + 0.05:
                yield None
            raise OSError("one record is enough")

    done: list[tuple[int, int]] = []
    run_flow(lambda: Breaks(12), lambda: Work(done), config=Config(on_error="restart"), limit_secs=600)
    assert records(done) == list(range(1, 13))
    pauses = [after - before for before, after in itertools.pairwise(begun)]
    assert pauses[:6] == pytest.approx([0.05, 1.05, 2.05, 4.05, 8.05, 16.05], abs=0.1)
    assert pauses[6:] == pytest.approx([30.05] * len(pauses[6:]), abs=0.1)
