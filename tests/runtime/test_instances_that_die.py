"""An instance that dies is replaced after growing pauses, and does not end the run (SV-3)."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import engine
from engine import Bolt, Config, Fields, StatefulBasicBolt, Tuple
from tests.runtime.stage import SEED, AtOnce, EverySecond, Numbers, Sink, chain, play, play_run, running

# Deaths


class Loose(Exception):
    """Raised by background work."""


class Dying(Bolt):
    """Dies after each second of life, until its tenth instance. Acks its inputs."""

    made: list["Dying"]
    begun: list[float]

    async def prepare(self) -> None:  # type: ignore[override]
        self.made.append(self)
        self.begun.append(self.context.clock.now())
        if len(self.made) < 10:
            self.context.create_task(self.die())

    async def die(self) -> None:
        await asyncio.sleep(1)
        raise Loose("background")

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class DiesForGood(Dying):
    """Dies after a second. Further instances cannot prepare."""

    async def prepare(self) -> None:  # type: ignore[override]
        self.made.append(self)
        if len(self.made) > 1:
            raise OSError("away")
        self.context.create_task(self.die())


def dying(base: type[Dying] = Dying) -> type[Dying]:
    return type("FreshDying", (base,), {"made": [], "begun": [], "__module__": __name__})


@pytest.mark.guarantee("SV-3")
def test_an_instance_that_dies_repeatedly_is_replaced_after_pauses_that_double() -> None:
    """Every death without work in between counts. The pauses are 0, 1, 2, 4, 8, 16 and 30 s."""

    class Asks(engine.Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            return None

    dies = dying()

    async def main() -> None:
        async with running(chain(Asks, dies)) as run:
            await asyncio.sleep(80)
            assert run.state == "running"

    play(main)
    lived = [later - earlier for earlier, later in zip(dies.begun, dies.begun[1:], strict=False)]
    assert [round(secs) for secs in lived][:6] == [1, 2, 3, 5, 9, 17]


@pytest.mark.guarantee("SV-3")
def test_during_a_pause_inputs_fail_with_task_died_and_the_text_of_the_error() -> None:
    """Given a bolt that died twice, when inputs come during the pause, then they fail at once."""
    emitted_at: dict[int, float] = {}
    failed_at: dict[int, float] = {}

    class Often(Numbers):
        def next_tuple(self) -> None:
            now = self.context.clock.now()
            if now >= 0.41 * (len(emitted_at) + 1) or not self.waiting:
                super().next_tuple()
                emitted_at[len(emitted_at)] = now

        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            failed_at[message_id] = self.context.clock.now()

    class DiesTwice(Dying):
        async def prepare(self) -> None:  # type: ignore[override]
            self.made.append(self)
            self.kept: list[Tuple] = []
            if len(self.made) < 3:
                self.context.create_task(self.die())

        def execute(self, tup: Tuple) -> None:
            if len(self.made) == 3:
                self.collector.ack(tup)
            else:
                self.kept.append(tup)

    dies, spout = dying(DiesTwice), Often(12)
    run = play_run(chain(lambda: spout, dies))
    told = {(failure.reason, failure.component_id, failure.task_id, failure.error) for failure in spout.failures}
    assert told == {("task_died", "bolt1", 2, "Loose: background")}
    died = {number: round(secs, 2) for number, secs in failed_at.items() if number < 4}
    assert died == {0: 1, 1: 1, 2: 2, 3: 2}, "taken tuples must fail with their instance"
    assert list(failed_at)[4:] == [number for number, secs in emitted_at.items() if 2 < secs < 3]
    assert all(failed_at[number] - emitted_at[number] < 0.06 for number in list(failed_at)[4:])
    assert spout.acked == [number for number in range(12) if emitted_at[number] > 3]
    assert run.snapshot().components["bolt1"].restarts == 2


@pytest.mark.guarantee("SV-3")
@pytest.mark.parametrize("victim", ["bolt", "spout"])
def test_deaths_never_end_a_run(victim: str) -> None:
    """The limit of 0 restarts applies to `on_error="restart"` and to the start of a run only."""
    dies = dying()

    class DyingSpout(Numbers):
        made: list[Any] = []

        def __init__(self) -> None:
            super().__init__(30)
            self.made.append(self)

        def open(self) -> None:
            super().open()
            if len(self.made) < 10:
                self.context.create_task(Dying.die(self))  # type: ignore[arg-type]

        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)
            super().next_tuple()

    class Slow(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(7)
            super().next_tuple()

    topology = chain(DyingSpout, Sink) if victim == "spout" else chain(lambda: Slow(30, replays=True), dies)
    run = play_run(topology, Config(max_task_restarts=0, seed=SEED))
    assert run.state == "complete"
    assert run.snapshot().components["source" if victim == "spout" else "bolt1"].restarts == 9


@pytest.mark.guarantee("SV-3")
def test_a_run_does_not_complete_while_a_spout_waits_for_its_next_instance() -> None:
    """Given an exhausted spout with open trees, when it dies, then the run waits for its replacement, which reads again."""
    made: list[Any] = []

    class Exhausted(AtOnce):
        def __init__(self) -> None:
            super().__init__(3)
            made.append(self)

        def open(self) -> None:
            super().open()
            if len(made) < 4:
                self.context.create_task(Dying.die(self))  # type: ignore[arg-type]

    class Collects(Bolt):
        tick_tuple_freq_secs = 10

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
            while tup.is_tick and self.kept:
                self.collector.ack(self.kept.pop())

    run = play_run(chain(Exhausted, Collects))
    assert run.state == "complete"
    assert len(made) == 4
    assert sorted(made[-1].acked) == [0, 1, 2]


@pytest.mark.guarantee("SV-3")
@pytest.mark.parametrize("method", ["prepare", "open"])
def test_a_first_prepare_or_open_that_keeps_raising_ends_the_run(method: str) -> None:
    tries: list[str] = []

    def fails() -> None:
        tries.append(method)
        raise OSError("not there")

    class NoBolt(Sink):
        def prepare(self) -> None:
            if method == "prepare":
                fails()

    class NoSpout(Numbers):
        def open(self) -> None:
            super().open()
            if method == "open":
                fails()

    with pytest.raises(engine.ComponentError, match="not there"):
        play_run(chain(lambda: NoSpout(3), NoBolt), Config(max_task_restarts=2))
    assert len(tries) == 3


@pytest.mark.guarantee("SV-3")
@pytest.mark.parametrize("method", ["prepare", "open"])
def test_a_later_prepare_or_open_that_raises_is_retried_after_pauses_until_it_succeeds(method: str) -> None:
    """The source is away from 1 s to 100 s. The run does not end, and processes everything afterwards."""
    tries: list[float] = []
    made: list[str] = []

    def begin(component: Any) -> None:
        now = component.context.clock.now()
        if 0 < now < 100:
            tries.append(now)
            raise OSError("away")
        made.append("instance")
        if len(made) == 1:
            component.context.create_task(Dying.die(component))

    class MadeBolt(Sink):
        def prepare(self) -> None:
            if method == "prepare":
                begin(self)

    class MadeSpout(Numbers):
        def open(self) -> None:
            super().open()
            if method == "open":
                begin(self)

        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.6)
            super().next_tuple()

    spouts: list[MadeSpout] = []

    def make_spout() -> MadeSpout:
        spouts.append(MadeSpout(20, replays=True))
        return spouts[-1]

    run = play_run(chain(make_spout, MadeBolt))
    assert run.state == "complete"
    assert sorted(spouts[-1].acked) == list(range(20))
    assert len(made) == 2
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert max(pauses) <= 30
    if method == "prepare":
        down = {failure.error for failure in spouts[0].failures}
        assert down <= {"OSError: away", "Loose: background"}
        assert "OSError: away" in down


@pytest.mark.guarantee("SV-3")
def test_during_a_pause_a_stateless_task_forwards_barriers() -> None:
    """Given a stateless bolt that is down for half a minute, then checkpoints of the bolt behind it continue."""
    committed: list[int] = []

    class Counts(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put("count", self.state.get("count", 0) + 1)

        def pre_commit(self, txid: int) -> None:
            committed.append(txid)

    class Passes(Dying):
        output_fields = Fields("number")

        async def prepare(self) -> None:  # type: ignore[override]
            now = self.context.clock.now()
            if 0 < now < 60:
                raise OSError("away")
            if now == 0:
                self.context.create_task(self.die())

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    spout = Numbers(100, replays=True)

    spout = EverySecond(100, replays=True)
    others = EverySecond(100)
    builder = engine.TopologyBuilder("barriers")
    builder.set_spout("source", lambda: spout)
    builder.set_spout("others", lambda: others)
    builder.set_bolt("passes", dying(Passes)).shuffle_grouping("source")
    builder.set_bolt("counts", Counts).shuffle_grouping("passes").shuffle_grouping("others")

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=1000) as run:
            await asyncio.sleep(10)
            before = len(committed)
            await asyncio.sleep(40)
            assert len(committed) - before >= 30
            assert run.snapshot().components["passes"].restarts > 2
            await run.completed()

    play(main)
    assert sorted(spout.acked) == sorted(others.acked) == list(range(100))


@pytest.mark.guarantee("SV-3")
def test_a_stop_during_a_pause_ends_at_once() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(3), dying(DiesForGood), max_spout_pending=1)) as run:
            await asyncio.sleep(0)
            assert run.state == "running"
        assert asyncio.get_running_loop().time() == 0

    async def later() -> None:
        made: list[Any] = []

        class Endless(engine.Spout):
            output_fields = Fields("number")

            def next_tuple(self) -> None:
                made.append(1)

        async with running(chain(Endless, dying(DiesForGood))) as run:
            await asyncio.sleep(20)
            assert run.state == "running"
        assert asyncio.get_running_loop().time() == 20

    play(main)
    play(later)


@pytest.mark.guarantee("SV-3")
def test_a_drain_during_a_pause_of_a_bolt_ends_when_its_inputs_fail() -> None:
    spout = EverySecond(1000)

    async def main() -> None:
        async with running(chain(lambda: spout, dying(DiesForGood)), drain_timeout_secs=100) as run:
            await asyncio.sleep(20.5)
            await run.drain()
            assert run.state == "drained"
            assert asyncio.get_running_loop().time() <= 22

    play(main)
    assert len(spout.acked) + len(spout.failed) >= 20


@pytest.mark.guarantee("SV-3", "ACK-12")
@pytest.mark.parametrize("on_error", ["fail", "restart", "stop"])
@pytest.mark.parametrize("error", [ValueError("bad"), engine.FatalError("worse")])
def test_only_some_exceptions_end_a_run(on_error: Any, error: Exception) -> None:
    class Raises(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise error

    spout = Numbers(200)
    ends = on_error != "fail" or isinstance(error, engine.FatalError)
    outcome: Callable[[], Any] = lambda: play_run(chain(lambda: spout, Raises), Config(on_error=on_error))  # noqa: E731
    if ends:
        with pytest.raises(engine.ComponentError):
            outcome()
    else:
        assert outcome().state == "complete"
        assert sorted(spout.failed) == list(range(200))
