"""`committers show` and `committers forget`: a topology begins anew after its state was deleted (EO-11). Real servers."""

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio

import engine
from engine.cli.main import run_command_line
from engine.cli.topology_file import load_topology
from engine.errors import ComponentError
from engine.state import provider_of
from tests.checkpoint.exact.conftest import ServerOf
from tests.checkpoint.exact.outputs import KINDS, Target, prepare, published
from tests.patience import PATIENCE_SECS

ROWS = 20
pytestmark = pytest.mark.guarantee("EO-11")
KNOWING = [kind for kind in KINDS if kind not in ("own", "spark")]
Captured = pytest.CaptureFixture[str]
FILE = '''
from engine import Config, TopologyBuilder, spout
from tests.checkpoint.exact.outputs import Target, factory

@spout("number", "count", positions=True)
def rows(after):
    for number in range(after or 0, {rows}):
        yield number + 1, (number, 1)

builder = TopologyBuilder("anew", Config(state_provider={url!r}))
builder.set_spout("rows", rows)
builder.set_committer("output", factory({target!r}), {tasks}).fields_grouping("rows", "number")
topology = builder.build()
'''


class Play:
    """A topology with a committer, and what a user does with it."""

    def __init__(self, target: Target, capsys: Captured) -> None:
        self.target, self._capsys = target, capsys
        self.url = f"sqlite:///{target.folder}/state.db"
        self.file = Path(target.folder, "anew.py")
        self.write(tasks=2)

    def write(self, tasks: int) -> None:
        """Write the topology file."""
        self.write_text(FILE.format(rows=ROWS, url=self.url, target=self.target, tasks=tasks))

    def write_text(self, text: str) -> None:
        self.file.write_text(text)

    def lose_state(self) -> None:
        """Remove the file of the state provider."""
        Path(self.target.folder, "state.db").unlink()

    def own_rows(self) -> Any:
        """Return the rows of the user's own committer."""
        return json.loads(Path(self.target.folder, "own.json").read_text())[1]

    def remove_files(self) -> None:
        """Remove the output files."""
        for path in Path(self.target.folder, "output").glob("[0-9]*"):
            path.unlink()

    async def run(self) -> None:
        topology = (await asyncio.to_thread(load_topology, str(self.file))).topology
        async with engine.run(topology) as run, asyncio.timeout(PATIENCE_SECS):
            await run.completed()

    async def command(self, *arguments: str, status: int = 0) -> str:
        """Run a command, and return what it writes."""
        self._capsys.readouterr()
        found = await asyncio.to_thread(run_command_line, list(arguments))
        text = "".join(self._capsys.readouterr())
        assert found == status, text
        return text

    async def forget(self, *arguments: str, status: int = 0) -> str:
        return await self.command("committers", "forget", str(self.file), *arguments, "--yes", status=status)

    async def newest(self) -> str:
        """Return the newest checkpoint of the target, as `show` writes it."""
        return (await self.command("committers", "show", str(self.file))).splitlines()[-1].split(maxsplit=1)[1]

    async def empty(self) -> None:
        """Empty the target, as a user does."""
        name, kind = self.target.name, self.target.kind
        table = "output" if kind.endswith("rows") else name
        if kind.startswith("sqlite"):
            file = Path(self.target.folder, "rows.db" if kind.endswith("rows") else "values.db")
            with closing(sqlite3.connect(file)) as connection, connection:
                connection.execute(f"DELETE FROM {table}")
        elif kind.startswith("postgres"):
            link = await asyncpg.connect(self.target.server)
            await link.execute(f"TRUNCATE {table}")
            await link.close()
        elif kind.startswith("redis"):
            async with redis.asyncio.from_url(self.target.server) as client:
                [key] = [key async for key in client.scan_iter(f"*{name}*:values")]
                await client.delete(key)
        elif kind == "files":
            self.remove_files()


@pytest.fixture
async def play(server_of: ServerOf, tmp_path: Path, capsys: Captured, request: pytest.FixtureRequest) -> Play:
    """Return the topology after a complete run."""
    server, name = await server_of(request.param)
    target = Target(kind=request.param, folder=str(tmp_path), server=server, name=name)
    await prepare(target)
    found = Play(target, capsys)
    await found.run()
    return found


async def counted(play: Play) -> Counter[int]:
    """Return how often each number is in the target."""
    if play.target.kind.endswith("values"):
        return await published(play.target)
    return Counter(row[0] if isinstance(row, tuple) else json.loads(row)[0] for row in (await published(play.target)).elements())


