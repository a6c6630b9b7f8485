"""Values and methods of `self.context`."""

import asyncio
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, Fields, Spout, TopologyBuilder, Tuple, UsageError
from engine.testing import Capture
from tests.runtime.stage import Endless, Keeper, Numbers, Sink, chain, loop, play, play_run, running


class Curious(Bolt):
    """Records the values of its context."""

    output_fields = {"default": Fields("number"), "late": Fields("number", "by"), "nobody": Fields("a")}
    seen: list[dict[str, Any]] = []

    def prepare(self) -> None:
        context = self.context
        self.seen.append(
            {
                "topology": context.topology_name,
                "component": context.component_id,
                "task": context.task_id,
                "index": context.task_index,
                "tasks": context.tasks,
                "peers": tuple(context.task_ids(context.component_id)),
                "sources": tuple(context.sources()),
                "targets": tuple(context.targets()),
                "late": tuple(context.targets("late")),
                "nobody": tuple(context.targets("nobody")),
                "seed": context.config.seed,
                "now": context.clock.now(),
                "wall": context.clock.wall(),
            }
        )

    def execute(self, tup: Tuple) -> None:
        if self.context.task_index == 0 and len(self.seen) == 2:
            raise ValueError("dies")
        self.collector.ack(tup)


def curious_topology() -> engine.Topology:
    builder = TopologyBuilder("places")
    builder.set_spout("first", lambda: Numbers(20), parallelism=2)
    builder.set_spout("second", Endless)
    builder.set_bolt("curious", Curious, parallelism=2).shuffle_grouping("first").all_grouping("second")
    builder.set_bolt("late", Sink, parallelism=3).shuffle_grouping("curious", stream="late").global_grouping("curious")
    builder.set_bolt("later", Sink).fields_grouping("curious", "by", stream="late")
    return builder.build()


def test_positions_sources_and_targets_are_the_same_after_restarts() -> None:
    Curious.seen = []

    async def main() -> None:
        async with running(curious_topology(), seed=5, on_error="restart"):
            await asyncio.sleep(1)

    play(main)
    first, second, again = Curious.seen
    assert first == {
        "topology": "places", "component": "curious", "task": 4, "index": 0, "tasks": 2, "peers": (4, 5), "sources": (1, 2, 3),
        "targets": (6, 7, 8), "late": (6, 7, 8, 9), "nobody": (), "seed": 5, "now": 0.0, "wall": 1_577_836_800.0,
    }  # fmt: skip
    assert second == first | {"task": 5, "index": 1}
    assert again == first


def test_unknown_names_are_usage_errors_that_name_the_nearest() -> None:
    errors: list[UsageError] = []

    class Asks(Sink):
        output_fields = Fields("number")

        def prepare(self) -> None:
            for ask in (lambda: self.context.task_ids("sorce"), lambda: self.context.targets("defualt")):
                try:
                    ask()
                except UsageError as error:
                    errors.append(error)

    play_run(chain(lambda: Numbers(1), Asks))
    assert "'source'" in str(errors[0])
    assert "'default'" in str(errors[1])


def test_user_metrics_are_in_the_snapshot_and_the_text_and_survive_restarts() -> None:
    class Measures(Bolt):
        def prepare(self) -> None:
            self.words = self.context.counter("words")
            self.depth = self.context.gauge("depth")
            self.sizes = self.context.histogram("sizes")

        def execute(self, tup: Tuple) -> None:
            self.words.add()
            self.words.add(2)
            self.depth.set(tup[0])
            self.sizes.record(tup[0] + 1)
            if tup[0] == 4:
                raise ValueError("dies")
            self.collector.ack(tup)

    run = play_run(chain(lambda: Numbers(10), Measures))
    metrics = {metric.name: metric for metric in run.snapshot().user_metrics}
    assert metrics["words"].value == 30
    assert metrics["words"].labels == ("bolt1", 2)
    assert metrics["depth"].value == 9
    assert metrics["sizes"].value.count == 10  # type: ignore[union-attr]
    text = run.metrics_text()
    assert text.endswith("# EOF\n")
    assert any("words_total" in line and 'component="bolt1"' in line and line.endswith(" 30") for line in text.splitlines()), text


