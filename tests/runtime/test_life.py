"""Order of the lifecycle calls of a run, and the effect of activate and deactivate (RUN-1)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import BasicBolt, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple, UsageError
from engine.testing import Capture
from tests.runtime.stage import Endless, EverySecond, Keeper, Numbers, Sink, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("RUN-1")


class Diary:
    """Calls in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def spout(self, *, count: int = 2, is_async: bool = False) -> type[Spout]:
        note = self.note

        class Noted(Spout):
            output_fields = Fields("number")

            def open(self) -> None:
                note(self, "open")
                self.left = count

            def activate(self) -> None:
                note(self, "activate")

            def deactivate(self) -> None:
                note(self, "deactivate")

            def next_tuple(self) -> None:
                if not self.left:
                    raise SpoutExhausted
                self.left -= 1
                note(self, "next_tuple")
                self.collector.emit((self.left,), self.left)

            def ack(self, message_id: object) -> None:
                note(self, "ack")

            def close(self) -> None:
                note(self, "close")

        class NotedAsync(Noted):
            async def open(self) -> None:  # type: ignore[override]
                note(self, "opening")
                await asyncio.sleep(3)
                Noted.open(self)

            async def close(self) -> None:  # type: ignore[override]
                await asyncio.sleep(3)
                Noted.close(self)

        return NotedAsync if is_async else Noted

    def bolt(self, *, is_async: bool = False) -> type[BasicBolt]:
        note = self.note

        class Noted(BasicBolt):
            output_fields = Fields("number")

            def prepare(self) -> None:
                note(self, "prepare")

            def execute(self, tup: Tuple) -> Any:
                note(self, "execute")
                return (tup[0],)

            def cleanup(self) -> None:
                note(self, "cleanup")

        class NotedAsync(Noted):
            async def prepare(self) -> None:  # type: ignore[override]
                note(self, "preparing")
                await asyncio.sleep(2)
                Noted.prepare(self)

            async def cleanup(self) -> None:  # type: ignore[override]
                await asyncio.sleep(2)
                Noted.cleanup(self)

        return NotedAsync if is_async else Noted

    def note(self, component: Any, what: str) -> None:
        self.events.append(f"{component.context.component_id}.{what}")


@pytest.mark.parametrize("is_async", [False, True])
def test_bolts_are_prepared_before_spouts_and_closed_after_them_in_topology_order(is_async: bool) -> None:
    diary = Diary()
    builder = TopologyBuilder("order")
    builder.set_bolt("last", diary.bolt(is_async=is_async)).shuffle_grouping("middle")
    builder.set_spout("one", diary.spout(is_async=is_async))
    builder.set_bolt("middle", diary.bolt(is_async=is_async)).shuffle_grouping("one").shuffle_grouping("two")
    builder.set_spout("two", diary.spout(is_async=is_async))
    play_run(builder.build())
    events = [event for event in diary.events if not event.endswith(("ing", "next_tuple", "execute", "ack"))]
    assert events == [
        "last.prepare", "middle.prepare", "one.open", "one.activate", "two.open", "two.activate",
        "one.close", "two.close", "middle.cleanup", "last.cleanup",
    ]  # fmt: skip
    first_work = next(i for i, event in enumerate(diary.events) if event.endswith(("next_tuple", "execute")))
    assert diary.events.index("two.activate") < first_work


@pytest.mark.guarantee("RUN-3")
def test_the_tasks_of_a_component_are_closed_together() -> None:
    diary = Diary()
    builder = TopologyBuilder("together")
    builder.set_spout("one", diary.spout(is_async=True), parallelism=3)
    builder.set_bolt("middle", diary.bolt(is_async=True), parallelism=40).shuffle_grouping("one")
    builder.set_bolt("last", diary.bolt(is_async=True), parallelism=2).shuffle_grouping("middle")

    async def main() -> float:
        async with engine.run(builder.build()) as run:
            began = loop().time()
            await run.stop()
            return loop().time() - began

    assert 7.0 <= play(main) < 7.5  # close takes 3 s, each cleanup 2 s
    closed = [event for event in diary.events if event.endswith(("close", "cleanup"))]
    assert closed == ["one.close"] * 3 + ["middle.cleanup"] * 40 + ["last.cleanup"] * 2


def test_deactivate_pauses_the_spouts_only() -> None:
    diary = Diary()
    keeper = Capture(settles=False)
    topology = chain(diary.spout(count=1000), keeper, max_spout_pending=3)

    async def main() -> None:
        async with running(topology) as run:
            await asyncio.sleep(1)
            await run.deactivate()
            assert run.state == "running"
            assert run.snapshot().components["source"].status == "inactive"
            diary.events.clear()
            for _ in range(3):
                keeper.settle_next()
            await asyncio.sleep(1)
            assert diary.events == ["source.ack"] * 3, "a deactivated spout still gets verdicts"
            assert not keeper.unsettled
            assert run.snapshot().components["source"].status == "drained"
            diary.events.clear()
            await run.activate()
            assert diary.events[0] == "source.activate"
            await asyncio.sleep(1)
            assert len(keeper.unsettled) == 3

    play(main)


