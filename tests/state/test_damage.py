"""Damaged stores: with any wrong bytes, the written values are read, or there is a clear error (CP-11)."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from engine.cli.main import run_command_line
from engine.errors import StateDamaged, StateError
from engine.state.checksums import MARK
from engine.state.sqlite.tables import STATEMENTS
from tests.checkpoint.stored_states import Found, read_at_start, read_with_tools, write_words
from tests.checkpoint.test_stored import WORD_PLACES
from tests.state.connections import is_closed

FILES = 120
COMMANDS = ("list", "show", "export")
Printed = dict[str, tuple[int, str]]


@pytest.fixture(autouse=True)
def all_closed(connections: list[sqlite3.Connection]) -> Iterator[None]:
    """Check that every connection of a test is closed at its end, and not by the garbage collector."""
    yield
    assert all(map(is_closed, connections))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows, committed and uncommitted deltas, and a second topology, as after an interrupted run."""
    path = tmp_path_factory.mktemp("whole") / "state.db"
    asyncio.run(write_words(f"sqlite:///{path}"))
    asyncio.run(write_words(f"sqlite:///{path}", "other"))
    return path


def printed(path: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run each command. Return status and output; errors must be clear texts on standard error."""
    shown = {}
    for command in COMMANDS:
        topology = () if command == "list" else ("--topology", "counts")
        status = run_command_line(["state", command, f"sqlite:///{path}", *topology])
        out, err = capsys.readouterr()
        assert (status == 0) == (err == "")
        assert status == 0 or err.startswith("Error: ")
        assert "Traceback" not in err
        shown[command] = status, out
    return shown


def damaged(path: Path, random: Random) -> str:
    """Change a few bytes of a file; return a description."""
    stored = bytearray(path.read_bytes())
    at = random.choice(
        [at for at, byte in enumerate(stored) if byte] if random.random() < 0.9 else range(len(stored))
    )  # most bytes are zero
    size = min(random.choice([1, 1, 1, 2, 16]), len(stored) - at)
    before = bytes(stored[at : at + size])
    while stored[at : at + size] == before:
        stored[at : at + size] = bytes([before[0] ^ 1 << random.randrange(8)]) if size == 1 else random.randbytes(size)
    path.write_bytes(stored)
    return f"{size} bytes at {at}: {before.hex()} became {stored[at : at + size].hex()}"


def found_by_deleting(path: Path) -> Found:
    """The remaining data of one topology after a deletion of the other."""
    assert run_command_line(["state", "delete", f"sqlite:///{path}", "--topology", "other", "--yes"]) in (0, 2)
    return asyncio.run(read_with_tools(f"sqlite:///{path}", "counts"))


@pytest.mark.guarantee("CP-11")
@pytest.mark.parametrize("seed", range(FILES))
def test_a_damaged_file_gives_the_written_values_or_an_error(
    seed: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = printed(whole, capsys)
    state = asyncio.run(read_with_tools(f"sqlite:///{whole}", "counts"))
    path = tmp_path / "state.db"
    shutil.copy(whole, path)
    how = damaged(path, Random(seed))
    for command, (status, out) in printed(path, capsys).items():
        assert status == 2 or out == expected[command][1], how
    shutil.copy(path, tmp_path / "copy.db")
    with suppress(StateError):
        assert found_by_deleting(tmp_path / "copy.db") == state, how
    with suppress(StateError):
        assert asyncio.run(read_at_start(f"sqlite:///{path}", "counts", WORD_PLACES)) == state, how


# One block


TRIGGERS = [statement for statement in STATEMENTS[2] if statement.startswith("CREATE TRIGGER")]


def changed(path: Path, statement: str) -> None:
    """Change a file with SQL, without its counts of rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for trigger in TRIGGERS:
            database.execute(f"DROP TRIGGER {trigger.split()[2]}")
        database.execute(statement)
        for trigger in TRIGGERS:
            database.execute(trigger)


GROUP = "a stored row of 'count', key group [0-7], "
OF_COUNT = "component = (SELECT id FROM components WHERE name = 'count' ORDER BY id LIMIT 1)"
ONE_ROW = f"(component, slot, key) = (SELECT component, slot, key FROM rows WHERE {OF_COUNT} LIMIT 1)"
FIRST_ROW = "(component, slot) = (SELECT id, 0 FROM components WHERE name = 'seen' ORDER BY id LIMIT 1)"
"""A row at the place where a task begins to read."""
ONE_DELTA = f"rowid = (SELECT rowid FROM deltas WHERE {OF_COUNT} AND txid = 1 LIMIT 1)"


@pytest.mark.guarantee("CP-11")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"UPDATE rows SET value = x'07' WHERE {ONE_ROW}", GROUP + "is damaged .read as of txid 1.: it has no checksum"),
        (f"UPDATE rows SET value = CAST(x'c109' || substr(value, -4) AS BLOB) WHERE {ONE_ROW}", GROUP + ".* its checksum does not match"),
        (f"UPDATE rows SET key = x'a17a' WHERE {ONE_ROW}", GROUP + ".* its checksum does not match"),
        (f"UPDATE rows SET value = 7 WHERE {ONE_ROW}", "it is of type int, not bytes"),
        (f"UPDATE rows SET value = 'text' WHERE {ONE_ROW}", "it is of type str, not bytes"),
        (f"UPDATE rows SET key = 7 WHERE {ONE_ROW}", "'count', key group or task [0-7], has a key of type integer, not bytes"),
        (f"UPDATE rows SET key = CAST(key AS TEXT) WHERE {FIRST_ROW}", "'seen', key group or task 0, has a key of type text, not bytes"),
        (f"UPDATE rows SET key = x'' WHERE {FIRST_ROW}", "'seen', key group or task 0, has an empty key"),
        (f"UPDATE rows SET slot = slot + 100 WHERE {ONE_ROW}", "are missing, or there are too many"),
        (f"DELETE FROM rows WHERE {ONE_ROW}", "are missing, or there are too many"),
        (f"UPDATE deltas SET txid = 0, round = 2 WHERE {ONE_DELTA}", "'count', task [01], stored for txid 0, round 2, is damaged"),
        (f"UPDATE deltas SET blob = 'text' WHERE {ONE_DELTA}", "'count', task [01], stored for txid 1, round [0-9]+, is damaged"),
        (f"UPDATE deltas SET task = 9 WHERE {ONE_DELTA}", "deltas of component 'count', task [019], are missing, or there are too many"),
        (f"DELETE FROM deltas WHERE {ONE_DELTA}", "deltas of component 'count', task [01], are missing"),
        ("UPDATE ledgers SET value = 7", "the entry '.*' of the ledger '.checkpoint' of topology 'counts': it is of type int"),
        ("UPDATE ledgers SET name = 'recorf' WHERE name = 'record'", "the entry 'recorf' of the ledger '.checkpoint' of topology 'counts'"),
        ("UPDATE topologies SET name = 'count' WHERE name = 'counts'", "its topologies, components and epochs"),
        ("UPDATE components SET name = 'seem' WHERE name = 'seen'", "its topologies, components and epochs"),
        ("UPDATE epochs SET epoch = 0", "its topologies, components and epochs"),
        ("DROP TABLE sums", "the definition of 'sums' has changed"),
    ],
)  # fmt: skip
def test_a_damaged_block_is_named(statement: str, said: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state.db"
    shutil.copy(whole, path)
    changed(path, statement)
    with pytest.raises(StateDamaged, match=said):
        asyncio.run(read_at_start(f"sqlite:///{path}", "counts", WORD_PLACES))
    assert run_command_line(["state", "export", f"sqlite:///{path}", "--topology", "counts"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_block_moved_to_another_place_is_refused(whole: Path, tmp_path: Path) -> None:
    """Swap two rows, which are both undamaged."""
    path = tmp_path / "state.db"
    shutil.copy(whole, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        [(first, one), (second, two)] = database.execute(f"SELECT slot, value FROM rows WHERE {OF_COUNT} LIMIT 2").fetchall()
    changed(path, f"UPDATE rows SET value = CASE WHEN value = x'{one.hex()}' THEN x'{two.hex()}' ELSE x'{one.hex()}' END WHERE {OF_COUNT} "
            f"AND slot IN ({first}, {second})")  # fmt: skip
    with pytest.raises(StateDamaged, match="its checksum does not match"):
        asyncio.run(read_at_start(f"sqlite:///{path}", "counts", WORD_PLACES))


# Older versions


def without_checksums(path: Path) -> None:
    """Convert a file to format 1, of versions without checksums."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for trigger in TRIGGERS:
            database.execute(f"DROP TRIGGER {trigger.split()[2]}")
        for table in ("sums", "counts"):
            database.execute(f"DROP TABLE {table}")
        for table, column in (("rows", "value"), ("deltas", "blob"), ("ledgers", "value")):
            database.execute(f"UPDATE {table} SET {column} = substr({column}, 2, length({column}) - 5)")
        database.execute("DELETE FROM ledgers WHERE name = 'checksums'")
        database.execute("PRAGMA user_version = 1")


@pytest.mark.guarantee("CP-11")
def test_rows_of_an_older_version_are_read_and_get_checksums_when_changed(whole: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    shutil.copy(whole, tmp_path / "state.db")
    state = asyncio.run(read_with_tools(url, "counts"))
    without_checksums(tmp_path / "state.db")
    assert asyncio.run(read_with_tools(url, "counts")) == state
    assert asyncio.run(read_at_start(url, "counts", WORD_PLACES)) == state  # folds what is committed
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        values = [value for (value,) in database.execute(f"SELECT value FROM rows WHERE {OF_COUNT}")]
    assert {value[:1] == MARK for value in values} == {True, False}
    assert asyncio.run(read_with_tools(url, "counts")) == state
    changed(tmp_path / "state.db", f"UPDATE rows SET value = CAST(value || x'00' AS BLOB) WHERE {OF_COUNT} AND substr(value, 1, 1) = x'c1'")
    with pytest.raises(StateDamaged, match="its checksum does not match"):
        asyncio.run(read_at_start(url, "counts", WORD_PLACES))


@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE rows SET {column} = {value} WHERE {ONE_ROW}" for column in ("key", "value")
          for value in ("7", "'text'", "1.5", "x'ff'", "x'c1'")),
        *(f"UPDATE deltas SET blob = {value}" for value in ("7", "'text'", "x'93c0c0c0'", "x'929190'", "x'9291c092c0'", "x'92919091c0'")),
        *(f"UPDATE ledgers SET value = {value} WHERE name = '{name}'" for name in ("record", "codec", "layout:count")
          for value in ("7", "'text'", "x'07'", "x'c0'", "x'9191c0'", "x'93a16101c0'", "x'81a16101'")),
        "UPDATE ledgers SET name = x'ff' WHERE name = 'codec'",
        "INSERT INTO ledgers SELECT topology, ledger, 'deleting', x'07' FROM ledgers WHERE name = 'codec'",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [*COMMANDS, "delete"])
def test_a_damaged_row_of_an_older_version_is_a_clear_error(
    command: str, statement: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a checksum, such damage is noticed only if the value cannot be read."""
    shutil.copy(whole, tmp_path / "state.db")
    without_checksums(tmp_path / "state.db")
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as database:
        database.execute(statement)
    sure = ["--topology", "counts", "--yes"] if command == "delete" else []
    status = run_command_line(["state", command, f"sqlite:///{tmp_path}/state.db", *sure])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert status == 0 or (status == 2 and err.startswith("Error: "))


TOPOLOGY = """
from engine import TopologyBuilder, spout, stateful_bolt

@spout("number")
def numbers():
    for number in range(300):
        yield (number,)

@stateful_bolt()
def count(tup, state):
    state.put(tup["number"], state.get(tup["number"], 0) + 1)

builder = TopologyBuilder("numbers")
builder.set_spout("numbers", numbers)
builder.set_bolt("count", count, parallelism=2).fields_grouping("numbers", "number")
"""


@pytest.mark.guarantee("CP-11")
@pytest.mark.parametrize("column", ["key", "value"])
def test_a_run_with_a_damaged_row_ends_with_an_error_that_names_it(column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No call reads the row with the damaged key, and the run must not start it at zero."""
    (tmp_path / "numbers.py").write_text(TOPOLOGY)
    command = ["run", f"{tmp_path}/numbers.py", "-c", f"state_provider=sqlite:///{tmp_path}/state.db"]
    assert run_command_line(command) == 0
    changed(tmp_path / "state.db", f"UPDATE rows SET {column} = CAST({column} || x'01' AS BLOB) WHERE {ONE_ROW}")
    capsys.readouterr()
    assert run_command_line(command) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "topology 'numbers': a stored row of 'count', key group 0, is damaged (read as of txid" in err
