"""Rows of exact sources that are given up become dead letters, and are emitted again on request (EO-6, DL-5, DL-6)."""

import asyncio
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import Fields, SpoutExhausted, TopologyBuilder, Tuple
from engine.checkpoint.given_up import RowCount, read_counts, stored_counts
from engine.dead_letters import DeadLettersEntry, stored_letters
from engine.errors import ERROR, Failure, StateError
from engine.testing import Finished, run_topology
from engine.transactional import BadRows, Committer
from engine.web.sample import Moment, make_sample
from tests.checkpoint.killed_letters import BAD
from tests.checkpoint.killing_rows import KILLERS, ROWS
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Told, once
from tests.checkpoint.stored_states import read_with_tools
from tests.checkpoint.test_failed_rows import fails, given_up
from tests.cli.commands import run_command

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


def run_on(url: str, spout: Any, bolt: Any, **settings: Any) -> tuple[Counter[Any], Finished]:
    """Run `numbers` > `p` > `count` on a store."""
    told, builder = Told(), TopologyBuilder("rows")
    builder.set_spout("numbers", spout)
    builder.set_bolt("p", bolt).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).fields_grouping("p", "n")
    limit_secs = settings.pop("limit_secs", 3600)
    finished = run_topology(builder.build(), FAST.replace(state_provider=url, **settings), limit_secs=limit_secs)
    return told.counts(), finished


def listed(capsys: Captured, url: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_command(capsys, "dead-letters", "list", url, "--json")[0].splitlines()]


@pytest.mark.guarantee("DL-1", "DL-4", "DL-5", "EO-6", "EO-10", "RUN-4")
def test_a_row_that_is_given_up_is_a_letter_and_not_undone(url: str, capsys: Captured) -> None:
    counts, finished = run_on(url, partial(Numbers, 40, pace_secs=0.1), fails({5: None, 25: None}))
    assert counts == once(40) - Counter([5, 25])
    shown = finished.snapshot.entry(DeadLettersEntry).value
    assert (shown.stored, shown.given_up, shown.last_component_id, shown.last_error) == (2, 2, "p", "ValueError: bad")
    assert not finished.snapshot.undone
    assert finished.snapshot.components["numbers"].given_up == 2
    sample = make_sample(None, finished.snapshot, Moment(1, 0.0, "INFO", frozenset()))
    assert sample["dead_letters"]["stored"] == 2
    found = listed(capsys, url)
    assert [each["values"] for each in found] == [[5], [25]]
    assert {(each["component"], each["source"], each["stream"], each["error"], each["attempts"], each["state"]) for each in found} == {
        ("p", "numbers", "default", "ValueError: bad", 3, "given up")
    }
    text = run_command(capsys, "dead-letters", "show", url, found[0]["letter"])[0]
    assert "ValueError: bad" in text


@pytest.mark.guarantee("RUN-4")
def test_a_letter_that_ends_with_the_process_is_undone() -> None:
    finished = run_on("memory://", partial(Numbers, 40), fails({5: None}))[1]
    assert finished.snapshot.undone.failed == 1


@pytest.mark.guarantee("DL-6")
def test_a_retried_row_is_counted_once_and_its_letter_ends(url: str, capsys: Captured) -> None:
    run_on(url, partial(Numbers, 40), fails({5: None, 7: None}))
    names = [each["letter"] for each in listed(capsys, url)]
    said = run_command(capsys, "dead-letters", "retry", url, *names)[1]
    assert said == "the next run of 'rows' emits 2 rows again\n"
    assert {each["state"] for each in listed(capsys, url)} == {"to be retried"}

    counts, finished = run_on(url, partial(Numbers, 50), fails({7: None}))

    assert counts == once(50) - Counter([7])
    assert len(given_up(finished)) == 1
    [left] = listed(capsys, url)
    assert (left["values"], left["state"], left["attempts"]) == ([7], "given up", 3)
    assert left["letter"] not in names


