"""Failures of user code and of Spark fail their attempt, and the batch is replayed (CL-3, CL-4)."""

import asyncio
import functools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, FailedBatch, FatalError, TopologyError, Tuple, UsageError
from engine.topology import Topology
from engine.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkConfig, SparkError
from spark_bridge.topology.blocks import Block
from spark_bridge.topology.cluster_run import on_spark, run
from spark_bridge.topology.job import Job
from spark_bridge.topology.loaded_program import LoadedProgram
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.transactional.batch_topologies import Batches

pytestmark = pytest.mark.asyncio

NUMBERS = [(number,) for number in range(40)]


class RaisesOnce(BasicBolt):
    """Raises for number 13 until a file exists."""

    output_fields = "number"

    def __init__(self, marker: Path, error: Callable[[], Exception]) -> None:
        self.marker = marker
        self.error = error

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 13 and not self.marker.exists():
            self.marker.touch()
            raise self.error()
        return (tup["number"],)


class Ends(BatchBolt):
    """Raises at the end of the second batch until a file exists."""

    output_fields = "number"

    def __init__(self, marker: Path) -> None:
        self.marker = marker
        self.numbers: list[int] = []

    async def execute(self, tup: Tuple) -> None:
        self.numbers.append(tup["number"])

    async def finish_batch(self) -> None:
        if self.attempt.txid == 2 and not self.marker.exists():
            self.marker.touch()
            raise ValueError("no end today")
        self.collector.emit_many([(number,) for number in self.numbers])


def numbers(committed: Committed, bolt: Any, tasks: int = 2) -> Any:
    builder = TransactionalTopologyBuilder(
        "numbers", "numbers", MemoryTransactionalSpout([NUMBERS[:20], NUMBERS[20:]], "number", take=10), 2
    )
    builder.set_bolt("bolt", bolt, tasks).fields_grouping("numbers", "number")
    builder.set_bolt("after", Adds, 3).fields_grouping("bolt", "number")
    builder.set_committer("keep", committed.committer).global_grouping("after")
    return builder.build()


