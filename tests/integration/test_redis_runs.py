"""A topology whose state is in Redis: killed at every named step of a checkpoint, and with a server that dies under it (CP-7, CP-10)."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.checkpoint.killed import faults_of, stored_counts
from tests.checkpoint.killing import STEPS, lines_of
from tests.integration.redis_states import opened
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer

MESSAGES = 1000
"""64 at most await a checkpoint, and two checkpoints are 100 ms apart: two seconds, however fast it is."""
ENDLESS = 100_000
SECS = 60


def command(folder: Path, server: RedisServer, *death: str, messages: int = MESSAGES) -> list[str]:
    url = f"redis://{HOST}:{server.port}/0?prefix=test"
    return [sys.executable, "-m", "tests.checkpoint.killing", str(folder), str(messages), url, *death]


def run_once(folder: Path, server: RedisServer, *death: str) -> int:
    """Run the topology in a process of its own; return its exit status."""
    return subprocess.run(command(folder, server, *death), timeout=SECS, check=False, capture_output=True).returncode


async def counts(server: RedisServer, component_id: str) -> Counter[int]:
    """What the stored state of a component says."""
    async with opened(server.address(), "killed") as provider:
        return await stored_counts(provider, component_id)


async def judge(folder: Path, server: RedisServer) -> None:
    async with opened(server.address(), "killed") as provider:
        assert await faults_of(folder, MESSAGES, provider) == []


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_a_step_the_next_start_goes_on(server: RedisServer, step: str, tmp_path: Path) -> None:
    first = await asyncio.to_thread(run_once, tmp_path, server, step, "1")
    second = await asyncio.to_thread(run_once, tmp_path, server)

    assert (first, second) == (-signal.SIGKILL, 0)
    await judge(tmp_path, server)


@pytest.mark.guarantee("CP-7", "CP-8")
async def test_a_run_goes_on_when_its_server_dies_and_comes_back(own_server: RedisServer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    running = await asyncio.create_subprocess_exec(*command(folder, own_server), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    kills = 0
    try:
        for acked in (1, 300, 600):
            while len(lines_of(folder / "acked")) < acked and running.returncode is None:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.005)
            if running.returncode is None:
                own_server.kill()
                own_server.start()
                kills += 1
        _, said = await asyncio.wait_for(running.communicate(), SECS)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()

    assert running.returncode == 0, said.decode()
    assert kills
    await judge(folder, own_server)


@pytest.mark.guarantee("CP-8")
async def test_a_second_run_of_the_same_topology_ends_the_first(server: RedisServer, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = command(tmp_path / "first", server, messages=ENDLESS)
    running = await asyncio.create_subprocess_exec(*first, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not lines_of(tmp_path / "first" / "acked"):  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.005)
        running.send_signal(signal.SIGSTOP)
        assert await asyncio.to_thread(run_once, tmp_path / "second", server) == 0
        after = await counts(server, "first")
        running.send_signal(signal.SIGCONT)
        _, said = await asyncio.wait_for(running.communicate(), SECS)
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()

    assert running.returncode != 0
    assert "another process has taken this topology over" in said.decode()
    assert await counts(server, "first") == after, "the older one wrote after it was taken over"
