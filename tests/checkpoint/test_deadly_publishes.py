"""A row that ends each process which publishes it: the deaths are counted and told, and an operator can give the rows up (EO-9, EO-11)."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine import Config, Run
from engine.checkpoint.feature import CheckpointEntry
from engine.checkpoint.record_entries import LEDGER, Publishing, StoredEntries, publishing_entry
from engine.dead_letters import DeadLetter, encode_row, letters_in
from engine.dead_letters.stored_letters import MOST_LETTERS, name_of
from engine.state import codec_named, provider_of
from engine.testing import KillTask, run_topology
from tests.checkpoint.deadly_committer import FILE, KILLER, ROWS
from tests.checkpoint.test_committer_restarts import ended_in_committing, state_in
from tests.checkpoint.test_committers import Target, Writing, topology
from tests.patience import PATIENCE_SECS


@dataclass
class Play:
    """The topology with the deadly committer."""

    folder: Path
    kind: str
    tasks: int = 1
    beside: str = ""
    """Kind of a second committer."""

    def __post_init__(self) -> None:
        self.file = self.folder / "deadly.py"
        self.file.write_text(FILE.format(folder=str(self.folder), kind=self.kind, tasks=self.tasks, beside=self.beside))
        with closing(sqlite3.connect(self.folder / "rows.db")) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER)")

    async def begin(self, *command: str, step: str = "", number: int = 1) -> asyncio.subprocess.Process:
        arguments = ["-m", "tests.checkpoint.deadly_committer", step, *command]
        return await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stderr=asyncio.subprocess.STDOUT, stdout=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL, env={**os.environ, "NUMBER": str(number)},
        )  # fmt: skip

    async def command(self, *command: str, status: int = 0, step: str = "", number: int = 1) -> str:
        """Run a command, and return what it writes."""
        process = await self.begin(*command, step=step, number=number)
        async with asyncio.timeout(PATIENCE_SECS):
            text = (await process.communicate())[0].decode()
        assert process.returncode == status, text
        return text

    async def run(self, *, status: int) -> str:
        return await self.command("run", str(self.file), status=status)

    async def give_up(self, *arguments: str, status: int = 0, step: str = "", number: int = 1) -> str:
        return await self.command("committers", "give-up", str(self.file), *arguments, status=status, step=step, number=number)

    async def entries(self) -> dict[str, object]:
        return await entries_of(f"sqlite:///{self.folder}/state.db", "deadly")

    async def letters(self) -> list[int]:
        """Return the rows of the dead letters."""
        letters = letters_in(await self.entries()).values()
        assert all(each.is_processed and each.component_id == "out" for each in letters)
        return sorted(provider_codec().decode(each.row.encoded)[0] for each in letters)

    def published(self) -> list[int]:
        """Return what the target has."""
        if self.kind == "sql":
            with closing(sqlite3.connect(self.folder / "rows.db")) as connection:
                return sorted(row for (row,) in connection.execute("SELECT n FROM rows"))
        return rows_in(self.folder)


def rows_in(folder: Path) -> list[int]:
    return sorted(row for path in (folder / "own").glob("*.json") for row in json.loads(path.read_text()))


def provider_codec() -> Any:
    return codec_named("msgpack")


async def entries_of(url: str, topology_name: str) -> dict[str, object]:
    async with provider_of(url).inventory().look(topology_name) as stored:
        return await stored.entries(LEDGER)


def publishing_in(entries: dict[str, object]) -> Publishing | None:
    return StoredEntries(entries, "deadly").publishing


# Deaths are counted


@pytest.mark.guarantee("EO-9", "EO-11")
@pytest.mark.parametrize(("kind", "tasks"), [("own", 3), ("sql", 1), pytest.param("refusing", 1, marks=pytest.mark.deep)])
async def test_a_row_that_ends_each_process_which_publishes_it_is_told_and_can_be_given_up(kind: str, tasks: int, tmp_path: Path) -> None:
    play = Play(tmp_path, kind, tasks)
    for deaths in (0, 1, 2):  # the first process has found no COMMITTING
        assert "have ended while" not in await play.run(status=9)
        found = publishing_in(await play.entries())
        assert (0 if found is None else found.ended) == deaths
    text = await play.run(status=9)
    told = f"2 processes have ended while publishing checkpoint {found.txid} by the committer 'out'"
    assert told in text
    assert "python -m engine committers give-up FILE.py" in text
    assert told.replace("2", "3", 1) in await play.command("committers", "show", str(play.file))
    assert "There is no terminal to ask on. Confirm with --yes" in await play.give_up(status=2)
    assert "They are dead letters now" in await play.give_up("--yes")
    letters = await play.letters()
    assert KILLER in letters
    assert letters == sorted(set(letters))
    assert "have ended while" not in await play.command("committers", "show", str(play.file))
    assert "have ended while" not in await play.run(status=0)
    assert sorted({*play.published(), *letters}) == list(range(ROWS))
    assert KILLER not in play.published()
    assert len(play.published()) == len(set(play.published()))
    if tasks == 1:
        assert len(play.published()) + len(letters) == ROWS
    assert await play.letters() == letters
    assert publishing_in(await play.entries()) is None


@pytest.mark.guarantee("EO-11")
@pytest.mark.parametrize(
    ("step", "number"),
    [
        pytest.param("before the claim", 1, marks=pytest.mark.soak),  # like the next one
        pytest.param("after the claim", 1, marks=pytest.mark.soak),
        pytest.param("after the claim", 3, marks=pytest.mark.deep),
        ("before the write", 1),
        ("after the write", 1),
    ],
)
async def test_a_kill_of_the_command_loses_and_doubles_nothing(step: str, number: int, tmp_path: Path) -> None:
    play = Play(tmp_path, "own")
    await play.run(status=9)
    await play.give_up("--yes", status=-signal.SIGKILL, step=step, number=number)
    letters = await play.letters()
    assert (KILLER in letters) == (step == "after the write")
    if not letters:
        await play.run(status=9)
        await play.give_up("--yes")
        letters = await play.letters()
    await play.run(status=0)
    assert await play.letters() == letters
    assert sorted(play.published() + letters) == list(range(ROWS))


# What is no death


@pytest.mark.guarantee("EO-9")
async def test_a_target_that_is_away_is_no_death(tmp_path: Path) -> None:
    play = Play(tmp_path, "unavailable")
    for _ in range(3):
        process = await play.begin("run", str(play.file))
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECS):
            while b"the target is away" not in await process.stdout.readline():
                pass
        process.kill()
        await process.communicate()
        assert publishing_in(await play.entries()) is None
    (tmp_path / "there").touch()
    await play.run(status=0)
    assert play.published() == list(range(ROWS))


class Hangs(Writing):
    """Hangs while it publishes the txid that an earlier run has left, until its task has died."""

    hung: list[Any]

    async def finish_batch(self) -> None:  # type: ignore[override]
        if self.attempt.txid == 3 and self.hung:
            await self.hung.pop()
        super().finish_batch()


@pytest.mark.guarantee("EO-9", "EO-10")
@pytest.mark.parametrize("ending", ["recovery", "stop"])
def test_a_recovery_and_an_orderly_end_are_no_deaths(ending: str, tmp_path: Path) -> None:
    target, config, found = Target(), state_in(tmp_path), []
    ended_in_committing(target, tmp_path)
    target.trouble = []
    hanging = type("HangsOnce", (Hangs,), {"hung": []})

    async def look(run: Run) -> None:
        await asyncio.sleep(2)
        found.append(publishing_in(await entries_of(config.state_provider, "committed")))
        if ending == "stop":
            await run.stop()

    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    hanging.hung.append(hang())  # type: ignore[attr-defined]
    faults = [KillTask("out", at_secs=4)] if ending == "recovery" else []
    run_topology(topology(lambda: hanging(target)), config, during=look, faults=faults)
    assert found == [Publishing(2, 0, ("out",), is_under_way=True)]
    assert publishing_in(asyncio.run(entries_of(config.state_provider, "committed"))) is None
    run_topology(topology(lambda: Writing(target)), config)
    assert target.rows == list(range(len(target.rows)))


@pytest.mark.guarantee("EO-9", "EO-10")
def test_what_the_run_waits_for_names_the_deaths(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target, config = Target(), state_in(tmp_path)
    ended_in_committing(target, tmp_path)
    target.trouble = []
    asyncio.run(write_entries("committed", config, publishing_entry(Publishing(2, 2, ("out",), is_under_way=True))))
    hanging = type("HangsOnce", (Hangs,), {"hung": []})

    async def hang() -> None:
        await asyncio.sleep(20)

    waits: list[str] = []
    long_waits: list[str] = []

    async def look(run: Run) -> None:
        await asyncio.sleep(10)
        value = run.snapshot().entry(CheckpointEntry).value
        assert value is not None
        waits.extend(value.waits_for)
        long_waits.extend(each.what for each in run.snapshot().waits)

    hanging.hung.append(hang())  # type: ignore[attr-defined]
    run_topology(topology(lambda: hanging(target)), config, during=look)
    told = "publish(2), while which 3 processes have ended; see `committers give-up`"
    assert waits == [f"out[2] repeats {told}"]
    assert any(told in each for each in long_waits)
    assert "3 processes have ended while publishing checkpoint 2 by the committer 'out'" in caplog.text


async def write_entries(topology_name: str, config: Config, changes: dict[str, object]) -> None:
    provider = provider_of(config.state_provider)
    await provider.open(topology_name)
    ledger = provider.ledger(LEDGER)
    await ledger.claim()
    await ledger.write(changes)
    await provider.close()


# What is refused


@pytest.mark.guarantee("EO-11")
async def test_a_process_that_publishes_now_has_not_ended(tmp_path: Path) -> None:
    play = Play(tmp_path, "own")
    for _ in range(3):
        await play.run(status=9)
    assert "2 processes have ended" in await play.command("committers", "show", str(play.file))
    provider = provider_of(f"sqlite:///{tmp_path}/state.db")
    await provider.open("deadly")
    try:
        assert "1 process has ended" in await play.command("committers", "show", str(play.file))
    finally:
        await provider.close()


@pytest.mark.guarantee("EO-11")
async def test_of_several_committers_one_is_named_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    play = Play(tmp_path, "own", beside="unavailable")
    await play.run(status=9)
    assert "is not published by 2 committers: 'beside', 'out'" in await play.give_up("--yes", status=2)
    assert await play.letters() == []
    await play.give_up("out", "--yes")
    (tmp_path / "beside" / "there").touch()
    await play.run(status=0)
    assert sorted(play.published() + await play.letters()) == list(range(ROWS))
    assert rows_in(tmp_path / "beside") == list(range(ROWS))


@pytest.mark.guarantee("EO-11")
async def test_pieces_are_no_rows(tmp_path: Path) -> None:
    play = Play(tmp_path, "pieces")
    await play.run(status=9)
    assert "committer 'out' stages pieces of its own, which are no rows" in await play.give_up("--yes", status=2)
    assert await play.letters() == []


@pytest.mark.guarantee("EO-11")
async def test_what_is_refused(tmp_path: Path) -> None:
    play = Play(tmp_path, "own")
    assert "no output of a committer waits to be published" in await play.give_up("--yes", status=2)
    await play.run(status=9)
    assert "has no committer 'outs'" in await play.give_up("outs", "--yes", status=2)
    provider = provider_of(f"sqlite:///{tmp_path}/state.db")
    await provider.open("deadly")
    try:
        assert "topology 'deadly'" in await play.give_up("--yes", status=2)
    finally:
        await provider.close()
    before = await play.entries()
    letter = DeadLetter(0, 1, "out", 2, encode_row("numbers", "default", (1,), provider_codec()), "bad", 1, 0.0)
    await write_entries("deadly", Config(state_provider=f"sqlite:///{tmp_path}/state.db"), {
        name_of(0, number): letter.entry() for number in range(MOST_LETTERS)
    })
    assert "and there is room for 0 more dead letters" in await play.give_up("--yes", status=2)
    assert {name: entry for name, entry in (await play.entries()).items() if not name.startswith("letter:")} == before
