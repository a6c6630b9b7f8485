"""Sources whose positions are in the checkpoint, of each kind: they get the acks of their own ids, and continue behind their position."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BurstSpout, ComponentError, Config, FileSpout, Run, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple, spout
from engine.dead_letters import DeadLettersEntry
from engine.testing import Finished, run_topology

counts: Counter[Any] = Counter()


class Count(StatefulBasicBolt):
    output_fields = ()

    def execute(self, tup: Tuple) -> None:
        counts[tup[0]] += 1


class SlowCount(Count):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().execute(tup)


@pytest.fixture(autouse=True)
def _no_counts() -> None:
    counts.clear()


def run_counting(source: Any, folder: Path) -> Finished:
    builder = TopologyBuilder("exact")
    builder.set_spout("source", source)
    builder.set_bolt("count", Count).global_grouping("source")
    return run_topology(builder.build(), Config(state_provider=f"sqlite:///{folder}/state.db"))


@pytest.mark.guarantee("EO-1")
def test_a_spout_that_takes_lists_of_acks_gets_those_of_its_own_ids(tmp_path: Path) -> None:
    acked: list[int] = []

    class Rows(BurstSpout):
        output_fields = "number"

        def seek(self, position: int | None) -> None:
            self.number = position or 0

        def position(self) -> int:
            return self.number

        def next_tuples(self, limit: int) -> None:
            if self.number == 10:
                raise SpoutExhausted
            self.collector.emit((self.number,), self.number if self.number % 2 else None)
            self.number += 1

        def ack_many(self, message_ids: list[Any]) -> None:
            acked.extend(message_ids)

    assert run_counting(Rows, tmp_path).state == "complete"
    assert sorted(acked) == [1, 3, 5, 7, 9]


@pytest.mark.guarantee("EO-1", "FI-7")
def test_a_file_with_more_rows_than_may_be_in_flight_is_read_to_its_end(tmp_path: Path) -> None:
    Path(tmp_path, "rows").write_text("".join(f"{number}\n" for number in range(50)))

    finished = run_counting(lambda: FileSpout(f"{tmp_path}/rows", max_in_flight=10), tmp_path)

    assert finished.state == "complete"
    assert counts == {str(number): 1 for number in range(50)}


@spout("number", positions=True)
def odd_numbers(after: int | None) -> Iterator[tuple[int, tuple[int] | None]]:
    for number in range(after or 0, 20):
        yield number + 1, (number,) if number % 2 else None


@spout("number", positions=True)
async def odd_numbers_later(after: int | None) -> AsyncIterator[tuple[int, tuple[int] | None]]:
    for number in range(after or 0, 20):
        yield number + 1, (number,) if number % 2 else None


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("source", [odd_numbers, odd_numbers_later])
def test_a_position_without_a_row_is_passed_over(source: Any, tmp_path: Path) -> None:
    run_counting(source, tmp_path)
    run_counting(source, tmp_path)

    assert counts == dict.fromkeys(range(1, 20, 2), 1)


@pytest.mark.guarantee("EO-6", "DL-5")
@pytest.mark.parametrize("repeats", [False, True])
def test_a_row_of_a_generator_that_cannot_be_emitted_becomes_one_dead_letter(repeats: bool, tmp_path: Path) -> None:
    """Given rows whose key cannot be hashed, one in three, they are letters, also if their interval is repeated."""
    failures = [20] if repeats else []

    @spout("number", positions=True)
    def source(after: int | None) -> Iterator[tuple[int, tuple[Any]]]:
        for number in range(after or 0, 30):
            yield number + 1, ({"bad": number} if number % 3 == 0 else number,)

    class CountOrFail(Count):
        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if tup[0] in failures:
                failures.remove(tup[0])
                raise ValueError("once")

    builder = TopologyBuilder("exact")
    builder.set_spout("source", source)
    builder.set_bolt("count", CountOrFail).fields_grouping("source", "number")
    result = run_topology(builder.build(), Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    letters = result.snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert letters.stored == 10
    assert set(counts) == {number for number in range(30) if number % 3}
    assert result.snapshot.checkpoint.recoveries == repeats


@spout("number", positions=True)
async def numbers_read_ahead(after: int | None) -> AsyncIterator[tuple[int, tuple[int]]]:
    for number in range(after or 0, 200):
        if number % 5 == 0:
            await asyncio.sleep(0.01)
        yield number + 1, (number,)


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("burst", [2, 256])
@pytest.mark.parametrize("secs", [0.1, 0.75, 1.0, 1.501])
def test_a_drain_keeps_the_positions_of_the_rows_that_were_read_ahead(burst: int, secs: float, tmp_path: Path) -> None:
    async def drain(run: Run) -> None:
        await asyncio.sleep(secs)
        await run.drain()

    builder = TopologyBuilder("exact", Config(state_provider=f"sqlite:///{tmp_path}/state.db", burst=burst))
    builder.set_spout("source", numbers_read_ahead, max_spout_pending=3)
    builder.set_bolt("count", SlowCount).global_grouping("source")
    run_topology(builder.build(), during=drain)
    run_topology(builder.build())

    assert counts == dict.fromkeys(range(200), 1)


@spout("number", positions=True)
def one_dict(after: dict[str, int] | None) -> Iterator[tuple[dict[str, int], tuple[int]]]:
    position = after or {"number": 0}
    while position["number"] < 100:
        position["number"] += 1
        yield position, (position["number"] - 1,)


@spout("number", positions=True)
async def one_dict_read_ahead(after: dict[str, int] | None) -> AsyncIterator[tuple[dict[str, int], tuple[int]]]:
    for pair in one_dict.function(after):
        yield pair


@spout("number", positions=True, burst=True)
async def one_dict_per_list(after: dict[str, int] | None) -> AsyncIterator[list[tuple[dict[str, int], tuple[int]]]]:
    for pair in one_dict.function(after):
        yield [pair]


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("source", [one_dict, one_dict_read_ahead, one_dict_per_list])
def test_a_position_may_be_an_object_that_the_generator_changes(source: Any, tmp_path: Path) -> None:
    async def die(_: Run) -> None:
        await asyncio.sleep(0.55)
        raise InterruptedError

    counted: Counter[int] = Counter()

    class Committed(SlowCount):
        def pre_commit(self, _: int) -> None:
            counted.clear()
            counted.update(dict(self.state.items()))

        async def execute(self, tup: Tuple) -> None:
            await super().execute(tup)
            self.state.put(tup[0], self.state.get(tup[0], 0) + 1)

    builder = TopologyBuilder("exact", Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=50))
    builder.set_spout("source", source, max_spout_pending=3)
    builder.set_bolt("count", Committed).global_grouping("source")
    with pytest.raises(InterruptedError):
        run_topology(builder.build(), during=die)
    run_topology(builder.build())

    assert counted == dict.fromkeys(range(100), 1)


@spout("word", positions=True)
def words_of_lines(after: int | None) -> Iterator[tuple[int, tuple[str]]]:
    for offset, line in enumerate(["to be", "or not"][after or 0 :], (after or 0) + 1):
        for word in line.split():
            yield offset, (word,)


@spout("word", positions=True, burst=True)
async def lists_of_one_dict(after: dict[str, int] | None) -> AsyncIterator[list[tuple[dict[str, int], tuple[str]]]]:
    position = after or {}
    yield [(position, (word,)) for word in ("to", "be")]


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("source", [words_of_lines, lists_of_one_dict])
def test_two_rows_with_one_position_end_the_run(source: Any, tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"behind two rows. A process that began there would skip the second one, .*'be'"):
        run_counting(source, tmp_path)
