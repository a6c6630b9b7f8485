"""Components that raise StopIteration, StopAsyncIteration or GeneratorExit, which no future or coroutine carries as an error."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, BurstBolt, ComponentError, Config, Spout, StatefulBolt, Tuple
from engine.errors import ENDS_OF_ITERATION
from engine.testing import Feeder, run_topology
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import LogLines, Numbers, Sink, chain, failing, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-12")
BAD = 3
MakeBolt = Callable[[type[BaseException]], type[Any]]


def plain(kind: type[BaseException]) -> type[Any]:
    class Plain(Bolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] == BAD:
                raise kind
            self.collector.ack(tup)

    return Plain


def basic(kind: type[BaseException]) -> type[Any]:
    class Basic(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] == BAD:
                raise kind

    return Basic


def in_threads(kind: type[BaseException]) -> type[Any]:
    class InThreads(basic(kind)):  # type: ignore[misc]
        threads = 2

    return InThreads


def generator(kind: type[BaseException]) -> type[Any]:
    class Generates(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
            if tup[0] == BAD:
                raise kind
            yield (tup[0],)

    return Generates


def awaited(kind: type[BaseException]) -> type[Any]:
    class Awaited(BasicBolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0)
            if tup[0] == BAD:
                raise kind

    return Awaited


def concurrent(kind: type[BaseException]) -> type[Any]:
    class Concurrent(awaited(kind)):  # type: ignore[misc]
        concurrency = 4

    return Concurrent


def burst(kind: type[BaseException]) -> type[Any]:
    class Bursts(BurstBolt):
        def execute_many(self, burst: Any) -> None:
            if BAD in burst["number"]:
                raise kind

    return Bursts


def awaited_burst(kind: type[BaseException]) -> type[Any]:
    class Bursts(BurstBolt):
        async def execute_many(self, burst: Any) -> None:
            await asyncio.sleep(0)
            if BAD in burst["number"]:
                raise kind

    return Bursts


def stateful(kind: type[BaseException]) -> type[Any]:
    class Keeps(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            if tup[0] == BAD:
                raise kind
            self.collector.ack(tup)

    return Keeps


FORMS = [plain, basic, in_threads, generator, awaited, concurrent, burst, awaited_burst, stateful]


@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
@pytest.mark.parametrize("form", FORMS)
def test_only_the_input_of_the_call_fails(form: MakeBolt, kind: type[BaseException]) -> None:
    lines = Feeder("number", max_retries=0)
    lines.feed_all((number,) for number in range(6))
    lines.close()
    finished = run_topology(chain(lines, form(kind)), Config(processing_guarantee="at_least_once"))
    assert finished.state == "complete"
    assert sorted(lines.acked) == [1, 2, 3, 5, 6]
    assert [message_id for message_id, _ in lines.failed] == [4]
    assert kind.__name__ in finished.errors[0].text
    assert finished.snapshot.components["bolt1"].restarts == 0


@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
def test_a_real_pool_gets_its_slot_back(kind: type[BaseException]) -> None:
    """In virtual time the loop itself guards futures from StopIteration, so this test runs on a real one."""
    spout = Numbers(6)
    bolt = in_threads(kind)
    bolt.threads = 1

    async def main() -> None:
        async with running(chain(lambda: spout, bolt)) as run:
            await asyncio.wait_for(run.completed(), PATIENCE_SECS)

    asyncio.run(main())
    assert (sorted(spout.acked), spout.failed) == ([0, 1, 2, 4, 5], [BAD])


class Ends(Spout):
    """Forgets what to do at the end of its rows."""

    output_fields = "number"
    opened: list[str]

    def open(self) -> None:
        self.opened.append("open")
        self.rows = iter(range(3))

    def next_tuple(self) -> Any:
        number = next(self.rows)
        self.collector.emit((number,), number)


class EndsLater(Ends):
    async def next_tuple(self) -> None:
        super().next_tuple()


class EndsAsync(Ends):
    async def next_tuple(self) -> None:
        number = next(self.rows, None)
        if number is None:
            raise StopAsyncIteration
        self.collector.emit((number,), number)


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("on_error", ["fail", "restart", "stop"])
@pytest.mark.parametrize("base", [Ends, EndsLater, EndsAsync])
def test_a_spout_whose_next_tuple_forgets_its_end_reads_its_source_once(base: type[Ends], on_error: Any) -> None:
    class Rows(base):  # type: ignore[misc, valid-type]
        opened: list[str] = []

    class Shows(Sink):
        shown: list[int] = []

        def execute(self, tup: Tuple) -> None:
            self.shown.append(tup[0])
            super().execute(tup)

    async def main() -> ComponentError | None:
        async with failing(running(chain(Rows, Shows), on_error=on_error)) as run:
            with pytest.raises(ComponentError):
                await run.completed()
        return run.error

    told = play(main)
    assert Rows.opened == ["open"]
    assert Shows.shown == [0, 1, 2]
    kind = "StopAsyncIteration" if base is EndsAsync else "StopIteration"
    assert f"it was polled and raised {kind}" in told.message
    assert "raise SpoutExhausted" in str(told)


@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
@pytest.mark.parametrize("method", ["ack", "fail"])
def test_a_verdict_that_raises_so_is_reported_and_the_spout_continues(method: str, kind: type[BaseException]) -> None:
    class Raises(Numbers):
        def ack(self, message_id: Any) -> None:
            super().ack(message_id)
            if message_id == 1 and method == "ack":
                raise kind

        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            if method == "fail":
                raise kind

    spout = Raises(5)
    with LogLines() as log:
        play_run(chain(lambda: spout, plain(ValueError)))
    assert (spout.acked, spout.failed) == ([0, 1, 2, 4], [BAD])
    assert log.having(f"the call raised {kind.__name__}")


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_a_custom_grouping_that_raises_so_fails_the_input_of_the_emit(kind: type[BaseException]) -> None:
    class Chooses:
        def prepare(self, context: Any, stream: Any, targets: Any) -> None:
            self.targets = targets

        def choose_tasks(self, source_task: int, values: Any) -> Any:
            if values[0] == BAD:
                raise kind
            return [self.targets[0]]

    class Passes(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            return (tup[0],)

    spout = Numbers(5)
    builder = engine.TopologyBuilder("custom")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("passes", Passes).shuffle_grouping("source")
    builder.set_bolt("sink", Sink).custom_grouping("passes", Chooses())
    play_run(builder.build())
    assert (spout.acked, spout.failed) == ([0, 1, 2, 4], [BAD])