class Adds(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"] + 1,)


EXPECTED = [(number + 1,) for number in range(40)]


@pytest.mark.guarantee("CL-3")
async def test_an_error_names_task_and_input_and_the_batch_is_replayed_once(tmp_path: Path) -> None:
    marker = tmp_path / "raised"
    played = await play(lambda committed: numbers(committed, lambda: RaisesOnce(marker, lambda: KeyError("wrod"))), jobs=LocalJobs())

    assert played.committed.rows() == EXPECTED
    [error] = played.errors
    assert "'bolt' (task " in error
    assert "KeyError: 'wrod'" in error
    assert "13" in error.split("input:")[1].splitlines()[0]
    assert "raise self.error()" in error
    assert [txid for txid, _ in played.committed.attempts] == [1, 2]


@pytest.mark.guarantee("CL-3")
async def test_an_error_of_an_async_finish_batch_fails_only_its_attempt(tmp_path: Path) -> None:
    marker = tmp_path / "raised"
    played = await play(lambda committed: numbers(committed, lambda: Ends(marker)), jobs=LocalJobs(), max_spout_pending=3)

    assert played.committed.rows() == EXPECTED
    assert len(played.errors) == 1
    assert "no end today" in played.errors[0]


@pytest.mark.guarantee("CL-3")
async def test_a_failed_batch_is_replayed_without_a_report(tmp_path: Path) -> None:
    marker = tmp_path / "raised"
    played = await play(lambda committed: numbers(committed, lambda: RaisesOnce(marker, lambda: FailedBatch("not now"))), jobs=LocalJobs())

    assert played.committed.rows() == EXPECTED
    assert not played.errors


@pytest.mark.guarantee("CL-3")
async def test_a_fatal_error_ends_the_run_and_names_the_component(tmp_path: Path) -> None:
    def fatal() -> Exception:
        return FatalError("the table is gone", hint="Restore it.")

    played = await play(lambda committed: numbers(committed, lambda: RaisesOnce(tmp_path / "raised", fatal)), jobs=LocalJobs())

    assert played.error is not None
    assert "'bolt' (task " in str(played.error)
    assert "the table is gone" in str(played.error)
    assert "Restore it." in str(played.error)


@pytest.mark.guarantee("CL-3")
@pytest.mark.parametrize("level", [0, 1, 2])
async def test_a_job_that_fails_fails_its_attempt_and_is_run_again(level: int) -> None:
    failed: list[int] = []

    def before(job: Job, at: int, partition: int) -> None:
        if at == level and job.attempt.request.attempt.txid == 1 and not failed:
            failed.append(partition)
            raise OSError("the executor is gone")

    played = await play(lambda committed: numbers(committed, Adds), jobs=LocalJobs(before=before), max_spout_pending=2)

    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    assert failed
    assert "the executor is gone" in played.errors[0]


@pytest.mark.guarantee("CL-3")
async def test_a_damaged_result_file_fails_the_attempt() -> None:
    damaged: list[str] = []

    class Damages(LocalJobs):
        async def call(self, function: Any, job: Job, **options: Any) -> Any:
            statuses = await super().call(function, job)
            if not damaged:
                path = next(each.path for status in statuses for each in status.files)
                damaged.append(path)
                await asyncio.to_thread(_damage, path)
            return statuses

    played = await play(lambda committed: numbers(committed, Adds), jobs=Damages())

    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    assert damaged
    assert "is damaged" in played.errors[0]


@pytest.mark.guarantee("CL-3")
async def test_a_partition_that_failed_and_was_computed_again_loses_no_rows_of_those_that_read_its_failure(tmp_path: Path) -> None:
    marker = tmp_path / "raised"

    class ComputesFailedAgain(LocalJobs):
        """Computes a failed partition of level 1 again. One partition behind it has read the failure before."""

        def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
            existed = marker.exists()
            first = list(super()._level(loaded, job, level, partition, blocks))
            if level != 1 or existed or not marker.exists():
                return iter(first)
            again = list(super()._level(loaded, job, level, partition, blocks))
            return iter([block for tried, read in ((first, True), (again, False)) for block in tried if (block[:2] == (2, 1)) == read])

    bolt = functools.partial(RaisesOnce, marker, functools.partial(OSError, "not now"))
    played = await play(lambda committed: numbers(committed, bolt), jobs=ComputesFailedAgain())

    assert marker.exists()
    assert played.committed.rows() == EXPECTED


def _damage(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(path).write_bytes(data)


@pytest.mark.guarantee("CL-4")
async def test_all_reasons_against_spark_are_told_at_once() -> None:
    lock = threading.Lock()

    def locked() -> Adds:
        with lock:
            return Adds()

    builder = TransactionalTopologyBuilder("refused", "numbers", MemoryTransactionalSpout(NUMBERS, "number", take=10))
    builder.set_bolt("locked", locked).shuffle_grouping("numbers")
    builder.set_bolt("also", locked).shuffle_grouping("locked")
    topology = builder.build()

    with pytest.raises(TopologyError) as raised:
        run(topology, spark=SparkConfig(master="sc://127.0.0.1:15002"))

    text = str(raised.value)
    assert "Spark Connect" in text
    assert "bolt 'locked': cannot be sent" in text
    assert "bolt 'also': cannot be sent" in text
    assert "lock" in text


@pytest.mark.guarantee("CL-4")
async def test_a_committer_that_cannot_be_pickled_stays_in_the_engines_process() -> None:
    lock = threading.Lock()
    committed = Committed()
    builder = TransactionalTopologyBuilder("fine", "numbers", Batches([[1], [2]]))

    def keeps() -> Any:
        with lock:
            return committed.committer()

    builder.set_committer("keep", keeps).global_grouping("numbers")
    assert isinstance(on_spark(builder.build()), Topology)


@pytest.mark.guarantee("CL-4")
async def test_a_topology_without_batches_is_refused() -> None:
    from engine import TopologyBuilder
    from engine.testing import Feeder

    builder = TopologyBuilder("plain")
    builder.set_spout("words", Feeder("word"))
    with pytest.raises(UsageError, match="has no batches"):
        run(builder.build())


class Locks(BasicBolt):
    """Emits a value that cannot be pickled, once."""

    output_fields = ("number", "value")

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple) -> tuple[int, Any]:
        if tup["number"] == 13 and not self.marker.exists():
            self.marker.touch()
            return (13, threading.Lock())
        return (tup["number"], None)


@pytest.mark.guarantee("CL-3")
@pytest.mark.parametrize("goes_to_the_committer", [False, True])
async def test_a_value_that_cannot_be_pickled_is_named_with_its_task(tmp_path: Path, goes_to_the_committer: bool) -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("locks", "numbers", MemoryTransactionalSpout(NUMBERS, "number", take=20))
        builder.set_bolt("locks", lambda: Locks(tmp_path / "locked"), 2).fields_grouping("numbers", "number")
        if not goes_to_the_committer:
            builder.set_bolt("after", Adds).fields_grouping("locks", "number")
        builder.set_committer("keep", committed.committer).global_grouping("locks" if goes_to_the_committer else "after")
        return builder.build()

    played = await play(build, jobs=LocalJobs())
    assert len(played.committed.rows()) == 40
    [error] = played.errors
    assert "'locks' (task " in error
    assert "cannot pickle" in error
    assert "input: (13, <unlocked" in error


class NeedsDatabase(BasicBolt):
    """Cannot be prepared until the tries of a file are used up."""

    output_fields = "number"

    def __init__(self, tries: Path, error: Callable[[], BaseException]) -> None:
        self.tries = tries
        self.error = error

    def prepare(self) -> None:
        left = int(self.tries.read_text())
        if left:
            self.tries.write_text(str(left - 1))
            raise self.error()

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


@pytest.mark.guarantee("CL-3")
async def test_an_outage_in_prepare_fails_attempts_and_the_run_goes_on(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    tries.write_text("9")
    played = await play(
        lambda committed: numbers(committed, lambda: NeedsDatabase(tries, lambda: OSError("no database")), 1), jobs=LocalJobs()
    )
    assert played.committed.rows() == EXPECTED
    assert "no database" in played.errors[0]


@pytest.mark.guarantee("CL-3")
async def test_a_program_end_in_prepare_ends_the_run(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    tries.write_text("9")
    played = await play(lambda committed: numbers(committed, lambda: NeedsDatabase(tries, lambda: SystemExit(3)), 1), jobs=LocalJobs())
    assert played.error is not None
    assert "'bolt' (task " in str(played.error)
    assert "SystemExit: 3" in str(played.error)


class Locked:
    """A grouping that cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def prepare(self, context: Any, stream: str, targets: Any) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> list[int]:
        return [self.targets[0]]


@pytest.mark.guarantee("CL-4")
async def test_a_grouping_that_cannot_be_pickled_is_refused_unless_it_stays_here() -> None:
    lock = threading.Lock()

    def locked() -> Locked:
        with lock:
            return Locked()

    def build(committed: Committed, *, of_the_bolt: bool) -> Any:
        builder = TransactionalTopologyBuilder("groupings", "numbers", MemoryTransactionalSpout(NUMBERS, "number", take=20))
        bolt = builder.set_bolt("bolt", Adds)
        bolt.custom_grouping("numbers", locked) if of_the_bolt else bolt.fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).custom_grouping("bolt", locked)
        return builder.build()

    with pytest.raises(TopologyError, match="bolt 'bolt': the grouping of 'numbers': cannot be sent"):
        run(build(Committed(), of_the_bolt=True))
    played = await play(lambda committed: build(committed, of_the_bolt=False), jobs=LocalJobs())
    assert played.committed.rows() == EXPECTED


class Recomputes(LocalJobs):
    """Loses the blocks of level 0 once, and computes them again for the second partition of level 1."""

    lost = False

    def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
        if (level, partition) == (1, 1) and not self.lost:
            self.lost = True
            again = [block for other in range(job.partitions[0]) for block in super()._level(loaded, job, 0, other, [])]
            blocks = [block for block in again if block[:2] == (1, 1)]
        return super()._level(loaded, job, level, partition, blocks)


@pytest.mark.guarantee("CL-3")
async def test_results_of_two_computations_of_one_partition_are_never_mixed() -> None:
    jobs = Recomputes()
    played = await play(lambda committed: numbers(committed, Adds), jobs=jobs)

    assert jobs.lost
    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    assert played.snapshot.transactions.failed == 1


@pytest.mark.guarantee("CL-3")
async def test_an_error_of_spark_is_reported_although_the_folder_of_the_attempt_is_gone() -> None:
    class Vanishes(LocalJobs):
        async def call(self, function: Any, job: Job, **options: Any) -> Any:
            if self.jobs == 0:
                self.jobs += 1
                await asyncio.to_thread(shutil.rmtree, job.folder)
                raise SparkError("an executor was lost")
            return await super().call(function, job)

    played = await play(lambda committed: numbers(committed, Adds), jobs=Vanishes())

    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    [error] = played.errors
    assert "an executor was lost" in error
