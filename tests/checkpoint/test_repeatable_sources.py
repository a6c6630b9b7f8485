"""`@spout(repeatable=True)`: the engine counts the rows, skips those of before the commit, and notices other rows (EO-1)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, ComponentError, Config, StatefulBasicBolt, TopologyBuilder, Tuple, UsageError, spout
from engine.api.repeated_rows import RepeatedRows, row_digest
from engine.testing import Fault, Finished, KillTask, run_topology

pytestmark = pytest.mark.guarantee("EO-1")
ROWS = 300


class Counts:
    """Makes bolts that count rows, and keeps the counts of their states."""

    def __init__(self) -> None:
        self.of: Counter[Any] = Counter()

    def __call__(self) -> StatefulBasicBolt:
        counts = self

        class Count(StatefulBasicBolt):
            def execute(self, tup: Tuple) -> None:
                self.state.put(tup[0], self.state.get(tup[0], 0) + 1)

            def cleanup(self) -> None:
                if hasattr(self, "state"):
                    counts.of = Counter(dict(self.state.items()))

        return Count()


class Calls:
    """Generator functions of the numbers below a limit, in each form, and the number of their calls."""

    def __init__(self, rows: int = ROWS, *, first: int = 0) -> None:
        self.rows, self.first, self.number = rows, first, 0

    def single(self) -> Iterator[tuple[int] | None]:
        self.number += 1
        for number in range(self.first, self.rows):
            if number % 50 == 7:
                yield None
            yield (number,)

    def lists(self) -> Iterator[list[tuple[int]]]:
        self.number += 1
        for begin in range(self.first, self.rows, 30 + self.number):  # the lists are others at each call, the rows are not
            yield [(number,) for number in range(begin, min(begin + 30 + self.number, self.rows))]

    async def later(self) -> AsyncIterator[tuple[int] | None]:
        for item in self.single():
            yield item

    async def lists_later(self) -> AsyncIterator[list[tuple[int]]]:
        for item in self.lists():
            yield item

    def source(self, form: str) -> Any:
        return spout("number", repeatable=True, burst="lists" in form)(getattr(self, form))


class RaisesOnce(Calls):
    """Functions whose first generator ends with an error."""

    def single(self) -> Iterator[tuple[int] | None]:
        for item in super().single():
            if item == (150,) and self.number == 1:
                raise OSError("once")
            yield item

    def lists(self) -> Iterator[list[tuple[int]]]:
        for items in super().lists():
            if (150,) in items and self.number == 1:
                raise OSError("once")
            yield items


FORMS = ["single", "lists", "later", "lists_later"]


def play(
    source: Any, counts: Counts, url: str = "memory://", *, bolt: Any = None, faults: list[Fault] | None = None
) -> Finished:
    builder, before = TopologyBuilder("repeats"), "numbers"
    builder.set_spout("numbers", source)
    if bolt is not None:
        builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
        before = "bolt"
    builder.set_bolt("count", counts).fields_grouping(before, "number")
    config = Config(state_provider=url, state_checkpoint_interval_ms=100, max_spout_pending=40, processing_guarantee=None)
    return run_topology(builder.build(), config, faults=faults or [])


def once(rows: int = ROWS) -> Counter[int]:
    return Counter(range(rows))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.mark.parametrize("form", FORMS)
def test_a_new_run_skips_the_rows_of_before(form: str, url: str) -> None:
    """Given a run that ends with its input, then a run with a longer input counts only what has been added."""
    counts = Counts()
    play(Calls(200).source(form), counts, url)
    assert counts.of == once(200)

    play(Calls(ROWS).source(form), counts, url)
    assert counts.of == once()


class Slow(BasicBolt):
    """Takes a millisecond of the virtual clock for each row, and fails row 120 once."""

    output_fields = "number"
    fails: set[int]

    async def execute(self, tup: Tuple) -> Any:  # type: ignore[override]
        await asyncio.sleep(0.005)
        if tup["number"] in self.fails:
            self.fails.remove(tup["number"])
            raise ValueError("once")
        return (tup["number"],)


def slow(*fails: int) -> Callable[[], Slow]:
    return type("Slow", (Slow,), {"fails": set(fails)})


@pytest.mark.guarantee("EO-5", "EO-6")
@pytest.mark.parametrize("form", FORMS)
def test_a_rollback_repeats_the_interval_from_memory(form: str) -> None:
    counts, calls = Counts(), Calls()

    kills = [KillTask("count", at_secs=0.75), KillTask("count", at_secs=1.3)]
    finished = play(calls.source(form), counts, bolt=slow(120, 250), faults=kills)

    assert counts.of == once()
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries >= 2
    assert calls.number == 1, "the function is called once, and its rows of after the commit are kept"


@pytest.mark.guarantee("EO-5")
@pytest.mark.parametrize("form", FORMS)
def test_an_instance_that_has_died_is_followed_by_one_that_skips(form: str) -> None:
    counts, calls = Counts(), Calls()

    play(calls.source(form), counts, bolt=slow(), faults=[KillTask("numbers", at_secs=0.55)])

    assert counts.of == once()
    assert calls.number == 2


def test_only_rows_of_after_the_commit_are_kept() -> None:
    rows = RepeatedRows("numbers")
    assert rows.seek(None) is None
    rows.note_emitted([(number,) for number in range(10)], keeps=True)
    position = rows.position()
    rows.note_emitted([(10,), (11,)], keeps=True)

    rows.note_committed(position)

    assert rows.kept == [(10,), (11,)]
    assert rows.seek(position) == [(10,), (11,)]
    assert rows.position() == position


@pytest.mark.parametrize("form", FORMS)
def test_a_generator_that_raises_begins_again_behind_its_last_row(form: str) -> None:
    counts, calls = Counts(), RaisesOnce()

    play(spout("number", repeatable=True, restartable=True, burst="lists" in form)(getattr(calls, form)), counts, bolt=slow(80))

    assert counts.of == once()
    assert calls.number == 2


@pytest.mark.parametrize("form", FORMS)
def test_another_row_than_before_ends_the_run(form: str, url: str) -> None:
    counts = Counts()
    play(Calls(200).source(form), counts, url)

    with pytest.raises(ComponentError) as raised:
        play(Calls(ROWS, first=1).source(form), counts, url)

    name = Calls.__dict__[form].__name__
    assert f"spout function {name}() has repeatable=True, but row 200 was (199,), and is (200,) now" in str(raised.value)
    assert "use positions=True" in str(raised.value)
    assert "positions reset" in str(raised.value)


@pytest.mark.parametrize("form", FORMS)
def test_fewer_rows_than_before_end_the_run(form: str, url: str) -> None:
    counts = Counts()
    play(Calls(200).source(form), counts, url)

    with pytest.raises(ComponentError, match=r"yielded 200 rows before, of which the last was \(199,\), but now it ends after 150"):
        play(Calls(150).source(form), counts, url)


def test_without_state_it_is_an_ordinary_source() -> None:
    calls, builder = Calls(20), TopologyBuilder("plain")
    builder.set_spout("numbers", calls.source("single"))
    builder.set_bolt("slow", slow(3)).shuffle_grouping("numbers")

    finished = run_topology(builder.build())

    assert (finished.state, calls.number) == ("complete", 1)
    assert finished.snapshot.components["slow"].failed == 1, "the row is emitted again, as that of any generator"


def test_a_function_has_either_its_own_positions_or_repeatable_rows() -> None:
    with pytest.raises(UsageError, match="positions=True and repeatable=True\nFix: With positions=True the function tells its positions"):
        spout("n", positions=True, repeatable=True)  # type: ignore[call-overload]


class Odd:
    """A value without a stable hash."""


def test_rows_are_compared_by_what_is_the_same_in_each_process() -> None:
    assert row_digest((1, "a", {"b": [1.5, None]}, Odd())) == row_digest((1, "a", {"b": [1.5, None]}, Odd()))
    assert row_digest(({"a": 1},)) != row_digest(({"a": 2},))
    assert row_digest(([1, 2],)) != row_digest(([2, 1],))
