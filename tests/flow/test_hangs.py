"""A `process` that hangs costs its record a try, and its task the limit of a call (FC-9)."""

import asyncio
import contextlib
import math
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from engine import ComponentError, Config, FlowControlBolt, FlowSettings, UsageError
from engine.testing import run_topology_async
from tests.flow.flow_topologies import Numbers, Work, records, run_flow, topology

pytestmark = [
    pytest.mark.guarantee("FC-9"),
    pytest.mark.filterwarnings("ignore::engine.testing.LeftoverTaskWarning"),  # some swallow their cancellation
]


def hanging(done: list[tuple[int, int]], hung: list[tuple[int, int]], *, hangs: Any, every: Any) -> type[FlowControlBolt]:
    """Return a bolt whose tasks hang once each, by `hangs()`, at their first record in `every`."""

    class Hangs(Work):
        def __init__(self) -> None:
            super().__init__(done)

        async def process(self, record: int) -> None:
            if record in every and self.context.task_index not in dict(hung):
                hung.append((self.context.task_index, record))
                await hangs()
            await super().process(record)

    return Hangs


async def for_ever() -> None:
    await asyncio.Event().wait()


async def swallowing() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def returning() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


async def raising() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise OSError("while it was cancelled")


async def spawning() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(for_ever())
        group.create_task(for_ever())


@pytest.mark.parametrize("on_error", ["fail", "restart"])
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("hangs", [for_ever, swallowing, returning, raising, spawning])
def test_the_run_continues_if_each_task_hangs_once(hangs: Any, concurrency: int, on_error: Literal["fail", "restart"]) -> None:
    done: list[tuple[int, int]] = []
    hung: list[tuple[int, int]] = []
    bolt = hanging(done, hung, hangs=hangs, every=range(1, 10**6))
    bolt.on_error = on_error
    config = Config(max_task_restarts=1000)
    finished = run_flow(lambda: Numbers(300), bolt, concurrency=concurrency, config=config, limit_secs=3000, real_limit_secs=20)
    assert finished.state == "complete"
    assert set(records(done)) == set(range(1, 301))
    assert len(hung) >= 3
    texts = [report.text for report in finished.errors]
    for _, record in hung[:3]:
        assert any("process() did not return within 30 s (call_timeout_secs), and" in t and t.endswith(f"Record: {record}") for t in texts)
    assert any("after it was cancelled" in text for text in texts) == (hangs is swallowing)


def test_an_overdue_record_is_sent_again_alone_and_earlier_ones_as_packs() -> None:
    done: list[tuple[int, int]] = []
    hung: list[tuple[int, int]] = []
    bolt = hanging(done, hung, hangs=for_ever, every=[150])
    bolt.call_timeout_secs = 2
    finished = run_flow(lambda: Numbers(300), bolt, tasks=2, limit_secs=100)
    assert len(hung) == 2 or [record for _, record in hung] == [150]
    assert set(records(done)) == set(range(1, 301))
    assert 2 <= finished.secs <= 2 * (2 + 0.25) + 1


def test_a_record_that_always_hangs_is_given_up() -> None:
    made: list[Numbers] = []
    done: list[tuple[int, int]] = []

    class Hangs(Work):
        call_timeout_secs = 1

        async def process(self, record: int) -> None:
            if record == 7:
                await for_ever()
            await super().process(record)

    def producer() -> Numbers:
        made.append(Numbers(100))
        return made[-1]

    run_flow(producer, lambda: Hangs(done), settings=FlowSettings(max_retries=2), limit_secs=100)
    [(position, record, failure)] = made[0].given_up
    assert (position, record, failure.reason) == (7, 7, "error")
    assert "process() did not return within 1 s (call_timeout_secs), and was cancelled. Record: 7" in failure.describe()


def test_late_emits_of_an_abandoned_call_have_no_effect() -> None:
    done: list[tuple[int, int]] = []
    late: list[BaseException] = []
    hung: list[int] = []

    class Hangs(Work):
        output_fields = "number"
        call_timeout_secs = 1

        async def process(self, record: int) -> tuple[int]:  # type: ignore[override]
            if record == 5 and not hung:
                hung.append(record)
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    try:
                        await asyncio.sleep(3)
                        self.collector.emit((record,))
                    except BaseException as error:
                        late.append(error)
            await super().process(record)
            return (record,)

    run_flow(lambda: Numbers(5000), lambda: Hangs(done, lambda task, record: 0.005), limit_secs=200)
    assert [type(error).__name__ for error in late] == ["UsageError"]
    assert set(records(done)) == set(range(1, 5001))


