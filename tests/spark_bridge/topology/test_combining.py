"""Tuples of a reducing committer are combined where they are emitted. The stored values are those of one process (CL-2)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine import BasicBolt, Config, Fields, Tuple, run
from engine.kernel import Source
from engine.transactional import Committer, FileCommitter, MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.combining import Combiner, Combining, CombiningFailed
from engine.transactional.files.committer import as_text
from engine.transactional.files.formatted_lines import FormattedLines
from engine.transactional.values import MemoryValues, ReduceInto, SqliteValues, ValueMap
from engine.transactional.values.reduction import Reduction
from spark_bridge.topology.blocks import BLOCK_BYTES, pack
from spark_bridge.topology.combining import Combined
from spark_bridge.topology.result_blocks import ResultBlocks
from tests.spark_bridge.topology.both_engines import Committed, play, play_both
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.transactional.batch_topologies import Batches

pytestmark = pytest.mark.asyncio

ROWS = [(f"w{number % 5}", number % 3, number) for number in range(60)]


class Passes(BasicBolt):
    output_fields = ("word", "kind", "number")

    def execute(self, tup: Tuple) -> Iterator[tuple[Any, ...]]:
        yield tup.values[1:]


def reducing(values: ValueMap, committed: Committed, tasks: int = 2, spout: Any = None, processes: bool = False, **arguments: Any) -> Any:
    """Return a topology with a reducing committer, and with one that keeps what the first one emits."""
    source = spout or MemoryTransactionalSpout([ROWS[:30], ROWS[30:]], Passes.output_fields, take=10)
    builder = TransactionalTopologyBuilder("reducing", "rows", source, 2)
    builder.set_bolt("passes", Passes, 2).shuffle_grouping("rows")
    key = arguments.get("key")
    names = () if key is None else (key,) if isinstance(key, str) else key
    count = builder.set_committer("count", ReduceInto(values, output_fields=("key", "value"), **arguments), tasks, processes=processes)
    if names:
        count.fields_grouping("passes", *names)
    else:
        count.shuffle_grouping("passes")
    builder.set_committer("keep", committed.committer).global_grouping("count")
    return builder.build()


async def stored(values: ValueMap, keys: list[Any]) -> dict[Any, Any]:
    async with values.reader() as reader:
        return {key: await reader.get(key) for key in keys}


@pytest.mark.guarantee("CL-1", "CL-2")
@pytest.mark.parametrize(
    ("arguments", "tasks"),
    [
        ({"key": "word"}, 2),
        ({"key": ("word", "kind")}, 2),
        ({"key": None}, 1),
        ({"key": "word", "value": "number"}, 2),
        ({"key": ("kind", "word"), "value": "number", "reduce": max}, 2),
        ({"key": None, "value": "number", "reduce": lambda stored, partial: min(stored, partial), "initial": 7}, 1),
    ],
)
async def test_reductions_store_and_emit_the_values_of_one_process(arguments: Any, tasks: int) -> None:
    maps: list[MemoryValues] = []

    def build(committed: Committed) -> Any:
        maps.append(MemoryValues())
        return reducing(maps[-1], committed, tasks, **arguments)

    here, there = await play_both(build, max_spout_pending=2)

    keys = {row[0] for row in here.committed.rows()}
    assert not here.errors
    assert not there.errors
    assert here.committed.rows() == there.committed.rows()
    assert await stored(maps[0], list(keys)) == await stored(maps[1], list(keys))
    assert await stored(maps[1], list(keys)) != dict.fromkeys(keys)


@pytest.mark.guarantee("CL-5")
async def test_one_row_for_each_key_and_task_comes_back(tmp_path: Path) -> None:
    words = [(f"w{number % 4}", 0, number) for number in range(2_000)]
    spout = MemoryTransactionalSpout(words, Passes.output_fields, take=1_000)
    values = SqliteValues(tmp_path / "c.db", "c")
    played = await play(lambda committed: reducing(values, committed, spout=spout, key="word"), jobs=LocalJobs())

    assert not played.errors
    assert played.snapshot.components["count"].executed <= 2 * 4 * 2  # batches, keys, tasks of `passes`
    assert await stored(values, ["w0", "w3"]) == {"w0": 500, "w3": 500}


@pytest.mark.guarantee("CL-2", "PR-1")
async def test_a_committer_in_a_process_merges_what_is_combined(tmp_path: Path) -> None:
    values = SqliteValues(tmp_path / "c.db", "c")
    played = await play(lambda committed: reducing(values, committed, processes=True, key="word"), jobs=LocalJobs())

    assert not played.errors
    assert sorted(played.committed.rows())[-1] == ("w4", 12)
    assert await stored(values, ["w0", "w4"]) == {"w0": 12, "w4": 12}


@pytest.mark.guarantee("CL-1")
async def test_other_readers_of_the_stream_get_each_tuple() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("both", "rows", MemoryTransactionalSpout(ROWS, Passes.output_fields, take=20))
        builder.set_bolt("passes", Passes, 2).shuffle_grouping("rows")
        builder.set_committer("count", ReduceInto(MemoryValues(), key="word", output_fields=("word", "n"))).global_grouping("passes")
        builder.set_committer("largest", ReduceInto(MemoryValues(), key="kind", value="number", reduce=max), 2).fields_grouping(
            "passes", "kind"
        )
        builder.set_committer("keep", committed.committer).global_grouping("passes").global_grouping("count")
        return builder.build()

    here, there = await play_both(build)
    assert here.committed.rows() == there.committed.rows()
    assert len(there.committed.rows()) == len(ROWS) + 15  # each batch has five words


@pytest.mark.guarantee("CL-1")
@pytest.mark.parametrize("is_keyed", [True, False])
async def test_emitters_in_the_engine_are_combined_too(is_keyed: bool) -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("sent", "numbers", Batches([[1, 2, 1], [], [2, 2, 3, 1]]), 2)
        count = ReduceInto(MemoryValues(), key="number" if is_keyed else None, output_fields=("number", "n"))
        declarer = builder.set_committer("count", count)
        declarer.fields_grouping("numbers", "number") if is_keyed else declarer.shuffle_grouping("numbers")
        builder.set_committer("keep", committed.committer).global_grouping("count")
        return builder.build()

    here, there = await play_both(build)
    assert not there.errors
    assert here.committed.rows() == there.committed.rows()


class DropsOdd:
    def prepare(self, context: Any, stream: Any, targets: Any) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> list[int]:
        return [] if values[3] % 2 else list(self.targets)


@pytest.mark.guarantee("CL-2")
async def test_a_custom_grouping_decides_about_each_tuple() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("custom", "rows", MemoryTransactionalSpout(ROWS, Passes.output_fields, take=20))
        builder.set_bolt("passes", Passes, 2).shuffle_grouping("rows")
        count = ReduceInto(MemoryValues(), key="word", output_fields=("word", "n"))
        builder.set_committer("count", count).custom_grouping("passes", DropsOdd)
        builder.set_committer("keep", committed.committer).global_grouping("count")
        return builder.build()

    here, there = await play_both(build)
    assert here.committed.rows() == there.committed.rows()


def outputs(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines())


@pytest.mark.guarantee("CL-1", "CL-2")
@pytest.mark.parametrize("tasks", [1, 2])
async def test_lines_of_files_are_formatted_where_tuples_are_emitted(tmp_path: Path, tasks: int) -> None:
    folders = iter([tmp_path / "here", tmp_path / "there"])

    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("files", "rows", MemoryTransactionalSpout(ROWS, Passes.output_fields, take=20))
        builder.set_bolt("passes", Passes, 2).shuffle_grouping("rows")
        builder.set_committer("out", FileCommitter(next(folders)), tasks).shuffle_grouping("passes")
        return builder.build()

    here, there = await play_both(build)
    assert not here.errors
    assert not there.errors
    assert outputs(tmp_path / "here") == outputs(tmp_path / "there")
    assert len(outputs(tmp_path / "there")) == len(ROWS)
    blobs, lines = there.snapshot.components["out"].executed, here.snapshot.components["out"].executed
    assert (blobs < lines) == (tasks == 1)


async def test_a_wrong_line_ends_the_run_as_in_one_process(tmp_path: Path) -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("files", "rows", MemoryTransactionalSpout(ROWS, Passes.output_fields, take=20))
        builder.set_committer("out", FileCommitter(tmp_path, format=lambda tup: tup["number"])).shuffle_grouping("rows")
        return builder.build()

    here, there = await play_both(build)
    assert "returned 0" in str(here.error)
    assert "returned 0" in str(there.error)


def fails_once(marker: Path) -> Any:
    def reduce(stored: int, partial: int) -> int:
        if not marker.exists():
            marker.touch()
            raise KeyError("not yet")
        return stored + partial

    return reduce


@pytest.mark.guarantee("CL-3")
@pytest.mark.parametrize("sends", [True, False])
async def test_an_error_while_combining_fails_the_attempt_with_its_row(tmp_path: Path, sends: bool) -> None:
    spout = Batches([[5, 5], [6]]) if sends else MemoryTransactionalSpout([(5,), (5,), (6,)], "number", take=2)

    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("fails", "numbers", spout)
        count = ReduceInto(MemoryValues(), key="number", value="number", reduce=fails_once(tmp_path / "m"), output_fields=("key", "sum"))
        builder.set_committer("count", count).global_grouping("numbers")
        builder.set_committer("keep", committed.committer).global_grouping("count")
        return builder.build()

    played = await play(build, jobs=LocalJobs())
    assert played.committed.rows() == [(5, 10), (6, 6)]
    assert len(played.errors) >= 1
    assert "KeyError: 'not yet'" in played.errors[0]
    assert "(5,)" in played.errors[0]
    assert "'numbers" in played.errors[0]


async def test_a_function_that_cannot_be_sent_is_called_in_the_engine_alone() -> None:
    class Unsendable:
        def __call__(self, stored: int, partial: int) -> int:
            return stored + partial

        def __reduce__(self) -> Any:
            raise TypeError("stays here")

    def build(committed: Committed) -> Any:
        return reducing(MemoryValues(), committed, key="word", value="number", reduce=Unsendable())

    here, there = await play_both(build)
    assert not there.errors
    assert here.committed.rows() == there.committed.rows()


def counting(keyed_by: tuple[str, ...], *names: str) -> Combiner:
    origin = Source("words", "default", 3, Fields("attempt", *names))
    return Reduction(keyed_by, None, max).combiner(origin, TransactionAttempt(1, 1))


async def test_a_key_without_a_hash_is_named() -> None:
    combiner = counting(("key",), "other", "key")
    combiner.add([(1, "a"), (2, "a")])
    with pytest.raises(CombiningFailed) as raised:
        combiner.add([(1, "a"), (2, [])])
    assert raised.value.row == (2, [])
    assert isinstance(raised.value.error, TypeError)
    assert ("a", 3) in list(combiner.partial_rows())


async def test_combined_counts_equal_a_counter() -> None:
    combiner = counting(("a", "b"), "b", "c", "a")
    rows = [(number % 3, number, number % 2) for number in range(100)]
    for begin in range(0, 100, 7):
        combiner.add(rows[begin : begin + 7])
    assert {row[:2]: row[2] for row in combiner.partial_rows()} == Counter((row[2], row[0]) for row in rows)


async def test_one_process_is_unchanged(tmp_path: Path) -> None:
    committed = Committed()
    values = SqliteValues(tmp_path / "c.db", "c")
    async with run(reducing(values, committed, key="word"), Config()) as running:
        await running.completed()
    assert await stored(values, ["w0"]) == {"w0": 12}


@dataclass
class AddTo:
    """A function without a hash."""

    step: int = 0

    def __call__(self, stored: int, partial: int) -> int:
        return stored + partial + self.step


@pytest.mark.guarantee("CL-1")
async def test_a_function_without_a_hash_reduces_too() -> None:
    here, there = await play_both(lambda committed: reducing(MemoryValues(), committed, key="word", value="number", reduce=AddTo()))
    assert not there.errors
    assert here.committed.rows() == there.committed.rows()


@pytest.mark.guarantee("CL-5")
@pytest.mark.parametrize("is_reduced", [True, False])
async def test_blocks_of_partial_results_are_bounded(is_reduced: bool) -> None:
    combining: Any = Reduction(("word",), "text", add) if is_reduced else FormattedLines(as_text)
    fields = Fields("attempt", "word", "text")
    loaded: Any = SimpleNamespace(
        component_of={3: "words"},
        late_tasks=(),
        combined={("words", "default"): (Combined("count", "words", "default", combining),)},
        raw=(),
        program=SimpleNamespace(described=SimpleNamespace(components={"words": SimpleNamespace(streams={"default": fields})})),
    )
    sent: list[int] = []
    refused: list[Any] = []
    blocks = ResultBlocks(
        loaded, TransactionAttempt(1, 1), lambda source, block: sent.append(len(pack(block))), lambda *why: refused.append(why)
    )
    for number in range(200):
        blocks.add(3, 9, [("default", [(number, "x" * 200_000)])])
    if not is_reduced:
        assert sum(sent) > 30_000_000  # lines do not wait for the end of the batch
    blocks.finish()
    assert not refused
    assert sum(sent) > 40_000_000
    assert max(sent) < 2 * BLOCK_BYTES


class Refuses(Committer):
    """A committer of a user, whose combiner raises."""

    combining: Any

    def __init__(self, combining: Any) -> None:
        self.combining = combining

    def merge(self, tup: Tuple) -> None: ...

    def execute(self, tup: Tuple) -> None: ...

    def finish_batch(self) -> None: ...


class Raises(Combining):
    keyed_by = ()

    def __init__(self, marker: Path, method: str) -> None:
        self.marker = marker
        self.method = method

    def combiner(self, origin: Source, attempt: TransactionAttempt) -> Any:
        self.reached("combiner")
        return self

    def reached(self, method: str) -> None:
        if method == self.method and not self.marker.exists():
            self.marker.touch()
            raise KeyError(method)

    def add(self, rows: Any) -> None:
        self.reached("add")

    def complete_rows(self) -> Any:
        return ()

    def partial_rows(self) -> Any:
        self.reached("partial_rows")
        return iter([(1,)])


@pytest.mark.guarantee("CL-3")
@pytest.mark.parametrize("method", ["combiner", "add", "partial_rows"])
@pytest.mark.parametrize("sends", [True, False])
async def test_an_error_of_a_users_combiner_names_the_committer(tmp_path: Path, method: str, sends: bool) -> None:
    spout = Batches([[5, 5], [6]]) if sends else MemoryTransactionalSpout([(5,), (5,), (6,)], "number", take=2)

    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("own", "numbers", spout)
        builder.set_committer("own", lambda: Refuses(Raises(tmp_path / "m", method))).global_grouping("numbers")
        return builder.build()

    played = await play(build, jobs=LocalJobs())
    assert played.error is None
    [error] = played.errors
    assert f"KeyError: '{method}'" in error
    assert "committer 'own'" in error
    assert error.startswith("'numbers' (task ")


@pytest.mark.guarantee("CL-1")
async def test_another_attribute_of_this_name_means_nothing() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("own", "numbers", Batches([[5, 5], [6]]))
        builder.set_committer("own", lambda: Refuses(True)).global_grouping("numbers")
        return builder.build()

    assert not (await play(build, jobs=LocalJobs())).errors
