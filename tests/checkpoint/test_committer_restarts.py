"""Restarts of topologies with a committer: in COMMITTING, with another layout, or with another state (EO-9)."""

import asyncio
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config, FatalError, Run, Topology, TopologyBuilder, bolt
from engine.checkpoint.machine import Record
from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.checkpoint.staged_output import StagedOutputs, StagedTask
from engine.errors import StateError
from engine.state import SealedStores, TaskDelta, provider_of
from engine.testing import run_topology
from engine.transactional import Committer, FileCommitter, SqlCommitter, SqliteDatabase
from engine.transactional.values import ReduceInto, SqliteValues
from tests.checkpoint.scenarios.kit import Numbers, Told, once
from tests.checkpoint.slow_store import Conditions, Disk, SlowProvider
from tests.checkpoint.stored_states import read_with_tools
from tests.checkpoint.test_committers import ROWS, Target, Writing, topology
from tests.checkpoint.test_hostile_committers import Listing

pytestmark = pytest.mark.guarantee("EO-9")


def state_in(folder: Path, **settings: Any) -> Config:
    return Config(state_provider=f"sqlite:///{folder}/state.db", **settings)


class EndsTheRun(Writing):
    """Ends the run in the middle of the first publish of a txid."""

    def finish_batch(self) -> None:
        if self.attempt.txid == 3 and not self.target.trouble:
            self.target.trouble.append(FatalError("the end", hint="none"))
        super().finish_batch()


def ended_in_committing(target: Target, folder: Path, tasks: int = 1) -> None:
    """Run until a committer has ended the run in COMMITTING."""
    with pytest.raises(ComponentError, match="the end"):
        run_topology(topology(lambda: EndsTheRun(target), tasks=tasks), state_in(folder))


class ByTask(Target):
    """A target of several tasks."""

    def write(self, committer: Committer, rows: list[Any]) -> None:
        if self.trouble:
            raise self.trouble.pop()
        place = committer.attempt.txid, committer.context.task_index, committer.context.tasks
        assert self.batches.setdefault(place, rows) == rows  # type: ignore[call-overload]


@pytest.mark.parametrize(("tasks", "then"), [(1, 1), (1, 3), (3, 1), (3, 2), (2, 3)])
def test_a_start_in_committing_publishes_in_the_layout_that_staged(tasks: int, then: int, tmp_path: Path) -> None:
    target = ByTask()
    ended_in_committing(target, tmp_path, tasks)
    target.trouble = []
    run_topology(topology(lambda: Writing(target), tasks=then), state_in(tmp_path))
    assert Counter(target.rows) == once(ROWS)
    assert {tasks_ for txid, _, tasks_ in target.batches if txid == 3} == {tasks}  # type: ignore[misc]


@pytest.mark.parametrize(("tasks", "then"), [(3, 2), (3, 1), (2, 3)])
def test_a_start_in_committing_that_dies_itself_leaves_the_layout_that_staged(tasks: int, then: int, tmp_path: Path) -> None:
    target = ByTask()
    ended_in_committing(target, tmp_path, tasks)
    target.trouble = []
    ended_in_committing(target, tmp_path, then)
    target.trouble = []
    run_topology(topology(lambda: Writing(target), tasks=then), state_in(tmp_path))
    assert Counter(target.rows) == once(ROWS)


def test_a_start_without_the_committer_whose_output_is_not_published_is_refused(tmp_path: Path) -> None:
    target = Target()
    ended_in_committing(target, tmp_path)
    builder = TopologyBuilder("committed")
    builder.set_spout("numbers", partial(Numbers, ROWS))
    builder.set_committer("renamed", lambda: Writing(target)).shuffle_grouping("numbers")
    with pytest.raises(StateError, match=r"'out'.*no such committer"):
        run_topology(builder.build(), state_in(tmp_path))