def test_counters_of_different_tasks_are_separate() -> None:
    class Counts(Bolt):
        def execute(self, tup: Tuple) -> None:
            self.context.counter("seen").add()
            self.collector.ack(tup)

    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(10))
    builder.set_bolt("counts", Counts, parallelism=2).shuffle_grouping("source")
    run = play_run(builder.build())
    assert sorted(metric.value for metric in run.snapshot().user_metrics if metric.name == "seen") == [5, 5]


def test_each_task_keeps_and_drops_its_own_metrics_with_labels() -> None:
    class Counts(Bolt):
        def prepare(self) -> None:
            self.seen = {parity: self.context.counter("seen", parity=parity) for parity in ("even", "odd")}

        def execute(self, tup: Tuple) -> None:
            self.seen["odd" if tup[0] % 2 else "even"].add()
            self.collector.ack(tup)
            if tup[0] == 9:
                self.context.drop_metric("seen", parity="even")

    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(10))
    builder.set_bolt("counts", Counts, parallelism=2).all_grouping("source")
    builder.set_bolt("others", Sink).global_grouping("source")
    run = play_run(builder.build())
    found = [(metric.labels, metric.own_labels, metric.value) for metric in run.snapshot().user_metrics]
    assert found == [(("counts", 2), {"parity": "odd"}, 5), (("counts", 3), {"parity": "odd"}, 5)]
    assert 'seen_total{topology="two",component="counts",task="3",parity="odd"} 5' in run.metrics_text()


class Draws(Numbers):
    """Records the numbers of its random generator."""

    drawn: list[tuple[int, float]] = []

    def next_tuple(self) -> None:
        self.drawn.append((self.context.task_id, self.context.random.random()))
        super().next_tuple()