def test_a_yield_restarts_the_limit_of_a_call() -> None:
    done: list[int] = []

    class Yields(FlowControlBolt):
        output_fields = "number"
        call_timeout_secs = 1

        async def process(self, record: int) -> AsyncIterator[tuple[int]]:  # type: ignore[override]
            for _ in range(10):
                await asyncio.sleep(0.5)
                yield (record,)
            done.append(record)

    finished = run_flow(lambda: Numbers(6), Yields, limit_secs=200)
    assert (sorted(done), finished.errors) == ([1, 2, 3, 4, 5, 6], ())


def test_an_async_generator_that_hangs_is_closed() -> None:
    closed: list[int] = []
    hung: list[int] = []

    class Hangs(FlowControlBolt):
        output_fields = "number"
        call_timeout_secs = 1

        async def process(self, record: int) -> AsyncIterator[tuple[int]]:  # type: ignore[override]
            try:
                if record == 3 and not hung:
                    hung.append(record)
                    await for_ever()
                yield (record,)
            finally:
                closed.append(record)

    finished = run_flow(lambda: Numbers(6), Hangs, limit_secs=200)
    assert sorted(set(closed)) == [1, 2, 3, 4, 5, 6]
    assert len(finished.errors) == 1


def test_too_many_abandoned_calls_that_still_run_end_the_run() -> None:
    class Hangs(FlowControlBolt):
        call_timeout_secs = 1

        async def process(self, record: int) -> None:
            await swallowing()

    with pytest.raises(ComponentError, match=r"16 calls of process\(\) still run after their limit of 1 s"):
        run_flow(lambda: Numbers(1000), Hangs, tasks=1, limit_secs=3000, real_limit_secs=20)


@pytest.mark.parametrize("config", [Config(enable_message_timeouts=False), Config(call_timeout_secs=1000)])
def test_the_limit_can_be_disabled_or_extended(config: Config) -> None:
    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(3), lambda: Work(done, lambda task, record: 25.0), config=config, limit_secs=4000)
    assert (records(done), finished.errors) == ([1, 2, 3], ())


def test_the_limit_of_the_bolt_overrides_that_of_the_config() -> None:
    done: list[tuple[int, int]] = []

    class Slow(Work):
        call_timeout_secs = math.inf

    finished = run_flow(
        lambda: Numbers(3), lambda: Slow(done, lambda task, record: 5.0), config=Config(call_timeout_secs=1), limit_secs=400
    )
    assert (records(done), finished.errors) == ([1, 2, 3], ())


@pytest.mark.parametrize("secs", [0, -1, "5", True, math.nan])
def test_an_invalid_limit_is_refused(secs: Any) -> None:
    with pytest.raises(UsageError, match=r"Bad\.call_timeout_secs is"):
        type("Bad", (Work,), {"call_timeout_secs": secs})


def test_threads_that_hang_are_replaced() -> None:
    stuck = threading.Event()
    done: list[int] = []
    hung: list[int] = []

    class Blocks(FlowControlBolt):
        output_fields = "number"
        threads = 2
        call_timeout_secs = 0.3

        def process(self, record: int) -> tuple[int]:
            if record in (3, 5, 8) and record not in hung:
                hung.append(record)
                stuck.wait()
            self.collector.emit((record,))
            done.append(record)
            return (record,)

    async def play_in_real_time() -> Any:
        async with asyncio.timeout(50):
            return await run_topology_async(topology(lambda: Numbers(200), Blocks, tasks=1))

    try:
        finished = asyncio.run(play_in_real_time())
    finally:
        stuck.set()
    assert sorted(hung) == [3, 5, 8]
    assert set(done) == set(range(1, 201))
    assert finished.snapshot.components["work"].errors == 3, "each abandoned call counts as an error"
    assert finished.errors[0].text.rpartition("Record: ")[2] == "3"
    assert "still runs in its thread, which was replaced" in finished.errors[0].text


def test_a_process_with_abandoned_threads_ends() -> None:
    program = textwrap.dedent(
        """
        import asyncio, threading
        from engine import FlowControlBolt
        from engine.testing import run_topology_async
        from tests.flow.flow_topologies import Numbers, topology

        hung = []

        class Blocks(FlowControlBolt):
            threads = 1
            call_timeout_secs = 0.2

            def process(self, record):
                if record == 3 and not hung:
                    hung.append(record)
                    threading.Event().wait()

        asyncio.run(run_topology_async(topology(lambda: Numbers(20), Blocks, tasks=1)))
        print("complete", hung)
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "complete [3]" in ended.stdout


def test_a_call_that_blocks_the_loop_still_causes_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    import time

    class Holds(Work):
        async def process(self, record: int) -> None:
            if record == 3:
                time.sleep(0.05)  # noqa: ASYNC251 - held on purpose
            await super().process(record)

    async def play_in_real_time() -> None:
        await run_topology_async(topology(lambda: Numbers(5), lambda: Holds([])), Config(slow_call_warn_ms=20))

    asyncio.run(play_in_real_time())
    assert any("one call of bolt 'work' held the event loop" in record.getMessage() for record in caplog.records)