def test_the_tools_take_staged_output_for_no_state(tmp_path: Path) -> None:
    target, told, builder = Target(), Told(), TopologyBuilder("committed")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("count", told.create).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: EndsTheRun(target)).shuffle_grouping("numbers")
    with pytest.raises(ComponentError, match="the end"):
        run_topology(builder.build(), state_in(tmp_path))
    found = asyncio.run(read_with_tools(f"sqlite:///{tmp_path}/state.db", "committed"))
    assert {component_id for component_id, _, _ in found} == {"count"}


def test_a_committer_that_is_removed_after_its_output_was_published_is_forgotten(tmp_path: Path) -> None:
    target, other = Target(), Target()
    run_topology(topology(lambda: Writing(target), rows=20), state_in(tmp_path))

    def renamed(committer: Any) -> Topology:
        builder = TopologyBuilder("committed")
        builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
        builder.set_committer("renamed", committer).shuffle_grouping("numbers")
        return builder.build()

    other.trouble = []
    with pytest.raises(ComponentError, match="the end"):
        run_topology(renamed(lambda: EndsTheRun(other)), state_in(tmp_path))
    other.trouble = []
    run_topology(renamed(lambda: Writing(other)), state_in(tmp_path))
    assert Counter([*target.rows, *other.rows]) == once(ROWS)


def test_an_interval_without_rows_is_published_after_a_crash_too(tmp_path: Path) -> None:
    """A map refuses a gap between txids, so a missing one would end the run."""

    class Ends(Listing):
        async def publish(self, pieces: Any) -> None:
            if self.attempt.txid == 2 and not ended:
                ended.append(True)
                raise FatalError("the end", hint="none")
            await super().publish(pieces)

    ended: list[bool] = []
    values = SqliteValues(tmp_path / "lists.db", "lists")

    def listing() -> Topology:
        builder = TopologyBuilder("committed")
        builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
        builder.set_bolt("count", Told().create).shuffle_grouping("numbers")
        builder.set_bolt("few", bolt("n")(lambda tup: [(tup["n"],)] if tup["n"] < 10 else [])).shuffle_grouping("numbers")
        builder.set_committer("out", lambda: Ends(values, lambda n: None)).shuffle_grouping("few")
        return builder.build()

    with pytest.raises(ComponentError, match="the end"):
        run_topology(listing(), state_in(tmp_path))
    run_topology(listing(), state_in(tmp_path))

    async def read() -> Counter[int]:
        async with values.reader() as reader:
            return Counter([n async for _, rows in reader.items() for n in rows])

    assert asyncio.run(read()) == once(10)


def test_an_interval_without_rows_of_a_committer_that_stages_nothing_is_published_after_a_crash_too(tmp_path: Path) -> None:
    class Ends(Writing):
        def finish_batch(self) -> None:
            if not self.rows and not ended:
                ended.append(self.attempt)
                raise FatalError("the end", hint="none")
            super().finish_batch()

    ended: list[Any] = []
    target = Target()

    def few() -> Topology:
        builder = TopologyBuilder("committed")
        builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
        builder.set_bolt("few", bolt("n")(lambda tup: [(tup["n"],)] if tup["n"] > 150 else [])).shuffle_grouping("numbers")
        builder.set_committer("out", lambda: Ends(target)).shuffle_grouping("few")
        return builder.build()

    with pytest.raises(ComponentError, match="the end"):
        run_topology(few(), state_in(tmp_path))
    run_topology(few(), state_in(tmp_path))
    assert sorted(target.batches) == list(range(1, len(target.batches) + 1))
    assert target.rows == list(range(151, ROWS))


async def test_the_late_write_of_an_older_round_is_not_what_is_published() -> None:
    disk = Disk()
    provider = SlowProvider(disk, Conditions(random.Random(1)), resident=False)
    stores = SealedStores(provider, "committed", {"out": False}, txid=lambda: 0, bare=False)
    outputs = StagedOutputs("out", 1, StoredEntries({}, "committed"))
    await outputs.open(stores, lambda call: call(), Record())
    newer, older = StagedTask(1, 7, 0, 1, [b"newer"]), StagedTask(1, 4, 0, 1, [b"older"])
    await outputs.stage(newer)
    await outputs.stage(older)
    assert outputs.unpublished(0, 1) == [newer]
    await outputs.drop(newer)
    await outputs.stage(older)
    assert outputs.unpublished(0, 1) == [], "published once more, because another task has to publish again"