@pytest.mark.guarantee("DL-6")
def test_only_letters_that_a_source_can_emit_again_are_retried(url: str, capsys: Captured) -> None:
    class Odd(Numbers):
        def next_tuple(self) -> None:
            if self.next == 3:
                self.next += 1
                self.collector.emit((object(),))
            else:
                super().next_tuple()

    class FailsOdd(PassOn):
        def execute(self, tup: Tuple) -> Any:
            if not isinstance(tup["n"], int):
                raise ValueError("odd")
            return super().execute(tup)

    assert run_on(url, partial(Odd, 10), FailsOdd)[0] == once(10) - Counter([3])
    assert "could not be stored, so it cannot be retried" in run_command(capsys, "dead-letters", "retry", url, "--all", status=2)[1]
    assert "Name the letters to retry" in run_command(capsys, "dead-letters", "retry", url, status=2)[1]
    assert run_command(capsys, "dead-letters", "drop", url, "--all", "--yes")[1] == "dropped 1 dead letter\n"
    assert listed(capsys, url) == []


@pytest.mark.guarantee("DL-6", "EO-1")
def test_a_row_that_only_a_target_lacks_is_not_emitted_again(url: str, capsys: Captured) -> None:
    """The other bolts have processed it, and would do so twice."""

    class Refusing(Committer):
        def __init__(self) -> None:
            self.rows: list[int] = []

        def execute(self, tup: Tuple) -> None:
            self.rows.append(tup["n"])

        def finish_batch(self) -> None:
            if 9 in self.rows:
                raise BadRows("nine", rows=[self.rows.index(9)])

    told, builder = Told(), TopologyBuilder("rows")
    builder.set_spout("numbers", partial(Numbers, 20))
    builder.set_bolt("count", told.create).fields_grouping("numbers", "n")
    builder.set_committer("out", Refusing).shuffle_grouping("numbers")
    run_topology(builder.build(), FAST.replace(state_provider=url))
    assert told.counts() == once(20)
    assert [each["values"] for each in listed(capsys, url)] == [[9]]
    said = run_command(capsys, "dead-letters", "retry", url, "--all", status=2)[1]
    assert "is a row that only the target of the committer 'out' lacks" in said


@pytest.mark.guarantee("DL-6")
def test_a_letter_of_a_direct_stream_stays_marked_and_the_run_goes_on(url: str, capsys: Captured) -> None:
    class Direct(Numbers):
        output_fields = {"default": Fields("n", direct=True)}

        def next_tuple(self) -> None:
            if self.next >= self.rows:
                raise SpoutExhausted
            self.next += 1
            self.collector.emit_direct(self.context.task_ids("p")[0], (self.next - 1,))

    def run(rows: int, bolt: Any) -> Counter[Any]:
        told, builder = Told(), TopologyBuilder("rows")
        builder.set_spout("numbers", partial(Direct, rows))
        builder.set_bolt("p", bolt).direct_grouping("numbers")
        builder.set_bolt("count", told.create).fields_grouping("p", "n")
        run_topology(builder.build(), FAST.replace(state_provider=url))
        return told.counts()

    assert run(20, fails({5: None})) == once(20) - Counter([5])
    run_command(capsys, "dead-letters", "retry", url, "--all")
    assert run(30, PassOn) == once(30) - Counter([5])
    assert [each["state"] for each in listed(capsys, url)] == ["to be retried"]


