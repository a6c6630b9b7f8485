"""Rows that have failed without an effect are retried alone, and owed across commits, restarts and drains (EO-2, EO-6)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine import Config, Fields, Run, Spout, SpoutExhausted, StateError, Topology, TopologyBuilder, Tuple
from engine.checkpoint import row_retries
from engine.checkpoint.stored_positions import owed_name
from engine.errors import ComponentError
from engine.state import provider_of
from engine.testing import Finished, KillTask, run_topology
from tests.checkpoint.scenarios.kit import Numbers, PassOn, Told, once


class Away(PassOn):
    """Fails the rows of a set, and notes each call."""

    def __init__(self, rows: set[Any], calls: list[Any]) -> None:
        self.rows, self.calls = rows, calls

    def execute(self, tup: Tuple) -> Any:
        self.calls.append(tup["n"])
        if tup["n"] in self.rows:
            raise OSError("away")
        return super().execute(tup)


class World:
    """A topology `numbers` > `p` > `count` with a stored state, through several runs."""

    def __init__(self, folder: Path, spout: Any = None, tasks: int = 1, **settings: Any) -> None:
        self.spout = spout or partial(Numbers, 40, pace_secs=0.1)
        self.tasks, self.told, self.calls = tasks, Told(), list[Any]()
        self.url = f"sqlite:///{folder}/state.db"
        self.config = Config(state_provider=self.url, **{"state_checkpoint_interval_ms": 300, "max_retries": None, **settings})

    def topology(self, failing: set[Any], kind: Any = Away) -> Topology:
        builder = TopologyBuilder("owed")
        builder.set_spout("numbers", self.spout, self.tasks)
        builder.set_bolt("p", partial(kind, failing, self.calls)).shuffle_grouping("numbers")
        builder.set_bolt("count", self.told.create).shuffle_grouping("p")
        return builder.build()

    def run(self, *failing: Any, kind: Any = Away, **how: Any) -> Finished:
        """Run while these rows fail. Forget the calls of the runs before."""
        self.calls.clear()
        return run_topology(self.topology(set(failing), kind), self.config, **how)

    @property
    def counts(self) -> Counter[Any]:
        return self.told.counts()


def recoveries(finished: Finished) -> int:
    assert finished.snapshot.checkpoint is not None
    return finished.snapshot.checkpoint.recoveries


@pytest.mark.guarantee("EO-2", "EO-6")
def test_an_owed_row_is_left_out_of_commits_and_comes_first_in_the_next_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    finished = world.run(5, until=3)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.owed == 1
    assert finished.snapshot.checkpoint.committed > 5
    assert recoveries(finished) == 0
    world.run()
    assert world.calls[0] == 5
    assert world.counts == once(40)
    assert world.run().snapshot.checkpoint.owed == 0  # type: ignore[union-attr]
    assert world.calls == []


@pytest.mark.guarantee("EO-2", "EO-6")
def test_the_tries_of_an_owed_row_are_counted_across_restarts(tmp_path: Path) -> None:
    world = World(tmp_path, partial(Numbers, 100, pace_secs=0.1), max_retries=10)
    world.run(5, until=4)
    before = world.calls.count(5)
    assert before == 7
    world.run(5)
    assert world.calls.count(5) <= 10 - before + 2  # a try of after the last commit, and one that came too early to count
    assert world.counts == once(100) - Counter([5])
    world.run()
    assert world.calls == []


@pytest.mark.guarantee("EO-6")
def test_a_run_ends_only_when_no_row_is_owed(tmp_path: Path) -> None:
    class Recovers(Away):
        def execute(self, tup: Tuple) -> Any:
            if tup["n"] == 5 and self.context.clock.now() > began + 20:
                self.rows.clear()
            return super().execute(tup)

    world, began = World(tmp_path), 0.0

    async def note_begin(run: Run) -> None:
        nonlocal began
        began = asyncio.get_running_loop().time()

    finished = world.run(5, kind=Recovers, during=note_begin)
    assert world.counts == once(40)
    assert finished.secs > 20
    assert finished.state == "complete"
    assert recoveries(finished) == 0


@pytest.mark.guarantee("EO-6", "RUN-4")
def test_a_drain_leaves_owed_rows_to_the_next_run_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def drain(run: Run) -> None:
        await asyncio.sleep(2.05)
        await run.drain(10)

    finished = world.run(5, 7, during=drain)
    assert finished.state == "drained"
    assert finished.secs < 3
    assert finished.snapshot.undone is not None
    assert finished.snapshot.undone.describe() == "2 messages failed and will be tried again by the next run"
    world.run()
    assert sorted(world.calls[:2]) == [5, 7]
    assert world.counts == once(40)


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("at_secs", [1.0, 2.5])
def test_owed_rows_survive_the_death_of_any_task(tmp_path: Path, at_secs: float) -> None:
    for victim in ("numbers", "p", "count", "__acker"):
        folder = tmp_path / victim
        folder.mkdir()
        world = World(folder)
        world.run(5, 12, until=3, faults=[KillTask(victim, at_secs=at_secs)])
        world.run(12, until=0.5, faults=[KillTask(victim, at_secs=0.2)])
        world.run()
        assert world.counts == once(40), victim


# What cannot be owed repeats the interval


class Unstorable(Numbers):
    """Its rows have a value that no store can write."""

    output_fields = Fields("n", "other")

    def next_tuple(self) -> None:
        if self.next >= self.rows:
            raise SpoutExhausted
        self.next += 1
        self.collector.emit((self.next - 1, object()))


class FailsOnce(Away):
    """Fails each row of its set once."""

    def execute(self, tup: Tuple) -> Any:
        try:
            return super().execute(tup)
        finally:
            self.rows.discard(tup["n"])


@pytest.mark.guarantee("EO-6")
def test_a_row_that_cannot_be_stored_repeats_the_interval(tmp_path: Path) -> None:
    world = World(tmp_path, partial(Unstorable, 20))
    assert recoveries(world.run(5, kind=FailsOnce)) == 1
    assert world.counts == once(20)


@pytest.mark.guarantee("EO-6")
def test_too_many_owed_rows_repeat_the_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_retries, "MOST_ROWS", 2)
    world = World(tmp_path)
    assert recoveries(world.run(5, 6, 7, 8, until=2)) > 0
    world.run()
    assert world.counts == once(40)


class ToOneTask(Numbers):
    """Emits its rows directly."""

    output_fields: ClassVar[Any] = {"default": Fields("n", direct=True)}

    def next_tuple(self) -> None:
        if self.next >= self.rows:
            raise SpoutExhausted
        self.next += 1
        self.collector.emit_direct(self.context.task_ids("p")[0], (self.next - 1,))


@pytest.mark.guarantee("EO-6")
def test_a_row_of_a_direct_stream_repeats_the_interval(tmp_path: Path) -> None:
    world = World(tmp_path)
    builder = TopologyBuilder("direct")
    builder.set_spout("numbers", partial(ToOneTask, 20))
    builder.set_bolt("p", partial(FailsOnce, {5}, world.calls)).direct_grouping("numbers")
    builder.set_bolt("count", world.told.create).shuffle_grouping("p")
    assert recoveries(run_topology(builder.build(), world.config)) == 1
    assert world.counts == once(20)


# Other kinds of sources


class WithIds(Numbers):
    """Its rows have message ids, and it notes their acks."""

    acked: ClassVar[list[Any]]

    def __init__(self) -> None:
        super().__init__(20, pace_secs=0.1, ids=True)

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)


@pytest.mark.guarantee("EO-1", "EO-6")
def test_the_source_gets_the_ack_of_an_owed_row_in_the_next_run(tmp_path: Path) -> None:
    spout = type("Ids", (WithIds,), {"acked": []})
    world = World(tmp_path, spout)
    world.run(5, until=1.5)
    assert 5 not in spout.acked
    world.run()
    assert set(spout.acked) == set(range(20))
    assert spout.acked.count(5) == 1


class Halves(Spout):
    """Two partitions of twenty rows, divided over its tasks."""

    output_fields = "n"
    partitioned = True

    def seek(self, position: Mapping[int, int] | None) -> None:
        tasks = len(self.context.task_ids("numbers"))
        self.next = {part: (position or {}).get(part, 20 * part) for part in (0, 1) if part % tasks == self.context.task_index}
        self.due = 0.0

    def position(self) -> dict[int, int]:
        return dict(self.next)

    def next_tuple(self) -> None:
        left = [part for part, n in self.next.items() if n < 20 * part + 20]
        if not left:
            raise SpoutExhausted
        if self.context.clock.now() >= self.due:
            self.due = self.context.clock.now() + 0.05
            for part in left:
                self.next[part] += 1
                self.collector.emit((self.next[part] - 1,))


@pytest.mark.guarantee("EO-6", "EO-8")
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_owed_rows_are_shared_by_another_number_of_tasks(before: int, after: int, tmp_path: Path) -> None:
    world = World(tmp_path, Halves, before)
    world.run(3, 23, until=0.9)
    world.tasks = after
    world.run()
    assert world.counts == once(40)


# The record


async def change_entry(url: str, value: Any) -> None:
    provider = provider_of(url)
    await provider.open("owed")
    ledger = provider.ledger("$checkpoint")
    await ledger.claim()
    await ledger.write({owed_name("numbers"): value})
    await provider.close()


@pytest.mark.guarantee("EO-2")
@pytest.mark.parametrize("entry", ["nonsense", [[0, b"nonsense"]], [[0, b"\xc1", 1]]])
def test_owed_rows_that_cannot_be_read_end_the_start(entry: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(5, until=1.5)
    asyncio.run(change_entry(world.url, entry))
    with pytest.raises((StateError, ComponentError), match="the owed rows of 'numbers' of topology 'owed' cannot be read"):
        world.run()


class OtherFields(Numbers):
    """A later version, whose rows have another field."""

    output_fields = Fields("n", "more")

    def next_tuple(self) -> None:
        raise SpoutExhausted


@pytest.mark.guarantee("EO-6")
def test_an_owed_row_that_no_longer_fits_its_stream_stays_owed_and_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.run(5, until=1.5)
    world.spout, rewinding = partial(OtherFields, 40), world.spout
    finished = world.run(until=30)
    assert any("numbers" in error.text and "more" in error.text for error in finished.errors)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.owed == 1
    world.spout = rewinding
    world.run()
    assert world.counts == once(40)
