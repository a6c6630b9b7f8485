"""`run_topology` runs a topology in virtual time to its end or a condition. A seed replays the run."""

import asyncio
from collections.abc import Iterator

import pytest

from engine import BasicBolt, Bolt, ComponentError, Config, Run, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple, UsageError, bolt
from engine.testing import Capture, Feeder, RunUnfinished, VirtualTimeLoop, run_topology, run_topology_async, run_virtual
from tests.runtime.stage import Counting


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


def word_topology(lines: Feeder, sink: Capture) -> Topology:
    builder = TopologyBuilder("words")
    builder.set_spout("lines", lines)
    builder.set_bolt("split", split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("sink", sink, parallelism=2).fields_grouping("split", "word")
    return builder.build()


def endless_topology(sink: Capture | None = None) -> Topology:
    builder = TopologyBuilder("endless")
    builder.set_spout("numbers", Counting, max_spout_pending=10)
    builder.set_bolt("sink", sink or Capture()).shuffle_grouping("numbers")
    return builder.build()


def test_a_finite_topology_runs_until_it_is_complete() -> None:
    lines, sink = Feeder("line"), Capture()
    lines.feed_all([("to be",), ("or not to be",)])
    lines.close()
    finished = run_topology(word_topology(lines, sink))
    assert finished.state == "complete"
    assert sorted(sink.values) == [("be",), ("be",), ("not",), ("or",), ("to",), ("to",)]
    assert finished.captured == {"sink": sink.values}
    assert finished.snapshot.components["split"].acked == 2
    assert finished.errors == ()
    assert lines.acked == [1, 2]


def test_a_time_ends_an_endless_topology() -> None:
    finished = run_topology(endless_topology(), until=2.5)
    assert finished.state == "stopped"
    assert finished.secs == pytest.approx(2.5, abs=0.01)
    assert finished.snapshot.state == "running"
    assert finished.snapshot.components["numbers"].acked > 100


def test_a_run_until_a_time_needs_no_other_limit() -> None:
    finished = run_topology(word_topology(Feeder("line"), Capture()), until=50, limit_secs=20)
    assert finished.secs == pytest.approx(50, abs=0.1)


def test_a_condition_ends_an_endless_topology() -> None:
    sink = Capture()
    finished = run_topology(endless_topology(sink), until=lambda run: len(sink.values) >= 1000)
    assert finished.state == "stopped"
    assert 1000 <= len(sink.values) < 100_000


def test_a_condition_that_never_comes_true_lets_the_run_complete() -> None:
    lines = Feeder("line")
    lines.close()
    assert run_topology(word_topology(lines, Capture()), until=lambda run: False).state == "complete"


def test_a_script_may_feed_during_the_run() -> None:
    lines, sink = Feeder("line"), Capture()

    async def script(run: Run) -> None:
        for line in ("a b", "c"):
            lines.feed((line,))
            await lines.settled()
            await asyncio.sleep(60)
        lines.close()

    finished = run_topology(word_topology(lines, sink), during=script)
    assert finished.secs >= 120
    assert sorted(sink.values) == [("a",), ("b",), ("c",)]


def test_a_script_may_end_the_run() -> None:
    async def script(run: Run) -> None:
        await asyncio.sleep(1)
        await run.stop()

    assert run_topology(endless_topology(), during=script).state == "stopped"


def test_an_exception_of_the_script_ends_the_run_and_is_raised() -> None:
    async def script(run: Run) -> None:
        await asyncio.sleep(1)
        raise AssertionError("not what the test expected")

    with pytest.raises(AssertionError, match="not what the test expected"):
        run_topology(endless_topology(), during=script)


def test_the_error_of_an_unfinished_run_names_the_open_work() -> None:
    lines, sink = Feeder("line"), Capture(settles=False)
    lines.feed(("to be",))
    with pytest.raises(RunUnfinished) as caught:
        run_topology(word_topology(lines, sink), limit_secs=20)
    assert "still running after its limit of 20 s" in str(caught.value)
    assert "1 lines: polling; 0 waiting, 1 open trees" in str(caught.value)


def test_a_script_that_waits_for_ever_is_named() -> None:
    lines = Feeder("line")
    lines.close()

    async def script(run: Run) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RunUnfinished, match=r"the script of the test \(during\) has not returned"):
        run_topology(word_topology(lines, Capture()), during=script, limit_secs=20)


