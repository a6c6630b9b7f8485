"""Successive runs with state on the same store: continuation, refusals, and messages (CP-4, CP-8, CP-9, GRP-5)."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine import (
    BasicBolt,
    Bolt,
    ComponentError,
    Config,
    Fields,
    Run,
    StateError,
    StatefulBasicBolt,
    StatefulBolt,
    TopologyBuilder,
    TopologyError,
    Tuple,
)
from engine.testing import Feeder, Finished, InjectedError, KillTask, RaiseError, run_topology
from tests.checkpoint.world import ReplayingSpout, Source

WORDS = [("a",), ("b",), ("a",), ("c",), ("a",)]


class Count(StatefulBasicBolt):
    """Counts words, and emits each new count."""

    output_fields = Fields("word", "count")

    def execute(self, tup: Tuple) -> tuple[str, int]:
        count = self.state.get(tup["word"], 0) + 1
        self.state.put(tup["word"], count)
        return tup["word"], count


class Sink(BasicBolt):
    """Receives the counts."""

    def execute(self, tup: Tuple) -> None:
        return None


def count_words(
    words: Sequence[tuple[str, ...]],
    url: str,
    *,
    tasks: int = 2,
    grouping: str = "fields",
    bolt: Any = Count,
    name: str = "words",
    faults: Any = (),
    **settings: Any,
) -> Finished:
    feeder, builder = Feeder("word"), TopologyBuilder(name)
    feeder.feed_all(words)
    feeder.close()
    builder.set_spout("feed", feeder)
    declarer = builder.set_bolt("count", bolt, parallelism=tasks)
    if grouping == "fields":
        declarer.fields_grouping("feed", "word")
    else:
        declarer.shuffle_grouping("feed")
    if bolt is Count:
        builder.set_bolt("sink", Sink).global_grouping("count")
    finished = run_topology(builder.build(), Config(state_provider=url, **settings), faults=faults)
    assert finished.state == "complete"
    return finished


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/state.db"


@pytest.mark.guarantee("CP-4", "CP-8")
def test_a_second_run_continues_with_the_state_of_the_first(tmp_path: Path) -> None:
    first = count_words(WORDS, url_of(tmp_path))
    second = count_words(WORDS, url_of(tmp_path))

    assert first.snapshot.checkpoint is not None
    assert second.snapshot.checkpoint is not None
    assert second.snapshot.checkpoint.txid > first.snapshot.checkpoint.txid >= 0
    told: Counter[str] = Counter()
    third = count_words([("a",), ("b",), ("c",)], url_of(tmp_path), bolt=lambda: RecordsCounts(told))
    assert third.state == "complete"
    assert told == {"a": 7, "b": 3, "c": 3}


class RecordsCounts(Count):
    """Records every count."""

    def __init__(self, told: Counter[str]) -> None:
        self.told = told

    def execute(self, tup: Tuple) -> tuple[str, int]:
        word, count = super().execute(tup)
        self.told[word] = count
        return word, count


@pytest.mark.guarantee("CP-9")
def test_after_a_change_of_parallelism_every_key_exists_once(tmp_path: Path) -> None:
    words = [(f"w{number}",) for number in range(200)]
    for run, tasks in enumerate((2, 3, 8, 1), 1):
        told: Counter[str] = Counter()
        count_words(words, url_of(tmp_path), tasks=tasks, bolt=lambda told=told: RecordsCounts(told))
        assert set(told.values()) == {run}
        assert len(told) == 200


@pytest.mark.guarantee("CP-9")
def test_a_change_that_would_lose_stored_rows_is_refused(tmp_path: Path) -> None:
    count_words(WORDS, url_of(tmp_path), grouping="shuffle", bolt=Remembers, name="shuffled")
    with pytest.raises(StateError, match=r"stored by 2 tasks, and the bolt now has 3.*\nFix: Keep parallelism=2"):
        count_words(WORDS, url_of(tmp_path), grouping="shuffle", bolt=Remembers, name="shuffled", tasks=3)
    with pytest.raises(StateError, match="stored with another grouping than fields groupings, and the bolt is now without one"):
        count_words(WORDS, url_of(tmp_path), grouping="fields", bolt=Remembers, name="shuffled")

    count_words(WORDS, url_of(tmp_path))
    with pytest.raises(StateError, match=r"in 128 key groups, and this run has 64.*\nFix: Run it with Config\(key_groups=128\)"):
        count_words(WORDS, url_of(tmp_path), key_groups=64)
    with pytest.raises(StateError, match=r"state_codec='msgpack', and this run has 'pickle'"):
        count_words(WORDS, url_of(tmp_path), state_codec="pickle")


class Remembers(StatefulBolt):
    """Keeps the last word."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put("last", tup["word"])
        self.collector.ack(tup)