def test_activate_and_deactivate_twice_call_the_hooks_once() -> None:
    diary = Diary()

    async def main() -> None:
        async with running(chain(diary.spout(count=1000), Keeper, max_spout_pending=1)) as run:
            await run.activate()
            await run.deactivate()
            await run.deactivate()
            await asyncio.gather(run.activate(), run.deactivate(), run.activate())

    play(main)
    switches = [event for event in diary.events if "activate" in event]
    assert switches == ["source.activate", "source.deactivate", "source.activate", "source.deactivate", "source.activate"]


def test_a_deactivated_run_does_not_complete_before_its_source_ends() -> None:
    spout = EverySecond(10)

    async def main() -> None:
        async with running(chain(lambda: spout, Sink)) as run:
            await asyncio.sleep(3.5)
            await run.deactivate()
            await asyncio.sleep(100)
            assert run.state == "running"
            assert len(spout.acked) == 4
            await run.activate()
            await run.completed()

    play(main)
    assert spout.acked == list(range(10))


def test_a_spout_that_is_replaced_while_deactivated_is_opened_and_stays_paused() -> None:
    diary = Diary()

    async def main() -> None:
        async with running(chain(diary.spout(count=1000), Keeper, max_spout_pending=1)) as run:
            await asyncio.sleep(1)
            await run.deactivate()
            diary.events.clear()
            run.kill_task(run.task_ids("source")[0])
            await asyncio.sleep(1)
            assert diary.events == ["source.open"]
            await run.activate()
            await asyncio.sleep(1)
            assert diary.events == ["source.open", "source.activate", "source.next_tuple"]

    play(main)


@pytest.mark.guarantee("ACK-12")
@pytest.mark.parametrize(("on_error", "restarts"), [("fail", 0), ("restart", 1)])
@pytest.mark.parametrize("hook", ["activate", "deactivate"])
def test_a_hook_that_raises_is_reported_and_does_not_fail_the_caller(hook: str, on_error: str, restarts: int) -> None:
    """With "restart" the spout is replaced. Else it goes on, active or inactive as requested."""
    made: list[Spout] = []

    class Raises(Endless):
        def __init__(self) -> None:
            made.append(self)
            self.calls = 0

        def activate(self) -> None:
            self.calls += 1
            if hook == "activate" and self.calls == 2:
                raise ValueError(hook)

        def deactivate(self) -> None:
            if hook == "deactivate" and len(made) == 1:
                raise ValueError(hook)

    async def main() -> None:
        async with running(chain(Raises, Sink), on_error=on_error) as run:
            await run.deactivate()
            await run.activate()
            await asyncio.sleep(1)
            assert run.snapshot().components["source"].status == "polling"
            assert run.snapshot().components["source"].restarts == restarts
            assert [report.text for report in run.snapshot().errors] == [f"ValueError: {hook}"]

    play(main)
    assert len(made) == 1 + restarts


def test_a_deactivate_during_a_stop_returns() -> None:
    class SlowToClose(Endless):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(5)

    async def main() -> None:
        async with running(chain(SlowToClose, Sink)) as run:
            stopping = asyncio.ensure_future(run.stop())
            await asyncio.sleep(1)
            await asyncio.wait_for(run.deactivate(), 60)
            await stopping
            with pytest.raises(UsageError):
                await run.deactivate()

    play(main)


def test_a_deactivate_whose_spout_is_in_a_call_when_the_run_stops_returns() -> None:
    class Waits(Endless):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1000)

    async def main() -> None:
        async with running(chain(Waits, Sink)) as run:
            await asyncio.sleep(1)
            switching = asyncio.ensure_future(run.deactivate())
            await asyncio.sleep(1)
            assert not switching.done()
            await run.stop()
            await asyncio.wait_for(switching, 1)
        assert loop().time() == 2

    play(main)


def test_a_run_is_entered_only_once_and_before_any_call() -> None:
    async def main() -> None:
        run = engine.run(chain(lambda: Numbers(1), Sink))
        assert run.state == "starting"
        assert run.snapshot().components == {}
        for ask in (run.completed, run.drain, run.activate, run.deactivate):
            with pytest.raises(UsageError):
                await ask()
        await run.stop()
        async with run:
            await run.completed()
        with pytest.raises(UsageError):
            async with run:
                pass

    play(main)


@pytest.mark.parametrize(("numbers", "source"), [(3, "exhausted"), (100_000, "closed")])
def test_the_tasks_of_a_run_that_has_ended_are_closed(numbers: int, source: str) -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(numbers), Sink, max_spout_pending=10)) as run:
            await asyncio.sleep(0)
            assert run.snapshot().components["source"].status != "closed"
            await (run.completed() if source == "exhausted" else run.stop())
        assert {name: component.status for name, component in run.snapshot().components.items()} == {
            "source": source,
            "bolt1": "closed",
            "__acker": "closed",
        }

    play(main)


def test_an_object_that_is_not_a_topology_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a topology"):
        engine.run(TopologyBuilder("unbuilt"))  # type: ignore[arg-type]