@pytest.mark.guarantee("DL-3")
def test_without_room_for_its_letter_a_row_is_not_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_letters, "MOST_LETTERS", 1)
    run_on(url, partial(Numbers, 20), fails({3: None}))
    bad = fails({27: 30})
    counts, finished = run_on(url, partial(Numbers, 40), bad)
    assert counts == once(40) - Counter([3])
    assert bad.calls[27] == 31
    assert finished.snapshot.entry(DeadLettersEntry).value.stored == 1
    assert finished.secs > 0.5 + 1 + 2 + 4  # the pauses grow, as in an outage


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("bad", [[19], [18, 19]])
def test_a_finite_run_ends_although_its_last_rows_are_bad(bad: list[int]) -> None:
    counts, finished = run_on("memory://", partial(Numbers, 20, pace_secs=1.5), fails(dict.fromkeys(bad)))
    assert counts == once(20) - Counter(bad)
    assert 40 < finished.secs - 20 * 1.5 < 200


@pytest.mark.guarantee("EO-6")
def test_an_outage_at_the_end_of_a_run_gives_nothing_up_while_many_rows_fail() -> None:
    began: list[float] = []

    class Away(PassOn):
        def execute(self, tup: Tuple) -> Any:
            now = self.context.clock.now()
            began[:] = began or [now]
            if 0.5 < now - began[0] < 1200:
                raise OSError("away")
            return super().execute(tup)

    counts, finished = run_on("memory://", partial(Numbers, 200, pace_secs=0.01), Away, limit_secs=5000)
    assert counts == once(200)
    assert not given_up(finished)


@pytest.mark.guarantee("EO-6")
def test_counts_are_stored_within_bounds() -> None:
    counts = [RowCount(0, "default", bytes([number % 256]), [number % 3 + 1], 0, Failure(ERROR, "p", 3, "bad")) for number in range(1200)]
    stored = stored_counts(counts)
    assert stored is not None
    assert len(stored) == 1000
    assert all(max(each.passes) > 1 for each in read_counts(stored, "rows")[:800])
    assert stored_counts([]) is None
    with pytest.raises(StateError, match="the failed rows of topology 'rows' cannot be read"):
        read_counts([[1, 2]], "rows")


@pytest.mark.guarantee("EO-1", "EO-6", "DL-5")
@pytest.mark.parametrize(("kind", "most"), [("run", 20), ("child", 1), ("stateful child", 1)])
async def test_a_row_that_kills_its_process_is_given_up_alone(kind: str, most: int, url: str, capsys: Captured) -> None:
    for _ in range(most):
        if await lives("tests.checkpoint.killing_rows", url, kind) == 0:
            break
    else:
        pytest.fail(f"the process has died {most} times")
    found = await read_with_tools(url, "killed")
    assert Counter({key: value for (component, _, key), value in found.items() if component == "count"}) == once(ROWS) - Counter(KILLERS)
    letters = await asyncio.to_thread(listed, capsys, url)
    assert sorted(each["values"][0] for each in letters) == sorted(KILLERS)
    assert {each["attempts"] for each in letters} == {2}
    assert all("died" in each["error"] for each in letters)


async def lives(module: str, *arguments: str) -> int:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments)
    return await process.wait()


@pytest.mark.guarantee("EO-1", "DL-5", "DL-6")
@pytest.mark.parametrize("entry", ["letter:", "failed:", "owed:"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_beside_a_write_loses_and_doubles_no_letter(when: str, entry: str, url: str, capsys: Captured) -> None:
    module = "tests.checkpoint.killed_letters"
    for _ in range(2):
        assert await lives(module, url, when, entry) == 9
    assert await lives(module, url, "never", entry) == 0
    found = await asyncio.to_thread(listed, capsys, url)
    assert sorted(each["values"][0] for each in found) == sorted(BAD)
    await asyncio.to_thread(run_command, capsys, "dead-letters", "retry", url, "--all")
    assert await lives(module, url, when, "letter:") == 9
    assert await lives(module, url, "never", entry) == 0
    found = await asyncio.to_thread(listed, capsys, url)
    assert sorted((each["values"][0], each["state"]) for each in found) == [(row, "given up") for row in sorted(BAD)]
    stored = await read_with_tools(url, "letters")
    assert Counter({key: value for (_, _, key), value in stored.items()}) == Counter(set(range(60)) - BAD)
