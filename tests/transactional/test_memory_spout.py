"""Batches of values in memory (TX-7, TX-10)."""

from collections.abc import Callable
from typing import Any

import pytest

from engine import Config, FatalError, Fields, Topology, Tuple, UsageError
from engine.testing import Finished, KillTask, run_topology
from engine.transactional import (
    Committer,
    FailedBatch,
    MemoryOpaqueSpout,
    MemoryTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)

pytestmark = pytest.mark.guarantee("TX-10")

PARTITIONS = {"a": [(n,) for n in range(10)], "b": [(n,) for n in range(100, 104)], "c": []}


class Kept:
    """Stored rows by txid, of its newest attempt."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.attempts: list[TransactionAttempt] = []
        self.before_commit: Callable[[TransactionAttempt], None] = lambda attempt: None

    @property
    def rows(self) -> list[Any]:
        return [row for txid in sorted(self.batches) for row in self.batches[txid]]


class Keep(Committer):
    """Stores a batch in place of the rows of an earlier attempt."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.rows: list[Any] = []

    def execute(self, tup: Tuple) -> None:
        self.rows.append(tup[1])

    def finish_batch(self) -> None:
        self.kept.attempts.append(self.attempt)
        self.kept.before_commit(self.attempt)
        self.kept.batches[self.attempt.txid] = sorted(self.rows)


def topology(spout: Any, kept: Kept, parallelism: int = 2) -> Topology:
    builder = TransactionalTopologyBuilder("kept", "rows", spout, parallelism)
    builder.set_bolt("keep", lambda: Keep(kept)).global_grouping("rows")
    return builder.build()


def run_spout(spout: Any, kept: Kept, *, pending: int = 1, **how: Any) -> Finished:
    return run_topology(topology(spout, kept), Config(max_spout_pending=pending), **how)


@pytest.mark.parametrize("pending", [1, 2, 5])
@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, MemoryOpaqueSpout])
def test_each_batch_takes_rows_of_each_partition_until_the_last_row(kind: Any, pending: int) -> None:
    kept = Kept()
    assert run_spout(kind(dict(PARTITIONS), "number", 3), kept, pending=pending).state == "complete"
    batches = [batch for batch in kept.batches.values() if batch]
    assert batches == [[0, 1, 2, 100, 101, 102], [3, 4, 5, 103], [6, 7, 8], [9]]


@pytest.mark.parametrize("pending", [1, 2, 5])
def test_no_batch_begins_after_the_last_row(pending: int) -> None:
    kept = Kept()
    run_spout(MemoryTransactionalSpout(PARTITIONS, Fields("number"), 3), kept, pending=pending)
    assert kept.attempts == [TransactionAttempt(txid, 2**32 + txid) for txid in (1, 2, 3, 4)]


@pytest.mark.parametrize("data", [[], {}, {"a": []}, [[], []]], ids=repr)
def test_without_rows_the_run_completes_without_a_batch(data: Any) -> None:
    kept = Kept()
    assert run_spout(MemoryTransactionalSpout(data, "number", 3), kept).state == "complete"
    assert not kept.attempts