def test_a_second_run_without_a_durable_store_is_told_of_it(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "rows.db").execute("CREATE TABLE rows (n INTEGER)").connection.close()
    run_topology(topology(_sql(tmp_path)))
    with pytest.raises(ComponentError, match=r"memory:// forgets.*Set state_provider to a durable store"):
        run_topology(topology(_sql(tmp_path)))


def _sql(folder: Path) -> SqlCommitter:
    return SqlCommitter(SqliteDatabase(folder / "rows.db"), "INSERT INTO rows VALUES ($1)", fields="n", key="n")


COMMITTERS: dict[str, Any] = {
    "values": lambda folder: ReduceInto(SqliteValues(folder / "totals.db", "totals"), key="n"),
    "sql": _sql,
    "files": lambda folder: FileCommitter(folder / "out"),
}


@pytest.mark.parametrize("kind", COMMITTERS)
@pytest.mark.parametrize("lost", ["nothing", r"checkpoint \d+"])
def test_a_target_that_is_ahead_of_the_state_is_refused_with_both_numbers(kind: str, lost: str, tmp_path: Path) -> None:
    """A txid that is one behind is the dangerous one: the target would take the next interval for one that it has."""
    sqlite3.connect(tmp_path / "rows.db").execute("CREATE TABLE rows (n INTEGER)").connection.close()
    committer = COMMITTERS[kind](tmp_path)
    if lost != "nothing":
        run_topology(topology(committer, rows=20), state_in(tmp_path))
        shutil.copy(tmp_path / "state.db", tmp_path / "older.db")
    run_topology(topology(committer, rows=40), state_in(tmp_path))
    (tmp_path / "state.db").unlink()
    if lost != "nothing":
        shutil.move(tmp_path / "older.db", tmp_path / "state.db")
    with pytest.raises(ComponentError, match=rf"has the output of checkpoint \d+, but the state provider has committed {lost}"):
        run_topology(topology(committer), state_in(tmp_path))


@pytest.mark.parametrize("kind", COMMITTERS)
def test_a_target_that_lacks_what_a_run_without_its_committer_has_committed_is_refused_before_anything_is_decided(
    kind: str, tmp_path: Path
) -> None:
    """Refused by the target in its COMMIT only, the run could start neither with the committer nor without it. A folder has no gaps."""
    sqlite3.connect(tmp_path / "rows.db").execute("CREATE TABLE rows (n INTEGER)").connection.close()
    committer = COMMITTERS[kind](tmp_path)
    run_topology(topology(committer, rows=20), state_in(tmp_path))
    other = Target()
    run_topology(topology(lambda: Writing(other), rows=40, name="other"), state_in(tmp_path))
    if kind == "files":
        run_topology(topology(committer), state_in(tmp_path))
        return
    with pytest.raises(ComponentError, match=r"has the output of checkpoint \d+, and lacks what was committed since, up to checkpoint \d+"):
        run_topology(topology(committer), state_in(tmp_path))
    run_topology(topology(lambda: Writing(other), name="other"), state_in(tmp_path))
    assert Counter(other.rows) == Counter(range(20, ROWS))


@pytest.mark.parametrize("kind", ["values", "sql"])
def test_a_task_with_nothing_to_publish_does_not_miss_what_the_others_still_publish(kind: str, tmp_path: Path) -> None:
    """Given a start in COMMITTING with more tasks than before, then the new ones compare the txids while the others publish."""
    sqlite3.connect(tmp_path / "rows.db").execute("CREATE TABLE rows (n INTEGER)").connection.close()
    committer, ended = COMMITTERS[kind](tmp_path), []

    class Ends:
        def create(self) -> Any:
            made = committer.create()

            async def end(*args: Any) -> None:
                if made.attempt.txid == 3:
                    ended.append(True)
                    raise FatalError("the end", hint="none")
                await finish(*args)

            name = "publish" if hasattr(made, "publish") else "finish_batch"
            finish = getattr(made, name)
            setattr(made, name, end)
            return made

    with pytest.raises(ComponentError, match="the end"):
        run_topology(topology(Ends(), rows=40), state_in(tmp_path))
    assert ended
    run_topology(topology(committer, tasks=3), state_in(tmp_path))