def test_a_component_that_fails_for_good_is_raised() -> None:
    class Broken(BasicBolt):
        def prepare(self) -> None:
            raise OSError("no disk")

        def execute(self, tup: Tuple) -> None:
            """Never called."""

    lines = Feeder("line")
    builder = TopologyBuilder("broken")
    builder.set_spout("lines", lines)
    builder.set_bolt("broken", Broken).shuffle_grouping("lines")
    with pytest.raises(ComponentError, match="no disk"):
        run_topology(builder.build())


def test_errors_of_components_are_kept() -> None:
    @bolt()
    def picky(tup: Tuple) -> None:
        raise ValueError(tup["line"])

    lines = Feeder("line")
    lines.feed(("poison",))
    lines.close()
    builder = TopologyBuilder("picky")
    builder.set_spout("lines", lines)
    builder.set_bolt("picky", picky).shuffle_grouping("lines")
    finished = run_topology(builder.build())
    assert [(report.component_id, report.text) for report in finished.errors] == [("picky", "ValueError: poison")]


# One seed, one run.


class Chatty(Spout):
    """Emits random numbers at random times."""

    output_fields = "number"

    def open(self) -> None:
        self.left = 20

    async def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        self.left -= 1
        await asyncio.sleep(self.context.random.random() / 100)
        self.collector.emit((self.context.random.randrange(1000),), self.left)


class Slow(Bolt):
    """Takes a random time per input, several inputs at once."""

    output_fields = "number"

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(self.context.random.random() / 50)
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


def trace(*, seed: int, shuffle: bool) -> list[tuple[object, ...]]:
    sink = Capture()
    builder = TopologyBuilder("chance")
    builder.set_spout("chatty", Chatty, parallelism=3)
    builder.set_bolt("slow", Slow, parallelism=2, concurrency=4).shuffle_grouping("chatty")
    builder.set_bolt("sink", sink, parallelism=3).load_aware_grouping("slow")
    finished = run_topology(builder.build(), Config(acker_executors=2), seed=seed, shuffle=shuffle)
    assert finished.seed == seed
    arrivals = [(each.tup.values, each.tup.source_task, each.tup.roots, each.task_id, each.secs) for each in sink.arrivals]
    assert len(arrivals) == 60
    return [*arrivals, (finished.secs,)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_seed_replays_a_run_to_the_last_edge(shuffle: bool) -> None:
    assert trace(seed=7, shuffle=shuffle) == trace(seed=7, shuffle=shuffle)
    assert trace(seed=7, shuffle=shuffle) != trace(seed=8, shuffle=shuffle)


def order_of_sources(*, seed: int, shuffle: bool) -> tuple[int, ...]:
    feeder, sink = Feeder("number"), Capture()
    feeder.feed_all([(number,) for number in range(12)])
    feeder.close()
    builder = TopologyBuilder("order")
    builder.set_spout("feed", feeder, parallelism=6)
    builder.set_bolt("sink", sink).global_grouping("feed")
    run_topology(builder.build(), Config(burst=1), seed=seed, shuffle=shuffle)
    return tuple(tup.source_task for tup in sink.tuples)


def test_a_shuffled_schedule_permutes_ready_tasks() -> None:
    assert len({order_of_sources(seed=seed, shuffle=False) for seed in range(5)}) == 1
    assert len({order_of_sources(seed=seed, shuffle=True) for seed in range(5)}) == 5


def test_the_run_uses_the_seed_of_the_config() -> None:
    lines = Feeder("line")
    lines.close()
    assert run_topology(word_topology(lines, Capture()), Config(seed=5)).seed == 5
    lines = Feeder("line")
    lines.close()
    assert run_topology(word_topology(lines, Capture())).seed == 0


# In a running loop


def test_in_a_running_loop_the_error_names_the_async_function() -> None:
    async def main() -> None:
        run_topology(endless_topology())

    with pytest.raises(UsageError, match="run_topology_async"):
        run_virtual(main)


async def test_a_coroutine_runs_a_topology_in_real_time() -> None:
    lines, sink = Feeder("line"), Capture()
    lines.feed(("to be",))
    lines.close()
    finished = await run_topology_async(word_topology(lines, sink), limit_secs=30)
    assert finished.state == "complete"
    assert sorted(sink.values) == [("be",), ("to",)]


def test_a_coroutine_runs_a_topology_in_virtual_time() -> None:
    async def main() -> float:
        finished = await run_topology_async(endless_topology(Capture(settles=False)), Config(message_timeout_secs=1000), until=500)
        assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        return finished.secs

    assert run_virtual(main) == pytest.approx(500, abs=1)
