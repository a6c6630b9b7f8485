"""State in Redis survives kills at every step of a checkpoint, and a restart of the server (CP-7, CP-10)."""

import asyncio
import random
import secrets
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from pathlib import Path

import pytest

from tests.checkpoint.killed import faults_of, stored_counts
from tests.checkpoint.killing import FOLD_STEPS, STEPS, Places, lines_of
from tests.checkpoint.rounds import ComparedWithTools, deaths_at
from tests.integration.redis_states import everything, opened
from tests.kills.lives import Death, told
from tests.kills.rounds import play
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer

MESSAGES = 1000
"""At most 64 messages wait for a checkpoint every 100 ms. So a run takes two seconds on any machine."""
MESSAGES_OF_ALL_STEPS = 3000
"""At most 64 messages wait for a checkpoint. Thirteen processes die at their second one, and the last process still has messages.
"""
FEW_MESSAGES = 200
ENDLESS = 100_000
SECS = 60


def url_of(server: RedisServer) -> str:
    return f"redis://{HOST}:{server.port}/0?prefix=test"


async def started(folder: Path, server: RedisServer, messages: int = MESSAGES) -> Process:
    """Start the topology in a separate process that is not killed. The file `log` in the folder receives its errors."""
    places = Places(folder=str(folder), messages=messages, state=url_of(server))
    command = [sys.executable, "-m", "tests.checkpoint.killing", told(places, Death(), 1)]
    with (folder / "log").open("wb") as log:
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=DEVNULL, stderr=log)


async def counts(server: RedisServer, component_id: str) -> Counter[int]:
    """Return the stored counts of a component."""
    async with opened(server.address(), "killed") as provider:
        return await stored_counts(provider, component_id)


async def judge(folder: Path, server: RedisServer) -> None:
    async with opened(server.address(), "killed") as provider:
        assert await faults_of(folder, MESSAGES, provider) == []


class InRedis(ComparedWithTools):
    """Compares all keys of the server."""

    def __init__(self, folder: Path, server: RedisServer, messages: int) -> None:
        super().__init__(folder, url_of(server), messages)
        self._server = server

    def stored(self) -> object:
        return everything(self._server)


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.deep
async def test_each_start_after_a_kill_at_any_step_loads_the_state_that_the_tools_show(server: RedisServer, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    deaths = deaths_at([step for step in STEPS if step not in FOLD_STEPS], random.Random(seed))

    killed = await play(InRedis(tmp_path, server, MESSAGES_OF_ALL_STEPS), deaths)

    assert killed.violations == []
    assert len(killed.deaths) == len(deaths)


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", FOLD_STEPS)
async def test_a_start_after_a_kill_in_a_fold_loads_the_state_that_the_tools_show(step: str, server: RedisServer, tmp_path: Path) -> None:
    killed = await play(InRedis(tmp_path, server, FEW_MESSAGES), [Death(step=step)])

    assert killed.violations == []
    assert killed.deaths == {step: 1}


@pytest.mark.guarantee("CP-7", "CP-8")
async def test_a_run_continues_after_a_restart_of_its_server(own_server: RedisServer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    running = await started(folder, own_server)
    kills = 0
    try:
        for acked in (1, 300, 600):
            while len(lines_of(folder / "acked")) < acked and running.returncode is None:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.005)
            if running.returncode is None:
                own_server.kill()
                own_server.start()
                kills += 1
        await asyncio.wait_for(running.wait(), SECS)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()

    assert running.returncode == 0, (folder / "log").read_text()
    assert kills
    await judge(folder, own_server)


@pytest.mark.guarantee("CP-8")
async def test_a_second_run_of_the_same_topology_ends_the_first(server: RedisServer, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    running = await started(tmp_path / "first", server, ENDLESS)
    try:
        while not lines_of(tmp_path / "first" / "acked"):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.005)
        running.send_signal(signal.SIGSTOP)
        second = await started(tmp_path / "second", server)
        assert await asyncio.wait_for(second.wait(), SECS) == 0
        after = await counts(server, "first")
        running.send_signal(signal.SIGCONT)
        await asyncio.wait_for(running.wait(), SECS)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()

    assert running.returncode != 0
    assert "another process has taken this topology over" in (tmp_path / "first" / "log").read_text()
    assert await counts(server, "first") == after, "the older process wrote after the takeover"
