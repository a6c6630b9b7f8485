"""A standby process takes over from one that is killed, paused or ends. Real processes on real stores (TX-9, CP-8)."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from engine.state import provider_of
from engine.transactional.transactional_state import LEDGER, record_of
from tests.integration.standing_by import BATCHES, TOTAL, values_in
from tests.kills.forks import ForkedProgram, start_forked
from tests.servers.process import HOST

pytestmark = [pytest.mark.deep, pytest.mark.guarantee("TX-9", "CP-8")]
SECS = 60
LEASE_SECS = 2.5
FENCED = ("another process has taken this topology over", "This process has been taken over")
"""First error of a fenced process: from the store of the coordinator's state, or from the store of the values."""


class Running:
    """A process of the program, with its output so far."""

    def __init__(self, process: ForkedProgram) -> None:
        self.process = process
        self.said = ""

    async def says(self, text: str) -> None:
        """Wait for a text in its output."""
        while text not in self.said:
            line = await asyncio.wait_for(self.process.stdout.readline(), SECS)
            assert line, f"it ended, and said\n{self.said}"
            self.said += line.decode()

    async def ends(self) -> int:
        """Wait for its end. Return its exit status."""
        async with asyncio.timeout(SECS):
            async for line in self.process.stdout:
                self.said += line.decode()
        return await asyncio.wait_for(self.process.wait(), SECS)