@pytest.mark.parametrize("ending", ["drain", "stop"])
def test_after_an_early_end_the_next_run_continues(ending: str, tmp_path: Path) -> None:
    target = Target()

    async def end(run: Run) -> None:
        await asyncio.sleep(2.33)
        await getattr(run, ending)()

    run_topology(topology(lambda: Writing(target)), state_in(tmp_path), during=end)
    assert 0 < len(target.rows) < ROWS
    run_topology(topology(lambda: Writing(target)), state_in(tmp_path))
    assert target.rows == list(range(ROWS))


# Output that was staged and never counted


async def stage_in(url: str, component_id: str, task_index: int, txid: int, round_: int) -> None:
    """Stage output as a process does that dies in its PREPARE."""
    provider = provider_of(url)
    await provider.open("committed")
    await provider.ledger(LEDGER).claim()
    stores = SealedStores(provider, "committed", {component_id: False}, txid=lambda: txid, bare=False)

    async def blobs() -> AsyncIterator[bytes]:
        yield b"never counts"

    store = await stores.store(component_id, task_index, range(task_index, task_index + 1))
    await store.stage(txid, round_, blobs())
    await provider.close()


async def staged_in(url: str, component_id: str) -> list[TaskDelta]:
    async with provider_of(url).inventory().look("committed") as stored:
        return await stored.deltas(component_id)


def ends_at_its_first_row() -> Any:
    def end(n: int) -> None:
        raise FatalError("the end", hint="none")

    return Writing(ByTask(), end)


def newest_txid(target: Target) -> int:
    return max(place[0] for place in target.batches) - 1  # type: ignore[index]


@pytest.mark.parametrize("behind", [0, 1])
def test_output_that_never_counted_is_dropped_although_its_task_exists_no_longer(behind: int, tmp_path: Path) -> None:
    """behind: the staged txid is the last committed one, of a round that does not count, or the next one."""
    leave_output_of_a_task_that_is_gone(behind, state_in(tmp_path))


def leave_output_of_a_task_that_is_gone(behind: int, config: Config) -> None:
    """Run with one task, with four that commit nothing, and with one again."""
    target = ByTask()
    run_topology(topology(lambda: Writing(target), rows=40), config)
    with pytest.raises(ComponentError, match="the end"):
        run_topology(topology(ends_at_its_first_row, tasks=4), config)
    asyncio.run(stage_in(config.state_provider, "out", 3, newest_txid(target) + behind, 1000))
    assert asyncio.run(staged_in(config.state_provider, "out"))
    run_topology(topology(lambda: Writing(target)), config)
    assert asyncio.run(staged_in(config.state_provider, "out")) == []
    assert Counter(target.rows) == once(ROWS)


def test_output_that_never_counted_is_dropped_although_its_committer_is_gone(tmp_path: Path) -> None:
    target, other, config = ByTask(), Target(), state_in(tmp_path)
    with pytest.raises(ComponentError, match="the end"):
        run_topology(topology(ends_at_its_first_row, tasks=2), config)
    asyncio.run(stage_in(config.state_provider, "out", 1, 0, 1000))
    found = asyncio.run(read_with_tools(config.state_provider, "committed"))
    assert found == {}, "it is no state"
    run_topology(topology(lambda: Writing(other), rows=20, name="other"), config)
    assert asyncio.run(staged_in(config.state_provider, "out")) == []
    run_topology(topology(lambda: Writing(target)), config)
    assert target.rows == list(range(20, ROWS))