@pytest.mark.parametrize(
    ("data", "partitions"),
    [
        ([("a",), ("b",)], {0: [("a",), ("b",)]}),
        ([[("a",)], [("b",)]], {0: [("a",)], 1: [("b",)]}),
        ({7: [("a",)], "x": [("b",)]}, {7: [("a",)], "x": [("b",)]}),
        ((("a",),), {0: (("a",),)}),
        ([], {0: []}),
    ],
)
def test_rows_are_tuples_and_partitions_are_lists_of_them(data: Any, partitions: Any) -> None:
    assert MemoryTransactionalSpout(data, "word", 1).data == partitions


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("words", "word", 1), r"\(data\) must be a list of rows, not 'words' \(str\)"),
        ((["to", "be"], "word", 1), r"partition 0 must be a list of rows, not 'to' \(str\)"),
        (([("to",), ["be"]], "word", 1), r"element 0 is the row \('to',\), but other elements are partitions"),
        (({"a": [["to"]]}, "word", 1), r"row 0 of partition 'a' must be a tuple of \(word\), not \['to'\] \(list\)"),
        (([("to", 1)], "word", 1), r"row 0 of partition 0 must be a tuple of \(word\), not \('to', 1\) \(tuple\)"),
        (({True: []}, "word", 1), r"a partition must be an int or a str that is not empty, not True \(bool\)"),
        (({"": []}, "word", 1), r"a partition must be an int or a str that is not empty, not '' \(str\)"),
        (([], None, 1), r"declare no stream 'default'"),
        (([], {"late": "word"}, 1), r"declare no stream 'default'"),
        (([], "word", 0), r"MemoryTransactionalSpout: take must be an integer of at least 1, not 0"),
        (([], "word", True), r"MemoryTransactionalSpout: take must be an integer of at least 1, not True"),
        (([], "word", "5"), r"MemoryTransactionalSpout: take must be an integer of at least 1, not '5'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        MemoryTransactionalSpout(*arguments)


def test_an_opaque_spout_needs_a_dict() -> None:
    with pytest.raises(UsageError, match=r"must be a dict, not \[\('a',\)\] \(list\)"):
        MemoryOpaqueSpout([("a",)], "word", 1)  # type: ignore[arg-type]


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, MemoryOpaqueSpout])
def test_a_failed_commit_is_replayed_without_loss_or_duplicates(kind: Any) -> None:
    kept = Kept()
    left = [1, 2, 2, 4]

    def fail(attempt: TransactionAttempt) -> None:
        if attempt.txid in left:
            left.remove(attempt.txid)
            raise FailedBatch

    kept.before_commit = fail
    run_spout(kind(dict(PARTITIONS), "number", 3), kept, pending=3)
    assert not left
    assert sorted(kept.rows) == [*range(10), *range(100, 104)]


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("task", ["rows", "keep"])
@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, MemoryOpaqueSpout])
def test_a_task_that_dies_loses_no_row(kind: Any, task: str) -> None:
    kept = Kept()
    finished = run_spout(kind(dict(PARTITIONS), "number", 2), kept, pending=3, faults=[KillTask(task, at_call={2, 7}, of="keep")])
    assert len(finished.strikes) == 2
    assert sorted(kept.rows) == [*range(10), *range(100, 104)]


@pytest.mark.guarantee("TX-7")
def test_a_partition_that_is_missing_between_two_attempts_is_read_later() -> None:
    kept = Kept()
    data: dict[Any, Any] = dict(PARTITIONS)
    steps: list[Callable[[], object]] = [lambda: data.pop("a"), lambda: data.update(a=PARTITIONS["a"])]

    def fail(attempt: TransactionAttempt) -> None:
        if attempt.txid == 2 and steps:
            steps.pop(0)()
            raise FailedBatch

    kept.before_commit = fail
    run_spout(MemoryOpaqueSpout(data, "number", 3), kept, pending=2)
    assert not steps
    assert sorted(kept.rows) == [*range(10), *range(100, 104)]


def test_the_next_run_continues_where_one_stopped(tmp_path: Any) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    kept = Kept()
    run_topology(topology(MemoryTransactionalSpout(PARTITIONS, "number", 3), kept), config)
    more = {**PARTITIONS, "c": [(200,)]}
    run_topology(topology(MemoryTransactionalSpout(more, "number", 3), kept), config)
    assert len(kept.batches) == 5
    assert kept.batches[5] == [200]


def test_data_that_is_too_short_for_a_replay_ends_the_run(tmp_path: Any) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    kept = Kept()

    def stop(attempt: TransactionAttempt) -> None:
        raise FatalError("the disk is full")

    kept.before_commit = stop
    with pytest.raises(Exception, match="the disk is full"):
        run_topology(topology(MemoryTransactionalSpout(PARTITIONS, "number", 3), kept), config)
    kept.before_commit = lambda attempt: None
    with pytest.raises(Exception, match=r"holds the rows 0 to 3 of partition 'a', which has 2 now"):
        run_topology(topology(MemoryTransactionalSpout({"a": [(0,), (1,)]}, "number", 3), kept), config)
