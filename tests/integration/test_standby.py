"""A standby takes over from a killed, paused or ended process. The tests use real processes and real stores (TX-9, CP-8)."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from engine.state import provider_of
from engine.transactional.transactional_state import LEDGER, record_of
from tests.integration.standby_program import BATCHES, TOTAL, values_in
from tests.kills.forks import ForkedProgram, start_forked
from tests.servers.process import HOST

pytestmark = [pytest.mark.deep, pytest.mark.guarantee("TX-9", "CP-8")]
SECS = 60
LEASE_SECS = 2.5
FENCED = ("another process has taken this topology over", "This process has been taken over")
"""Possible first errors of a fenced process. The store of the coordinator's state raises one, the store of the values the other."""


class StandbyProcess:
    """A process of `standby_program`, with its output so far."""

    def __init__(self, process: ForkedProgram) -> None:
        self.process = process
        self.output = ""

    async def wait_for_output(self, text: str) -> None:
        """Wait for a text in the output."""
        while text not in self.output:
            line = await asyncio.wait_for(self.process.stdout.readline(), SECS)
            assert line, f"it ended with the output\n{self.output}"
            self.output += line.decode()

    async def wait_for_end(self) -> int:
        """Wait until the process ends. Return its exit status."""
        async with asyncio.timeout(SECS):
            async for line in self.process.stdout:
                self.output += line.decode()
        return await asyncio.wait_for(self.process.wait(), SECS)


STORES = ("sqlite", "redis", "zookeeper")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    if request.param == "redis":
        return f"redis://{HOST}:{request.getfixturevalue('server').port}/0?prefix=test&lease_secs={LEASE_SECS}"
    return f"zookeeper://{request.getfixturevalue('zookeeper')}/{secrets.token_hex(8)}?lease_secs={LEASE_SECS}"


