"""Bolts of transactions work in processes as in the run (PR-1 to PR-3, TX-1 to TX-8)."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config, FatalError, TaskContext, TopologyError, Tuple, run
from engine.dead_letters import DeadLettersEntry
from engine.kernel import TaskBatch
from engine.runtime.processes import batch_process
from engine.runtime.processes.batch_process import _Sent
from engine.testing import Finished, run_topology
from engine.transactional import BatchBolt, BatchCollector, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.values import MemoryValues, ReduceInto, SqliteValues
from tests.processes import batch_bolts, bolts, plugin_bolts
from tests.transactional.batch_topologies import Batches, BatchesEmitter

BATCHES = [list(range(10 * count)) for count in (1, 2, 0, 3)]


class Play:
    """A run of batches of numbers through one bolt, into a bolt of the run that keeps what it gets."""

    def __init__(
        self,
        bolt: Any,
        batches: list[list[int]] = BATCHES,
        *,
        processes: bool = True,
        parallelism: int = 2,
        keyed: bool = False,
        **config: Any,
    ) -> None:
        self.by_attempt: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        builder = TransactionalTopologyBuilder("play", "numbers", Batches(batches), config=Config(**config), max_spout_pending=3)
        builder.set_bolt("bolt", bolt, parallelism=parallelism, processes=processes).fields_grouping("numbers", "number")
        seen = builder.set_bolt("seen", lambda: Keeps(self.by_attempt))
        if keyed:
            seen.fields_grouping("bolt", "number")
        else:
            seen.global_grouping("bolt")
        self.topology = builder.build()

    def play(self) -> Finished:
        """Run to completion in virtual time."""
        return run_topology(self.topology)

    def play_live(self) -> Any:
        """Run to completion on a real loop, and return the last snapshot."""

        async def main() -> Any:
            async with asyncio.timeout(60), run(self.topology) as running:
                await running.completed()
                return running.snapshot()

        return asyncio.run(main())

    @property
    def values(self) -> dict[int, list[tuple[Any, ...]]]:
        """The values of the last attempt of each batch, sorted."""
        last = {attempt.txid: attempt for attempt in sorted(self.by_attempt)}
        return {txid: sorted(self.by_attempt[attempt]) for txid, attempt in last.items()}


class RefusesThree:
    """A grouping that raises an error at the number 3."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Sequence[Any]) -> Sequence[int]:
        if values[-1] == 3:
            raise self.error
        return self.targets[:1]


class Keeps(BatchBolt):
    """Keeps the values of each attempt."""

    output_fields = ()

    def __init__(self, by_attempt: dict[Any, list[tuple[Any, ...]]]) -> None:
        self.by_attempt = by_attempt

    def execute(self, tup: Tuple) -> None:
        self.by_attempt[self.attempt].append(tup.values[1:])

    def finish_batch(self) -> None:
        """Do nothing."""


ONES = {txid: [(number + 1,) for number in batch] for txid, batch in enumerate(BATCHES, 1) if batch}


@pytest.mark.guarantee("PR-1", "TX-5")
@pytest.mark.parametrize(
    "bolt",
    [
        batch_bolts.Doubles,
        batch_bolts.Waiting,
        batch_bolts.InBursts,
        batch_bolts.PlusOne,
        batch_bolts.SlowPlusOne,
        batch_bolts.PlusOneInThreads,
    ],
)
def test_each_kind_of_bolt_gives_the_same_batches_as_in_the_run(bolt: Any) -> None:
    here, there = Play(bolt, processes=False), Play(bolt)
    here.play()
    finished = there.play()
    assert there.values == here.values
    assert len(here.values) == 4 if bolt not in (batch_bolts.PlusOne, batch_bolts.SlowPlusOne, batch_bolts.PlusOneInThreads) else 3
    assert len(there.by_attempt) == len(there.values), "no batch has needed a second attempt"
    tasks = finished.snapshot.components["bolt"].tasks
    assert sum(task.executed for task in tasks) == 60
    assert sum(task.failed for task in tasks) == 0


@pytest.mark.guarantee("PR-1", "TX-2")
def test_a_committer_commits_in_order_in_its_process() -> None:
    play = Play(batch_bolts.Total, parallelism=1)
    play.play()
    assert [(txid, [total for total, _ in rows]) for txid, rows in play.values.items()] == [(1, [45]), (2, [190]), (3, [0]), (4, [435])]
    [pid] = {pid for rows in play.values.values() for _, pid in rows}
    assert pid != os.getpid()