def trail(seed: int | None) -> tuple[list[Any], int | None]:
    """Collect all random results of a run."""
    Draws.drawn = []
    taken: list[Any] = []

    class Bolt2(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            taken.append((self.context.task_id, tup[0], tup.roots, self.context.random.random()))  # type: ignore[attr-defined]
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    builder = TopologyBuilder("random")
    builder.set_spout("source", lambda: Draws(30), parallelism=2)
    builder.set_bolt("one", Bolt2, parallelism=3).shuffle_grouping("source")
    builder.set_bolt("two", Bolt2, parallelism=2).partial_key_grouping("one", "number")
    builder.set_bolt("three", Bolt2, parallelism=2).load_aware_grouping("one")
    run = play_run(builder.build(), Config(seed=seed))
    return [Draws.drawn, taken], run.seed


def test_a_seed_determines_the_run() -> None:
    first, seed = trail(7)
    assert seed == 7
    assert trail(7) == (first, 7)
    assert trail(8)[0] != first


def test_a_drawn_seed_is_shown_and_replays_the_run() -> None:
    first, seed = trail(None)
    assert seed is not None
    assert trail(seed) == (first, seed)


def test_each_task_has_its_own_random_stream() -> None:
    drawn, _ = trail(7)[0]
    by_task = {task: [value for each, value in drawn if each == task] for task in {task for task, _ in drawn}}
    assert len({tuple(values[:5]) for values in by_task.values()}) == 2


def test_create_task_returns_the_task_and_wake_causes_a_poll() -> None:
    class Fetches(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            self.buffer: list[int] = []
            self.acked_at: list[float] = []
            self.work = self.context.create_task(self.fetch())

        async def fetch(self) -> None:
            for number in range(3):
                await asyncio.sleep(1.0005)
                self.buffer.append(number)
                self.context.wake()

        def next_tuple(self) -> None:
            if self.buffer:
                self.collector.emit((self.buffer.pop(0),), 1)
            elif self.work.done():
                raise engine.SpoutExhausted

        def ack(self, message_id: Any) -> None:
            self.acked_at.append(round(loop().time(), 6))

    spout = Fetches()
    play_run(chain(lambda: spout, Sink))
    assert spout.acked_at == [1.0005, 2.001, 3.0015]


@pytest.mark.guarantee("ACK-10")
@pytest.mark.parametrize("call", ["wake", "create_task"])
def test_what_touches_the_loop_raises_on_another_thread(call: str) -> None:
    class Misuses(BasicBolt):
        threads = 1

        def execute(self, tup: Tuple) -> None:
            if call == "wake":
                self.context.wake()
            else:
                self.context.create_task(asyncio.sleep(0))

    spout = Numbers(1)
    snapshot = play_run(chain(lambda: spout, Misuses)).snapshot()
    [error] = snapshot.errors
    assert f"called {call}() on a thread other than the loop's" in error.text
    assert f"loop.call_soon_threadsafe(self.context.{call}" in error.text


class AndGoesOn(Numbers):
    """Is never exhausted, and emits nothing."""

    def next_tuple(self) -> None:
        if self.waiting:
            super().next_tuple()


def test_background_work_is_cancelled_when_the_run_closes() -> None:
    ends: list[str] = []

    class Works(Sink):
        def prepare(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ends.append("work")

        def cleanup(self) -> None:
            ends.append("cleanup")

    play_run(chain(lambda: Numbers(1), Works))
    assert ends == ["work", "cleanup"]


async def interferes() -> None:
    raise KeyError("from another life")


@pytest.mark.guarantee("ACK-12")
def test_the_context_of_a_replaced_instance_starts_no_background_work() -> None:
    contexts: list[Any] = []

    class Dies(Sink):
        def prepare(self) -> None:
            contexts.append(self.context)

        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                raise ValueError("dies")

    async def main() -> None:
        async with running(chain(lambda: AndGoesOn(3), Dies), on_error="restart") as run:
            await asyncio.sleep(1)
            with pytest.raises(UsageError, match=r"bolt .bolt1.: an instance that .* was replaced .* called create_task"):
                contexts[0].create_task(interferes())
            await asyncio.sleep(1)
            assert [report.text for report in run.snapshot().errors] == ["ValueError: dies"]
        with pytest.raises(UsageError, match="whose run has ended"):
            contexts[1].create_task(interferes())

    play(main)
    assert len(contexts) == 2


def test_background_work_cannot_start_while_its_instance_closes() -> None:
    class Late(Sink):
        def cleanup(self) -> None:
            self.context.create_task(interferes())

    run = play_run(chain(lambda: Numbers(1), Late))
    assert [report.text[:50] for report in run.snapshot().errors] == ["UsageError: bolt 'bolt1': an instance that closes,"]


def test_an_exception_of_background_work_during_its_cancellation_is_reported() -> None:
    class Works(Sink):
        def prepare(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                raise OSError("while it ended")

    async def main() -> None:
        async with running(chain(Endless, Works)) as run:
            await asyncio.sleep(1)
        assert [report.text for report in run.snapshot().errors] == ["OSError: while it ended"]

    play(main)


def test_background_emits_of_a_bolt_may_be_anchored_to_unsettled_inputs() -> None:
    class Batches(Keeper):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.context.create_task(self.flush())

        async def flush(self) -> None:
            while True:
                await asyncio.sleep(1)
                await self.collector.ready()
                if self.kept:
                    self.collector.emit((len(self.kept),), self.kept)
                    while self.kept:
                        self.collector.ack(self.kept.pop())

    spout, sink = Numbers(5), Capture()
    play_run(chain(lambda: spout, Batches, sink))
    assert sorted(spout.acked) == [0, 1, 2, 3, 4]
    assert sink.field(0) == [5]


@pytest.mark.parametrize("wrong", [0, -1, 3.5, "x"])
def test_an_unknown_task_cannot_be_killed(wrong: Any) -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            with pytest.raises(UsageError):
                run.kill_task(wrong)

    play(main)
