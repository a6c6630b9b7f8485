"""Rows that keep failing are given up, in every form of bolt. The batch commits without them (TX-13, DL-1)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.dead_letters import DeadLettersEntry
from engine.testing import run_topology
from engine.transactional import FailedBatch, MemoryOpaqueSpout, MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionAttempt
from tests.transactional.bad_rows import (
    BAD,
    FORMS,
    AwaitsRows,
    Batch,
    Keeps,
    KeepsBursts,
    Plain,
    Stored,
    check,
    letters_at,
    play,
    rows,
    through,
    values_of,
)


@pytest.mark.guarantee("TX-13", "DL-1")
@pytest.mark.parametrize("form", FORMS)
def test_rows_that_keep_failing_become_dead_letters_and_the_batches_commit_without_them(form: Any, tmp_path: Path) -> None:
    stored = Stored()
    finished = play(through(form, stored), tmp_path / "s.db")
    assert finished.state == "complete"
    assert stored.numbers == Counter(number for number in range(30) if number not in BAD)
    letters = letters_at(tmp_path / "s.db")
    assert sorted(values_of(letters)) == [[number] for number in sorted(BAD)]
    committed = {attempt.txid: attempt.attempt_id for attempt in stored.attempts}
    for letter in letters:
        assert (letter.component_id, letter.row.source, letter.row.stream, letter.attempts) == ("bolt", "numbers", "default", 3)
        assert "is bad" in letter.error
        assert committed[letter.txid] == letter.attempt_id
    shown = finished.snapshot.entry(DeadLettersEntry).value
    assert shown is not None
    assert (shown.stored, shown.given_up, shown.last_component_id) == (4, 4, "bolt")


@pytest.mark.guarantee("TX-13")
def test_a_batch_with_many_bad_rows_is_tried_max_retries_times_and_then_commits(tmp_path: Path) -> None:
    class HalfBad(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            if tup["number"] % 2:
                raise ValueError("odd")
            return (tup["number"],)

    stored = Stored()
    spout = MemoryTransactionalSpout([(number,) for number in range(200)], "number", 200)
    finished = play(through(HalfBad, stored, spout=spout, tasks=3), tmp_path / "s.db", max_retries=2)
    assert stored.numbers.total() == 100
    assert [attempt.number for attempt in stored.attempts] == [3]
    assert len(letters_at(tmp_path / "s.db")) == 100
    assert finished.secs < 5


@pytest.mark.guarantee("TX-13")
def test_bad_rows_of_two_bolts_are_found_in_the_same_attempts(tmp_path: Path) -> None:
    stored = Stored()

    def keep() -> Keeps:
        return Keeps(stored, lambda tup: 1 // (tup["number"] % 5 and 1) * tup["number"])  # every fifth fails

    finished = play(through(Plain, stored, committer=keep), tmp_path / "s.db")
    assert finished.state == "complete"
    assert stored.attempts[0].number == 4
    by_component = Counter(letter.component_id for letter in letters_at(tmp_path / "s.db"))
    assert by_component == {"bolt": 4, "keeps": 6}


@pytest.mark.guarantee("TX-13")
@pytest.mark.parametrize("committer", [AwaitsRows, KeepsBursts])
def test_rows_that_fail_in_a_committer_are_given_up_before_its_commit_begins(committer: Any, tmp_path: Path) -> None:
    stored = Stored()
    make: Callable[[], Any] = (lambda: committer(stored)) if committer is KeepsBursts else lambda: committer(stored, check)
    builder = TransactionalTopologyBuilder("rows", "numbers", rows(30))
    builder.set_committer("keeps", make).shuffle_grouping("numbers")
    finished = play(builder.build(), tmp_path / "s.db")
    assert finished.state == "complete"
    assert stored.numbers == Counter(number for number in range(30) if number not in BAD)
    assert {letter.component_id for letter in letters_at(tmp_path / "s.db")} == {"keeps"}


@pytest.mark.guarantee("TX-13")
def test_an_outage_gives_nothing_up_and_the_run_says_what_it_waits_for(tmp_path: Path) -> None:
    class Away(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            if self.context.clock.now() < 100:
                raise ConnectionError("the service is away")
            return (tup["number"],)

    stored, waits = Stored(), []

    async def look(run: Any) -> None:
        await asyncio.sleep(50)
        waits.extend(run.snapshot().waits)
        assert run.snapshot().entry(DeadLettersEntry).value.stored == 0
        await run.completed()

    config = Config(state_provider=f"sqlite:///{tmp_path / 's.db'}")
    finished = run_topology(through(Away, stored), config, during=look, until=600.0)
    assert finished.state == "complete"
    assert stored.numbers == Counter(range(30))
    assert letters_at(tmp_path / "s.db") == []
    assert [wait.what for wait in waits] == [
        "'bolt' to process any row of batch 1, since every one fails there (ConnectionError: the service is away)"
    ]


@pytest.mark.guarantee("TX-13")
def test_a_row_that_fails_in_turn_with_others_is_not_given_up(tmp_path: Path) -> None:
    failures: Counter[int] = Counter()

    class Flaky(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            number = tup["number"]
            if failures[number] < 2 and number % 4 == tup[0].number % 4:
                failures[number] += 1
                raise ValueError("not now")
            return (number,)

    stored = Stored()
    assert play(through(Flaky, stored), tmp_path / "s.db").state == "complete"
    assert stored.numbers == Counter(range(30))
    assert letters_at(tmp_path / "s.db") == []


@pytest.mark.guarantee("TX-13")
def test_equal_rows_are_copies_of_which_as_many_are_given_up_as_fail(tmp_path: Path) -> None:
    seen: Counter[TransactionAttempt] = Counter()

    class FailsTwoOfThree(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            if tup["number"] == 5:
                seen[tup[0]] += 1
                if seen[tup[0]] <= 2 and tup[0].number <= 3:
                    raise ValueError("the first two copies")
            return (tup["number"],)

    stored = Stored()
    spout = MemoryTransactionalSpout([(5,), (1,), (5,), (2,), (5,)], "number", 5)
    assert play(through(FailsTwoOfThree, stored, spout=spout, tasks=1), tmp_path / "s.db").state == "complete"
    assert stored.numbers == Counter([5, 1, 2])
    assert values_of(letters_at(tmp_path / "s.db")) == [[5], [5]]


@pytest.mark.guarantee("TX-13")
@pytest.mark.parametrize("raises", ["finish_batch", "failed batch", "never"])
def test_without_a_row_to_blame_or_with_max_retries_none_nothing_is_given_up(raises: str, tmp_path: Path) -> None:
    class Raises(Batch):
        def execute(self, tup: Tuple) -> None:
            if raises == "failed batch" and tup["number"] in BAD:
                raise FailedBatch("the whole batch")
            if raises == "never":
                check(tup)

        def finish_batch(self) -> None:
            if raises == "finish_batch":
                raise ValueError("the end of the batch")

    retries = None if raises == "never" else 3
    finished = run_topology(
        through(Raises, Stored()), Config(state_provider=f"sqlite:///{tmp_path / 's.db'}", max_retries=retries), until=60.0
    )
    assert finished.state == "stopped"
    assert letters_at(tmp_path / "s.db") == []


@pytest.mark.guarantee("TX-13")
def test_a_broken_finish_after_a_failed_row_does_not_hide_the_row(tmp_path: Path) -> None:
    class Breaks(Batch):
        is_broken = False

        def execute(self, tup: Tuple) -> None:
            self.is_broken = True
            check(tup)
            self.is_broken = False
            self.collector.emit((tup["number"],))

        def finish_batch(self) -> None:
            if self.is_broken:
                raise RuntimeError("a row has left me broken")

    stored = Stored()
    spout = MemoryTransactionalSpout([(1,), (2,), (3,)], "number", 3)
    assert play(through(Breaks, stored, spout=spout, tasks=1), tmp_path / "s.db").state == "complete"
    assert stored.numbers == Counter([1, 2])


class Plainest:
    """A value that the codec cannot store."""

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.guarantee("DL-1")
def test_values_that_cannot_be_stored_or_are_large_are_kept_as_a_bounded_text(tmp_path: Path) -> None:
    class Wraps(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> Any:
            number = tup["number"]
            return (Plainest(number) if number == 1 else "x" * 100_000 if number == 2 else number,)

    class OnlyNumbers(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            if not isinstance(tup["number"], int):
                raise TypeError("y" * 3_000)
            return (tup["number"],)

    stored = Stored()
    builder = TransactionalTopologyBuilder("rows", "numbers", rows(5))
    builder.set_bolt("wraps", Wraps).shuffle_grouping("numbers")
    builder.set_bolt("only", OnlyNumbers, 2).shuffle_grouping("wraps")
    builder.set_committer("keeps", lambda: Keeps(stored)).shuffle_grouping("only")
    assert play(builder.build(), tmp_path / "s.db").state == "complete"
    assert stored.numbers == Counter([0, 3, 4])
    letters = letters_at(tmp_path / "s.db")
    assert sorted(letter.row.text[:3] for letter in letters) == ["('x", "(<t"]
    for letter in letters:
        assert letter.row.encoded is None
        assert len(letter.row.text) <= 4_000
        assert len(letter.error) <= 2_000


@pytest.mark.guarantee("TX-13", "DL-1")
@pytest.mark.parametrize("spout", [MemoryTransactionalSpout, MemoryOpaqueSpout])
def test_several_open_batches_give_up_their_own_rows(spout: Any, tmp_path: Path) -> None:
    stored = Stored()
    data = {"a": [(number,) for number in range(30)]}
    builder = TransactionalTopologyBuilder("rows", "numbers", spout(data, "number", 10), max_spout_pending=3)
    builder.set_bolt("bolt", Plain, 2).shuffle_grouping("numbers")
    builder.set_committer("keeps", lambda: Keeps(stored)).shuffle_grouping("bolt")
    assert play(builder.build(), tmp_path / "s.db").state == "complete"
    assert stored.numbers == Counter(number for number in range(30) if number not in BAD)
    assert sorted(values_of(letters_at(tmp_path / "s.db"))) == [[number] for number in sorted(BAD)]