@pytest.mark.parametrize("play", KNOWING, indirect=True)
async def test_a_target_that_has_forgotten_takes_everything_again_once(play: Play) -> None:
    once, before = Counter(range(ROWS)), await play.newest()
    assert await counted(play) == once
    assert int(before) >= 0
    assert "has a state, of checkpoint" in await play.forget(status=2)
    assert "The targets of 'output' still have what was published" in await play.command("state", "delete", play.url, "--yes")
    with pytest.raises(ComponentError, match=r"committed nothing") as found:
        await play.run()
    assert "python -m engine committers forget FILE.py" in str(found.value)
    assert await play.newest() == before
    if play.target.kind.endswith("values") or play.target.kind == "files":
        assert "has values" in (text := await play.forget(status=2)) or "has output files" in text
        assert await play.newest() == before
    await play.empty()
    kept = await counted(play)
    assert kept == (once if play.target.kind == "kafka" else Counter())
    await play.forget()
    assert await play.newest() == "–"
    assert await counted(play) == kept, "nothing of the user's is deleted"
    play.write(tasks=3)
    await play.run()
    assert await counted(play) == once + kept
    assert int(await play.newest()) >= 0
    await play.run()
    assert await counted(play) == once + kept


@pytest.mark.parametrize("play", ["sqlite values", "postgres values"], indirect=True)
async def test_a_map_whose_table_was_dropped_is_made_again(play: Play) -> None:
    await play.command("state", "delete", play.url, "--yes")
    if play.target.kind.startswith("sqlite"):
        with closing(sqlite3.connect(Path(play.target.folder, "values.db"))) as connection, connection:
            connection.execute(f"DROP TABLE {play.target.name}")
    else:
        link = await asyncpg.connect(play.target.server)
        await link.execute(f"DROP TABLE {play.target.name}")
        await link.close()
    await play.forget()
    await play.run()
    assert await counted(play) == Counter(range(ROWS))


@pytest.mark.parametrize("play", ["own"], indirect=True)
async def test_a_committer_of_your_own_without_the_method_is_named(play: Play) -> None:
    await play.command("state", "delete", play.url, "--yes")
    assert await play.newest() == "its target does not tell"
    text = await play.forget(status=2)
    assert "committer 'output': OwnCommitter has no method forget()" in text


OWN = '''
import json
from pathlib import Path

from engine import Config, TopologyBuilder, spout
from engine.transactional import Committer

PLACE = Path({folder!r}, "own.json")

@spout("number", positions=True)
def rows(after):
    for number in range(after or 0, 5):
        yield number + 1, (number,)

class Own(Committer):
    def prepare(self):
        self.rows = []

    def execute(self, tup):
        self.rows.append(tup["number"])

    def finish_batch(self):
        txid, rows = json.loads(PLACE.read_text()) if PLACE.exists() else (0, [])
        if self.attempt.txid > txid:
            PLACE.write_text(json.dumps([self.attempt.txid, rows + self.rows]))

    async def published_txid(self):
        return json.loads(PLACE.read_text())[0] if PLACE.exists() else 0

    async def forget(self):
        PLACE.write_text(json.dumps([0, json.loads(PLACE.read_text())[1]]))

builder = TopologyBuilder("anew", Config(state_provider={url!r}))
builder.set_spout("rows", rows)
builder.set_committer("output", Own).global_grouping("rows")
topology = builder.build()
'''


async def test_a_committer_of_your_own_forgets_in_its_method(tmp_path: Path, capsys: Captured) -> None:
    play = Play(Target(kind="own", folder=str(tmp_path)), capsys)
    play.write_text(OWN.format(folder=str(tmp_path), url=play.url))
    await play.run()
    play.lose_state()
    with pytest.raises(ComponentError, match="committers forget"):
        await play.run()
    await play.forget("output")
    await play.run()
    assert play.own_rows() == [*range(5), *range(5)]
    text = OWN.format(folder=str(tmp_path), url=play.url)
    play.write_text(text.replace("async def forget(self):", "async def forget(self):\n        1 / 0"))
    play.lose_state()
    assert "its target cannot be asked: ZeroDivisionError" in await play.forget(status=2)


@pytest.mark.parametrize("play", ["sqlite rows"], indirect=True)
async def test_what_is_refused(play: Play) -> None:
    assert "has no committer 'outputs'" in await play.forget("outputs", status=2)
    await play.command("state", "delete", play.url, "--yes")
    assert "Confirm with --yes" in await play.command("committers", "forget", str(play.file), status=2)
    provider = provider_of(play.url)
    await provider.open("anew")
    try:
        assert "topology 'anew'" in await play.forget(status=2)
    finally:
        await provider.close()
    assert int(await play.newest()) >= 0
