"""`dead-letters` lists, shows and drops the rows that topologies have given up (DL-4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config, FatalError
from engine.state import provider_of
from engine.testing import run_topology
from engine.transactional import TransactionalTopologyBuilder
from tests.cli.commands import run_command
from tests.transactional.bad_rows import BAD, Keeps, Plain, Stored, play, rows, through

pytestmark = pytest.mark.guarantee("DL-4")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a store with the letters of a complete run."""
    play(through(Plain, Stored()), tmp_path / "s.db")
    return f"sqlite:///{tmp_path / 's.db'}"


def letters(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    """Return the output of a command with --json."""
    return [json.loads(line) for line in run_command(capsys, "dead-letters", *arguments, "--json")[0].splitlines()]


def test_the_list_has_a_line_for_each_letter(url: str, capsys: Captured) -> None:
    header, *lines = run_command(capsys, "dead-letters", "list", url)[0].splitlines()
    columns = ["letter", "given up at", "component", "error", "row", "attempts", "state"]
    assert [cell.strip() for cell in header.split("  ") if cell] == columns
    assert sorted(int(line.split("[")[1].split("]")[0]) for line in lines) == sorted(BAD)
    assert all(line.endswith("3  given up") for line in lines)
    out, error = run_command(capsys, "dead-letters", "list", url, "--limit", "1")
    assert len(out.splitlines()) == 2
    assert "3 older letters are not shown. Write --limit 4." in error
    assert run_command(capsys, "dead-letters", "list", url, "--component", "keeps")[0] == "topology 'rows' has no dead letter of 'keeps'\n"


def test_a_letter_is_shown_with_its_values(url: str, capsys: Captured) -> None:
    found = letters(capsys, "list", url)
    assert sorted(each["values"] for each in found) == [[number] for number in sorted(BAD)]
    [shown] = letters(capsys, "show", url, found[0]["letter"])
    assert shown == found[0]
    assert (shown["component"], shown["source"], shown["stream"], shown["attempts"], shown["state"]) == (
        "bolt", "numbers", "default", 3, "given up",
    )  # fmt: skip
    text = run_command(capsys, "dead-letters", "show", url, shown["letter"])[0]
    assert f"ValueError: {shown['values'][0]} is bad" in text
    assert f"values       {shown['values'][0]}" in text
    assert "has no dead letter '99.1'" in run_command(capsys, "dead-letters", "show", url, "99.1", status=2)[1]


def test_pickled_values_are_read_only_on_request(tmp_path: Path, capsys: Captured) -> None:
    play(through(Plain, Stored()), tmp_path / "s.db", state_codec="pickle")
    url = f"sqlite:///{tmp_path / 's.db'}"
    name = letters(capsys, "list", url)[0]["letter"]
    assert not isinstance(letters(capsys, "show", url, name)[0]["values"][0], int)
    assert isinstance(letters(capsys, "show", url, name, "--unpickle")[0]["values"][0], int)


def test_letters_are_dropped_by_name_or_all_after_a_question(url: str, capsys: Captured) -> None:
    first, *others = [each["letter"] for each in letters(capsys, "list", url)]
    said = run_command(capsys, "dead-letters", "drop", url, first, status=2)[1]
    assert "1 dead letter of topology 'rows', with all of their values. There is no terminal to ask on. Confirm with --yes." in said
    assert "Name the letters to drop" in run_command(capsys, "dead-letters", "drop", url, status=2)[1]
    assert "has no dead letter '9.9'" in run_command(capsys, "dead-letters", "drop", url, first, "9.9", "--yes", status=2)[1]
    assert run_command(capsys, "dead-letters", "drop", url, first, "--yes")[1] == "dropped 1 dead letter\n"
    assert [each["letter"] for each in letters(capsys, "list", url)] == others
    assert run_command(capsys, "dead-letters", "drop", url, "--component", "keeps", "--yes")[1] == "nothing was dropped\n"
    assert run_command(capsys, "dead-letters", "drop", url, "--all", "--yes")[1] == "dropped 3 dead letters\n"
    assert run_command(capsys, "dead-letters", "list", url)[0] == "topology 'rows' has no dead letter\n"


class Dies(Keeps):
    """A committer that ends the run in its commit phase."""

    def finish_batch(self) -> None:
        raise FatalError("killed in the commit phase")


def test_a_letter_in_doubt_stays_and_the_next_run_leaves_out_the_same_rows(tmp_path: Path, capsys: Captured) -> None:
    url, stored = f"sqlite:///{tmp_path / 's.db'}", Stored()
    with pytest.raises(ComponentError, match="killed in the commit phase"):
        play(through(Plain, stored, committer=lambda: Dies(stored)), tmp_path / "s.db")
    assert {each["state"] for each in letters(capsys, "list", url)} == {"in doubt"}
    said = run_command(capsys, "dead-letters", "drop", url, "--all", "--yes")[1]
    assert said == "3 letters in doubt stay: run the topology once more to settle them\nnothing was dropped\n"

    class Cured(Plain):
        def execute(self, tup: Any) -> tuple[int]:
            return (tup["number"],)

    finished = run_topology(through(Cured, stored), Config(state_provider=url))
    assert finished.errors == ()
    assert sorted(stored.by_txid[1]) == [number for number in range(10) if number not in BAD]
    found = letters(capsys, "list", url)
    assert sorted(each["values"][0] for each in found) == [number for number in sorted(BAD) if number < 10]
    assert {(each["state"], each["error"].endswith("is bad"), each["attempts"]) for each in found} == {("given up", True, 3)}


def test_a_batch_in_doubt_is_not_continued_without_the_bolt_that_left_rows_out(tmp_path: Path) -> None:
    stored = Stored()
    with pytest.raises(ComponentError, match="killed in the commit phase"):
        play(through(Plain, stored, committer=lambda: Dies(stored)), tmp_path / "s.db")
    builder = TransactionalTopologyBuilder("rows", "numbers", rows(30))
    builder.set_committer("keeps", lambda: Keeps(stored)).shuffle_grouping("numbers")
    with pytest.raises(ComponentError, match=r"without 3 of its rows, and .* has no bolt 'bolt' any more"):
        play(builder.build(), tmp_path / "s.db")


async def test_drop_is_refused_while_the_topology_runs(url: str, capsys: Captured) -> None:
    provider = provider_of(url)
    await provider.open("rows")
    try:
        said = await asyncio.to_thread(lambda: run_command(capsys, "dead-letters", "drop", url, "--all", "--yes", status=2)[1])
        assert "topology 'rows' runs now, in a process, so its dead letters cannot be dropped" in said
    finally:
        await provider.close()
