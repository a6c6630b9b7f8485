"""`process` that raises StopIteration or the like: the record fails alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import Config, FlowControlBolt, FlowSettings
from engine.errors import ENDS_OF_ITERATION
from tests.flow.flow_topologies import Numbers, run_flow
from tests.patience import PATIENCE_SECS

pytestmark = [pytest.mark.guarantee("ACK-12"), pytest.mark.guarantee("FC-1")]
BAD = 4


class Processes(FlowControlBolt):
    kind: type[BaseException]
    done: list[int]

    def check(self, record: int) -> None:
        if record == BAD:
            raise self.kind
        self.done.append(record)


class Plain(Processes):
    def process(self, record: int) -> None:
        self.check(record)


class InThreads(Plain):
    threads = 2


class Generates(Processes):
    output_fields = "number"

    def process(self, record: int) -> Iterator[tuple[int]]:
        self.check(record)
        yield (record,)


class Awaited(Processes):
    async def process(self, record: int) -> None:
        await asyncio.sleep(0)
        self.check(record)


class AsyncGenerates(Processes):
    output_fields = "number"

    async def process(self, record: int) -> AsyncIterator[tuple[int]]:
        await asyncio.sleep(0)
        self.check(record)
        yield (record,)


@pytest.mark.parametrize("limit", [None, float("inf")], ids=["limited", "unlimited"])
@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
@pytest.mark.parametrize("form", [Plain, InThreads, Generates, Awaited, AsyncGenerates])
def test_only_the_record_of_the_call_is_given_up(form: type[Any], kind: type[BaseException], limit: float | None) -> None:
    done: list[int] = []
    kept = Numbers(10)
    made = type("Made", (form,), {"kind": kind, "done": done, "call_timeout_secs": limit})
    finished = run_flow(lambda: kept, made, tasks=2, settings=FlowSettings(max_retries=1), config=Config(message_timeout_secs=5))
    assert finished.state == "complete"
    assert sorted(set(done)) == [number for number in range(1, 11) if number != BAD]
    assert [position for position, *_ in kept.given_up] == [BAD]
    assert finished.snapshot.components["work"].restarts == 0


def test_a_real_pool_gets_its_thread_back() -> None:
    """In virtual time the loop itself guards futures from StopIteration, so this test runs on a real one."""
    from engine import run
    from tests.flow.flow_topologies import topology

    done: list[int] = []
    kept = Numbers(10)
    made = type("Made", (InThreads,), {"kind": StopIteration, "done": done, "threads": 1})

    async def main() -> None:
        async with run(topology(lambda: kept, made, tasks=2, settings=FlowSettings(max_retries=1))) as running:
            await asyncio.wait_for(running.completed(), PATIENCE_SECS)

    asyncio.run(main())
    assert [position for position, *_ in kept.given_up] == [BAD]