@pytest.fixture(params=["sqlite", "redis", "zookeeper"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    if request.param == "redis":
        return f"redis://{HOST}:{request.getfixturevalue('server').port}/0?prefix=test&lease_secs={LEASE_SECS}"
    return f"zookeeper://{request.getfixturevalue('zookeeper')}/{secrets.token_hex(8)}?lease_secs={LEASE_SECS}"


@pytest.fixture
def values_url(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the store of the totals: another file beside a file, else Redis. A paused process could hold the lock of a file for ever."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/values.db"
    return f"redis://{HOST}:{request.getfixturevalue('server').port}/0?prefix=values"


class Scene:
    """One topology on one store, with its running and standby processes."""

    def __init__(self, folder: Path, url: str, values_url: str, processes: AsyncExitStack) -> None:
        self.folder, self.url, self.values_url = folder, url, values_url
        self._processes = processes

    async def begin(self, *, standby: bool = False, kind: str = "transactional") -> Running:
        """Start a process."""
        arguments = (str(self.folder), self.url, self.values_url, kind, "standby" if standby else "at once")
        return await self._processes.enter_async_context(_process(*arguments))

    def go(self) -> None:
        """Let the processes run to their end."""
        (self.folder / "go").touch()

    def commits(self) -> list[tuple[int, int]]:
        """Return the committing pid and the txid of each commit, in order."""
        path = self.folder / "commits"
        return [(int(pid), int(txid)) for pid, txid in map(str.split, path.read_text().splitlines())] if path.exists() else []

    async def committed(self, number: int, by: Running) -> None:
        """Wait until a process has made this number of commits."""
        async with asyncio.timeout(SECS):
            while sum(pid == by.process.pid for pid, _ in self.commits()) < number:
                assert by.process.returncode is None, by.said
                await asyncio.sleep(0.01)

    async def stored(self) -> tuple[int, int]:
        """Return the stored total and the committed txid."""
        async with values_in(self.values_url).reader() as values:
            total = await values.get("all")
        async with provider_of(self.url).inventory().look("total") as topology:
            record = record_of(await topology.entries(LEDGER), "total", partitioned=True)
        assert isinstance(total, int)
        return total, record.committed


@pytest.fixture
async def scene(url: str, values_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """Return a scene whose processes end with the test."""
    async with AsyncExitStack() as processes:
        yield Scene(tmp_path, url, values_url, processes)


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[Running]:
    process = await start_forked("tests.integration.standing_by", *arguments)
    try:
        yield Running(process)
    finally:
        process.kill()
        await process.close()


async def test_a_standby_continues_the_transactions_of_a_killed_process(scene: Scene) -> None:
    first = await scene.begin()
    await scene.committed(10, first)
    second = await scene.begin(standby=True)
    await second.says("runs in another process")
    await scene.committed(30, first)
    assert {pid for pid, _ in scene.commits()} == {first.process.pid}
    first.process.kill()
    scene.go()

    await second.says("this process runs it now")
    assert await second.ends() == 0, second.said
    assert await scene.stored() == (TOTAL, BATCHES)
    assert sorted({txid for _, txid in scene.commits()}) == list(range(1, BATCHES + 1))


async def test_a_standby_begins_at_once_when_the_first_process_ends(scene: Scene) -> None:
    first = await scene.begin(standby=True)
    await scene.committed(10, first)
    second = await scene.begin(standby=True)
    await second.says("runs in another process")
    first.process.send_signal(signal.SIGINT)  # before it may go on: it cannot come to its end
    await first.says("Draining")
    scene.go()
    assert await first.ends() == 0, first.said
    assert await second.ends() == 0, second.said
    assert {pid for pid, _ in scene.commits()} == {first.process.pid, second.process.pid}
    assert await scene.stored() == (TOTAL, BATCHES)
    assert len(scene.commits()) == BATCHES, "nothing was committed twice"


async def test_ctrl_c_ends_a_standby(scene: Scene) -> None:
    first = await scene.begin()
    await scene.committed(5, first)
    second = await scene.begin(standby=True)
    await second.says("runs in another process")
    second.process.send_signal(signal.SIGINT)
    assert await second.ends() == 0
    assert "Stopping before the start" in second.said
    scene.go()
    assert await first.ends() == 0, first.said
    assert await scene.stored() == (TOTAL, BATCHES)


async def test_a_paused_process_writes_nothing_after_a_takeover(scene: Scene) -> None:
    if scene.url.startswith("sqlite"):
        pytest.skip("the lock of a file is held as long as its process lives, paused or not: nobody overtakes it")
    first = await scene.begin()
    await scene.committed(20, first)
    second = await scene.begin(standby=True)
    await second.says("runs in another process")
    first.process.send_signal(signal.SIGSTOP)
    scene.go()
    assert await second.ends() == 0, second.said
    assert await scene.stored() == (TOTAL, BATCHES)
    by_second = [txid for pid, txid in scene.commits() if pid == second.process.pid]

    first.process.send_signal(signal.SIGCONT)
    assert await first.ends() == 1, first.said
    assert any(text in first.said for text in FENCED), first.said
    assert await scene.stored() == (TOTAL, BATCHES)
    assert by_second == list(range(by_second[0], BATCHES + 1))


async def test_without_standby_a_file_refuses_and_a_server_lets_the_newest_run(scene: Scene) -> None:
    first = await scene.begin()
    await scene.committed(5, first)
    second = await scene.begin()
    if scene.url.startswith("sqlite"):
        assert await second.ends() == 1
        assert "runs already" in second.said
        scene.go()
        assert await first.ends() == 0, first.said
    else:
        await second.says("running")
        scene.go()
        assert await first.ends() == 1, first.said
        assert any(text in first.said for text in FENCED), first.said
        assert await second.ends() == 0, second.said
    assert await scene.stored() == (TOTAL, BATCHES)


async def test_a_topology_with_state_stands_by(scene: Scene) -> None:
    if scene.url.startswith("zookeeper"):
        pytest.skip("ZooKeeper keeps no state of stateful bolts")
    first = await scene.begin(kind="stateful")
    await scene.committed(3, first)
    second = await scene.begin(kind="stateful", standby=True)
    await second.says("runs in another process")
    first.process.kill()
    scene.go()
    await second.says("this process runs it now")
    assert await second.ends() == 0, second.said
    assert {pid for pid, _ in scene.commits()} == {first.process.pid, second.process.pid}