@pytest.fixture
def values_url(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the store of the totals: a second file for SQLite, else Redis. A paused process could hold the lock of a file for ever."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/values.db"
    return f"redis://{HOST}:{request.getfixturevalue('server').port}/0?prefix=values"


class StandbyRun:
    """One topology on one store, with its active and its standby processes."""

    def __init__(self, folder: Path, url: str, values_url: str, processes: AsyncExitStack) -> None:
        self.folder, self.url, self.values_url = folder, url, values_url
        self._processes = processes

    async def begin(self, *, standby: bool = False, kind: str = "transactional") -> StandbyProcess:
        """Start a process."""
        arguments = (str(self.folder), self.url, self.values_url, kind, "standby" if standby else "at once")
        return await self._processes.enter_async_context(_process(*arguments))

    def release(self) -> None:
        """Let the processes run to their end."""
        (self.folder / "go").touch()

    def commits(self) -> list[tuple[int, int]]:
        """Return the committing pid and the txid of each commit, in order."""
        path = self.folder / "commits"
        return [(int(pid), int(txid)) for pid, txid in map(str.split, path.read_text().splitlines())] if path.exists() else []

    async def wait_for_commits(self, number: int, by: StandbyProcess) -> None:
        """Wait until a process has made this number of commits."""
        async with asyncio.timeout(SECS):
            while sum(pid == by.process.pid for pid, _ in self.commits()) < number:
                assert by.process.returncode is None, by.output
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
async def standby_run(url: str, values_url: str, tmp_path: Path) -> AsyncIterator[StandbyRun]:
    """Return a run whose processes end with the test."""
    async with AsyncExitStack() as processes:
        yield StandbyRun(tmp_path, url, values_url, processes)


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[StandbyProcess]:
    process = await start_forked("tests.integration.standby_program", *arguments)
    try:
        yield StandbyProcess(process)
    finally:
        process.kill()
        await process.close()


async def test_a_standby_continues_the_transactions_of_a_killed_process(standby_run: StandbyRun) -> None:
    first = await standby_run.begin()
    await standby_run.wait_for_commits(10, first)
    second = await standby_run.begin(standby=True)
    await second.wait_for_output("runs in another process")
    await standby_run.wait_for_commits(30, first)
    assert {pid for pid, _ in standby_run.commits()} == {first.process.pid}
    first.process.kill()
    standby_run.release()

    await second.wait_for_output("this process runs it now")
    assert await second.wait_for_end() == 0, second.output
    assert await standby_run.stored() == (TOTAL, BATCHES)
    assert sorted({txid for _, txid in standby_run.commits()}) == list(range(1, BATCHES + 1))


async def test_a_standby_begins_at_once_when_the_first_process_ends(standby_run: StandbyRun) -> None:
    first = await standby_run.begin(standby=True)
    await standby_run.wait_for_commits(10, first)
    second = await standby_run.begin(standby=True)
    await second.wait_for_output("runs in another process")
    first.process.send_signal(signal.SIGINT)  # the file `go` is missing, so the run cannot complete first
    await first.wait_for_output("Draining")
    standby_run.release()
    assert await first.wait_for_end() == 0, first.output
    assert await second.wait_for_end() == 0, second.output
    assert {pid for pid, _ in standby_run.commits()} == {first.process.pid, second.process.pid}
    assert await standby_run.stored() == (TOTAL, BATCHES)
    assert len(standby_run.commits()) == BATCHES, "a batch was committed twice"


async def test_ctrl_c_ends_a_standby(standby_run: StandbyRun) -> None:
    first = await standby_run.begin()
    await standby_run.wait_for_commits(5, first)
    second = await standby_run.begin(standby=True)
    await second.wait_for_output("runs in another process")
    second.process.send_signal(signal.SIGINT)
    assert await second.wait_for_end() == 0
    assert "Stopping before the start" in second.output
    standby_run.release()
    assert await first.wait_for_end() == 0, first.output
    assert await standby_run.stored() == (TOTAL, BATCHES)


@pytest.mark.parametrize("url", STORES[1:], indirect=True)  # with SQLite a paused process keeps its file lock
async def test_a_paused_process_writes_nothing_after_a_takeover(standby_run: StandbyRun) -> None:
    first = await standby_run.begin()
    await standby_run.wait_for_commits(20, first)
    second = await standby_run.begin(standby=True)
    await second.wait_for_output("runs in another process")
    first.process.send_signal(signal.SIGSTOP)
    standby_run.release()
    assert await second.wait_for_end() == 0, second.output
    assert await standby_run.stored() == (TOTAL, BATCHES)
    by_second = [txid for pid, txid in standby_run.commits() if pid == second.process.pid]

    first.process.send_signal(signal.SIGCONT)
    assert await first.wait_for_end() == 1, first.output
    assert any(text in first.output for text in FENCED), first.output
    assert await standby_run.stored() == (TOTAL, BATCHES)
    assert by_second == list(range(by_second[0], BATCHES + 1))


async def test_without_standby_sqlite_refuses_a_second_run_and_a_server_fences_the_first(standby_run: StandbyRun) -> None:
    first = await standby_run.begin()
    await standby_run.wait_for_commits(5, first)
    second = await standby_run.begin()
    if standby_run.url.startswith("sqlite"):
        assert await second.wait_for_end() == 1
        assert "runs already" in second.output
        standby_run.release()
        assert await first.wait_for_end() == 0, first.output
    else:
        await second.wait_for_output("running")
        standby_run.release()
        assert await first.wait_for_end() == 1, first.output
        assert any(text in first.output for text in FENCED), first.output
        assert await second.wait_for_end() == 0, second.output
    assert await standby_run.stored() == (TOTAL, BATCHES)


@pytest.mark.parametrize("url", STORES[:2], indirect=True)  # ZooKeeper keeps no state of stateful bolts
async def test_a_standby_takes_over_a_stateful_topology(standby_run: StandbyRun) -> None:
    first = await standby_run.begin(kind="stateful")
    await standby_run.wait_for_commits(3, first)
    second = await standby_run.begin(kind="stateful", standby=True)
    await second.wait_for_output("runs in another process")
    first.process.kill()
    standby_run.release()
    await second.wait_for_output("this process runs it now")
    assert await second.wait_for_end() == 0, second.output
    assert {pid for pid, _ in standby_run.commits()} == {first.process.pid, second.process.pid}
