"""The store of an exact topology goes away: the run waits, says what it waits for, goes on, and each row counts once (EO-1, EO-10)."""

import asyncio
import logging
import random
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine import Run
from tests.checkpoint.outages.full_disk import TROUBLES
from tests.checkpoint.outages.kit import Numbers, commits, judge, play, until, watch_outage
from tests.patience import PATIENCE_SECS
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required

ROOT = Path(__file__).resolve().parents[3]
MOST_RUNNING_SECS = 0.3
"""Longest time from the restart of a server to its next death."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of its own, which writes each command to its disk before it answers."""
    required(why_not())
    with RedisServer(tmp_path) as server:
        yield server


def url(server: RedisServer, **options: object) -> str:
    return f"redis://127.0.0.1:{server.port}/0?prefix=outages" + "".join(f"&{name}={value}" for name, value in options.items())


async def killed(server: RedisServer, kills: int, draws: random.Random) -> None:
    """Kill the server at random moments of a run, and start it again, at once or when the run has noticed."""

    async def work(run: Run, numbers: Numbers) -> None:
        for _ in range(kills):
            await asyncio.sleep(draws.uniform(0, MOST_RUNNING_SECS))
            await asyncio.to_thread(server.kill)
            if draws.random() < 0.5:
                await until(run, lambda now: now.checkpoint.trouble is not None)
            await asyncio.to_thread(server.start)
            if draws.random() < 0.7:
                await commits(run, draws.choice([1, 3]))

    await play(url(server), work)


@pytest.mark.guarantee("EO-1")
async def test_a_store_whose_server_is_killed_a_few_times_counts_each_row_once(server: RedisServer) -> None:
    await killed(server, 3, seeded())


@pytest.mark.guarantee("EO-1")
@pytest.mark.deep
@pytest.mark.timeout(300)
async def test_a_store_whose_server_is_killed_many_times_counts_each_row_once(server: RedisServer) -> None:
    await killed(server, 40, seeded())


def seeded() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.guarantee("EO-1", "EO-10", "SV-11", "CP-8")
async def test_a_server_away_for_longer_than_its_lease(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    state = url(server, lease_secs=2)
    seen = await play(state, lambda run, numbers: watch_outage(run, numbers, server.kill, server.start))
    judge(seen, "redis", "cannot be reached")
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in texts if "has been waiting for the state store (redis) for" in text]) == 1
    assert len([text for text in texts if "goes on: it has waited" in text]) == 1


@pytest.mark.guarantee("EO-1", "EO-10", "SV-11", "CP-8")
@pytest.mark.deep
async def test_a_server_that_hangs_for_longer_than_a_call_may_take(server: RedisServer) -> None:
    seen = await play(url(server), lambda run, numbers: watch_outage(run, numbers, server.freeze, server.thaw))
    judge(seen, "redis", "did not answer within 5 s")


@pytest.mark.guarantee("EO-1", "EO-10", "SV-11", "CP-8")
async def test_a_file_that_another_process_locks_for_long(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('BEGIN IMMEDIATE'); print(flush=True); input()"
    others: list[subprocess.Popen[bytes]] = []

    def lock() -> None:
        other = subprocess.Popen([sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        others.append(other)
        assert other.stdout is not None
        assert other.stdout.readline()

    def unlock() -> None:
        others[0].communicate(b"\n")

    try:
        seen = await play(f"sqlite:///{file}", lambda run, numbers: watch_outage(run, numbers, lock, unlock))
    finally:
        for each in others:
            each.kill()
            each.wait()
    judge(seen, "sqlite", "database is locked")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def in_own_file_system(folder: Path, command: list[str]) -> list[str]:
    """Return a command that runs another one with a small file system at this folder. It is gone with the command."""
    script = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(folder), *command]


def can_mount(folder: Path) -> bool:
    try:
        return subprocess.run(in_own_file_system(folder, ["true"]), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.guarantee("EO-1", "EO-10", "SV-11", "CP-8")
@pytest.mark.parametrize("kind", TROUBLES)
def test_a_full_disk(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.checkpoint.outages.full_disk", str(tmp_path), kind]
    if kind == "device":
        if not can_mount(tmp_path):
            pytest.skip("this user may mount no file system. The case `limit` fills a disk by a quota.")
        command = in_own_file_system(tmp_path, command)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * PATIENCE_SECS, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert TROUBLES[kind] in ended.stdout
    assert "has been waiting for the state store (sqlite)" in ended.stderr