@pytest.mark.guarantee("CP-8")
def test_two_topologies_in_one_file_do_not_share_state(tmp_path: Path) -> None:
    count_words(WORDS, url_of(tmp_path), name="one")
    told: Counter[str] = Counter()
    count_words(WORDS, url_of(tmp_path), name="two", bolt=lambda: RecordsCounts(told))
    assert told == {"a": 3, "b": 1, "c": 1}


@pytest.mark.guarantee("CP-9")
def test_the_error_for_a_key_of_another_task_names_the_key() -> None:
    class Strays(Count):
        def execute(self, tup: Tuple) -> tuple[str, int]:
            for number in range(50):
                self.state.put(f"other {number}", 1)
            return super().execute(tup)

    finished = count_words([("a",)], "memory://", bolt=Strays, tasks=8, on_error="fail")
    [report] = finished.errors[:1]
    assert "the key 'other" in report.text
    assert "which is not one of this task" in report.text


@pytest.mark.guarantee("CP-4", "CP-5")
@pytest.mark.parametrize("hook", ["init_state", "pre_prepare", "pre_commit"])
def test_a_hook_that_raises_once_ends_an_instance_and_loses_no_count(hook: str) -> None:
    told: Counter[str] = Counter()
    finished = count_words(WORDS, "memory://", bolt=lambda: RecordsCounts(told), faults=[RaiseError("count", at_call=1, method=hook)])

    assert [type(each.error) if hasattr(each, "error") else each.text.split(":")[0] for each in finished.errors[:1]] in (
        [InjectedError],
        ["InjectedError"],
    )
    assert all(told[word] >= count for word, count in Counter(word for (word,) in WORDS).items())


def replay_words(bolt: Any, *, until: float | None = None, during: Any = None, **settings: Any) -> Finished:
    """Run a bolt behind a source that replays failed tuples."""
    source = Source("s", [f"s:{number}" for number in range(10)])
    builder = TopologyBuilder("replayed")
    builder.set_spout("source", lambda: ReplayingSpout(source))
    builder.set_bolt("count", bolt).fields_grouping("source", "message")
    return run_topology(builder.build(), Config(**settings), until=until, during=during)


@pytest.mark.guarantee("CP-4", "ACK-12")
def test_with_restart_a_hook_that_always_raises_ends_the_run_with_its_error() -> None:
    class Breaks(Count):
        def execute(self, tup: Tuple) -> Any:
            self.state.put(tup["message"], 1)

        def pre_prepare(self, txid: int) -> None:
            raise ValueError("no room")

    with pytest.raises(ComponentError, match="no room"):
        replay_words(Breaks, on_error="restart")