@pytest.mark.guarantee("PR-1")
def test_streams_and_direct_tuples() -> None:
    even: dict[Any, list[Any]] = defaultdict(list)
    odd: dict[Any, list[Any]] = defaultdict(list)
    builder = TransactionalTopologyBuilder("streams", "numbers", Batches([[0, 1, 2, 3, 4]]))
    builder.set_bolt("parts", batch_bolts.Parts, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("evens", lambda: Keeps(even)).shuffle_grouping("parts", "even")
    builder.set_bolt("odds", lambda: Keeps(odd), parallelism=2).direct_grouping("parts", "odd")
    run_topology(builder.build())
    assert list(even.values()) == [[(0,), (2,), (4,)]]
    assert list(odd.values()) == [[(1,), (3,)]]


@pytest.mark.guarantee("PR-1", "TX-6")
@pytest.mark.parametrize(("how", "reported"), [("refuse", 0), ("raise", 1), ("finish", None)])
def test_a_batch_that_fails_in_a_process_is_tried_again(
    how: str, reported: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play = Play(partial(batch_bolts.Once, str(tmp_path / "done"), how), process_timeout_secs=None)
    finished = play.play() if how != "finish" else play.play_live()
    assert play.values == {txid: [(number,) for number in batch] for txid, batch in enumerate(BATCHES, 1) if batch}
    if reported is None:  # the process has died
        assert "was killed by SIGKILL" in caplog.text
        return
    assert ("ValueError: broken once" in caplog.text) == bool(reported)
    assert finished.snapshot.components["bolt"].errors == reported


@pytest.mark.guarantee("PR-1", "SV-3")
def test_a_fatal_error_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"the license has ended"):
        Play(partial(batch_bolts.Once, str(tmp_path / "done"), "fatal")).play()


@pytest.mark.guarantee("PR-1", "SV-3")
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("error", [FatalError("3 has no task"), SystemExit("3 has no task")])
def test_an_error_of_a_grouping_that_ends_the_run(error: BaseException, processes: bool) -> None:
    builder = TransactionalTopologyBuilder("fatal", "numbers", Batches(BATCHES))
    builder.set_bolt("bolt", batch_bolts.PlusOne, processes=processes).shuffle_grouping("numbers")
    builder.set_bolt("seen", lambda: Keeps(defaultdict(list))).custom_grouping("bolt", RefusesThree(error))
    with pytest.raises(ComponentError, match=r"'bolt' .*3 has no task"):
        run_topology(builder.build())


@pytest.mark.guarantee("PR-2", "TX-3")
@pytest.mark.parametrize(
    ("how", "text"), [("kill", "was killed by SIGKILL"), ("hang", "has hung for 1 s (process_timeout_secs) and was killed")]
)
def test_a_child_that_dies_fails_its_batches_and_is_replaced(how: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    play = Play(partial(batch_bolts.Once, str(tmp_path / "done"), how), process_timeout_secs=1)
    snapshot = play.play_live()
    assert play.values == {txid: [(number,) for number in batch] for txid, batch in enumerate(BATCHES, 1) if batch}
    assert text in caplog.text
    assert sum(task.restarts for task in snapshot.components["bolt"].tasks) == 1


@pytest.mark.guarantee("PR-2", "TX-3", "TX-8")
def test_a_child_that_dies_in_a_commit_commits_again(tmp_path: Path) -> None:
    play = Play(partial(batch_bolts.DiesInCommit, str(tmp_path / "done")), parallelism=1)
    play.play_live()
    assert [(txid, [total for total, _ in rows]) for txid, rows in play.values.items()] == [(1, [45]), (2, [190]), (3, [0]), (4, [435])]


@pytest.mark.guarantee("PR-1", "TX-8")
def test_a_committer_in_a_process_stores_each_batch_once(tmp_path: Path) -> None:
    sums = SqliteValues(tmp_path / "sums.db", "sums")
    builder = TransactionalTopologyBuilder("sums", "numbers", Batches(BATCHES), max_spout_pending=3)
    builder.set_bolt("once", partial(batch_bolts.Once, str(tmp_path / "done"), "kill"), processes=True).shuffle_grouping("numbers")
    builder.set_bolt("sums", ReduceInto(sums, key="number", value="number"), 2, processes=True).fields_grouping("once", "number")
    topology = builder.build()

    async def main() -> dict[Any, Any]:
        async with asyncio.timeout(60), run(topology) as running:
            await running.completed()
        async with sums.reader() as reader:
            return {key: value async for key, value in reader.items()}

    stored = asyncio.run(main())
    assert stored == {number: number * sum(number in batch for batch in BATCHES) for number in range(30)}


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("odd", [bolts.Unpicklable, bolts.Unreadable, plugin_bolts.thing, batch_bolts.unhashable])
def test_a_batch_fails_if_one_of_its_emitted_tuples_cannot_be_sent(odd: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    by_attempt: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    builder = TransactionalTopologyBuilder("odd", "numbers", Batches(BATCHES), max_spout_pending=2)
    emits = partial(batch_bolts.EmitsOnce, str(tmp_path / "done"), odd)
    builder.set_bolt("bolt", emits, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("seen", lambda: Keeps(by_attempt), 2).fields_grouping("bolt", "number")
    finished = run_topology(builder.build())
    last = {attempt.txid: attempt for attempt in sorted(by_attempt)}
    assert {txid: sorted(by_attempt[attempt]) for txid, attempt in last.items()} == {
        txid: [(number,) for number in batch] for txid, batch in enumerate(BATCHES, 1) if batch
    }
    assert finished.snapshot.components["bolt"].errors == 1
    assert "bolt 'bolt'" in caplog.text


@pytest.mark.guarantee("PR-1", "TX-6")
@pytest.mark.parametrize("odd", [bolts.Unpicklable, bolts.Unreadable, plugin_bolts.thing, batch_bolts.unhashable])
def test_an_attempt_with_many_tuples_that_cannot_be_sent_is_one_error(odd: Any, tmp_path: Path) -> None:
    play = Play(partial(batch_bolts.FailsOften, str(tmp_path / "fails"), 1, odd), [list(range(3000))], parallelism=1, keyed=True)
    finished = play.play()
    assert play.values == {1: [(number,) for number in range(3000)]}
    assert finished.snapshot.components["bolt"].errors == 1
    assert finished.snapshot.components["bolt"].emitted < 3000 + 2 * 3000, "the failed attempt has sent its rest to nobody"


@pytest.mark.guarantee("PR-1", "TX-6")
def test_a_batch_fails_if_one_of_its_inputs_cannot_be_sent(caplog: pytest.LogCaptureFixture) -> None:
    class SocketOnce(BatchesEmitter):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
            super().emit_batch(attempt, metadata, collector)
            if len(self.spout.emitted) == 1:
                collector.emit((bolts.Unpicklable(),))

    by_attempt: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    builder = TransactionalTopologyBuilder("input", "numbers", Batches([[1, 2]], emitter=SocketOnce))
    builder.set_bolt("bolt", batch_bolts.Count, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("seen", lambda: Keeps(by_attempt)).shuffle_grouping("bolt")
    run_topology(builder.build())
    assert list(by_attempt.values()) == [[(2,)]]
    assert "a value of its input cannot be pickled" in caplog.text
    assert "its batch fails, and is tried again" in caplog.text


@pytest.mark.guarantee("PR-1", "TX-3")
def test_the_run_forgets_failed_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0

    class Watched(_Sent):
        def begin(self, attempt: Any) -> TaskBatch:
            nonlocal most
            most = max(most, len(self.feed.batches))
            return super().begin(attempt)

    monkeypatch.setattr(batch_process, "_Sent", Watched)
    play = Play(partial(batch_bolts.FailsOften, str(tmp_path / "fails"), 20), parallelism=1)
    play.play()
    assert play.values == {txid: [(number,) for number in batch] for txid, batch in enumerate(BATCHES, 1) if batch}
    assert len(play.by_attempt) > 10
    assert most <= 3, "the numbers of each open batch"


@pytest.mark.guarantee("PR-1")
def test_metrics_logs_and_cleanups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    play = Play(partial(batch_bolts.Notes, str(tmp_path / "notes")), parallelism=1)
    finished = play.play()
    assert sorted((tmp_path / "notes").read_text().split()) == ["1", "2", "3", "4"]
    assert {f"batch {txid} is done" for txid in range(1, 5)} <= {record.getMessage() for record in caplog.records}
    [seen] = [metric for metric in finished.snapshot.user_metrics if metric.name == "seen"]
    assert seen.value == 60


@pytest.mark.guarantee("PR-1")
def test_build_tells_what_cannot_go_to_a_process() -> None:
    builder = TransactionalTopologyBuilder("refused", "numbers", Batches(BATCHES))
    builder.set_bolt("sums", ReduceInto(MemoryValues("sums"), value="number"), processes=True).global_grouping("numbers")
    builder.set_bolt("lambda", lambda: batch_bolts.Doubles(), processes=True).shuffle_grouping("numbers")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    assert "bolt 'sums': with processes=True its factory must be picklable" in str(caught.value)
    assert "the map 'sums' in memory exists in one process only" in str(caught.value)
    assert "bolt 'lambda': with processes=True its factory must be picklable" in str(caught.value)


@pytest.mark.guarantee("TX-13", "DL-1", "PR-1")
@pytest.mark.parametrize("bolt", [batch_bolts.RaisesAtSevens, batch_bolts.RaisesInBurstsAtSevens, batch_bolts.RaisesAwaitedAtSevens])
def test_rows_that_keep_failing_in_a_process_are_given_up(bolt: Any, tmp_path: Path) -> None:
    play = Play(bolt, [list(range(10)), list(range(10, 40))], state_provider=f"sqlite:///{tmp_path / 's.db'}")
    snapshot = play.play_live()
    assert play.values == {
        1: [(number,) for number in range(10) if number != 7],
        2: [(number,) for number in range(10, 40) if number % 10 != 7],
    }
    letters = snapshot.entry(DeadLettersEntry).value
    assert (letters.stored, letters.last_component_id) == (4, "bolt")
    assert snapshot.components["bolt"].restarts == 0