@pytest.mark.guarantee("EO-5")
def test_a_call_that_hangs_does_not_hold_up_its_own_rollback() -> None:
    """Given a bolt whose call never returns, each checkpoint times out after a second, and the recovery takes no time."""
    recoveries: list[float] = []

    class Hangs(Count):
        async def execute(self, tup: Tuple) -> Any:  # type: ignore[override]
            await asyncio.sleep(1000)

    async def watch(run: Run) -> None:
        while len(recoveries) < 10:
            checkpoint = run.snapshot().checkpoint
            assert checkpoint is not None
            recoveries.extend([asyncio.get_running_loop().time()] * (checkpoint.recoveries - len(recoveries)))
            await asyncio.sleep(0.01)
        await run.stop()

    replay_words(Hangs, during=watch, checkpoint_timeout_secs=1.0)
    intervals = [after - before for before, after in pairwise(recoveries)]
    assert all(0.95 <= interval < 2.2 for interval in intervals), intervals


@pytest.mark.guarantee("CP-4", "SV-3")
def test_a_hook_that_raises_for_two_minutes_does_not_end_the_run_and_loses_no_word() -> None:
    failing_until = 120.0

    class Recovers(Count):
        def execute(self, tup: Tuple) -> Any:
            self.state.put(tup["message"], 1)

        def pre_prepare(self, txid: int) -> None:
            if self.context.clock.now() < failing_until:
                raise ValueError("no room")

    finished = replay_words(Recovers)
    assert finished.state == "complete"
    assert finished.secs > failing_until
    components = finished.snapshot.components
    assert components["source"].acked == 10
    assert 3 <= components["count"].restarts < 40, "the pauses must grow"
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.committed > 0


@pytest.mark.guarantee("CP-6", "CP-7")
def test_a_value_that_cannot_be_stored_is_reported_with_its_key_and_with_restart_ends_the_run() -> None:
    class Unstorable(Count):
        def execute(self, tup: Tuple) -> Any:
            self.state.put(tup["message"], object())

    named = r"'count': the value of key 's:\d' cannot be stored: a value of type object"
    with pytest.raises(ComponentError, match=named):
        replay_words(Unstorable, on_error="restart")
    finished = replay_words(Unstorable, until=3)
    assert finished.state == "stopped"
    assert re.search(named, finished.errors[0].text)


@pytest.mark.guarantee("CP-5")
def test_a_task_that_dies_before_its_first_checkpoint_loses_no_word() -> None:
    told: Counter[str] = Counter()
    finished = count_words(WORDS, "memory://", bolt=lambda: RecordsCounts(told), tasks=1, faults=[KillTask("count", at_call=3)])
    assert finished.strikes
    assert all(told[word] >= count for word, count in Counter(word for (word,) in WORDS).items())


@pytest.mark.guarantee("GRP-5")
def test_state_without_tracked_tuples_is_refused() -> None:
    with pytest.raises(TopologyError, match="state needs tracked tuples, and acker_executors=0 switches tracking off"):
        count_words(WORDS, "memory://", acker_executors=0)


@pytest.mark.guarantee("GRP-5")
def test_a_cycle_and_concurrency_are_refused_with_state() -> None:
    class Loops(Bolt):
        output_fields = Fields("word")

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)

    builder = TopologyBuilder("loops")
    builder.set_spout("feed", Feeder("word"))
    builder.set_bolt("loop", Loops).shuffle_grouping("feed").shuffle_grouping("back")
    builder.set_bolt("back", Loops).shuffle_grouping("loop")
    builder.set_bolt("count", Count, concurrency=2).fields_grouping("loop", "word")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    assert "a barrier cannot pass the cycle 'loop' → 'back' → 'loop'" in str(caught.value)
    assert "bolt 'count': a stateful bolt takes one input at a time" in str(caught.value)


@pytest.mark.guarantee("CP-8")
@pytest.mark.parametrize("url", ["sqlite://x.db", "nowhere://x", "memory://x", "sqlite:////no/such/state.db", "tests.no_such:provider"])
def test_an_invalid_provider_is_refused(url: str) -> None:
    with pytest.raises(StateError) as caught:
        count_words(WORDS, url)
    assert caught.value.hint
