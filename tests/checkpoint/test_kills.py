"""kill -9 at every named step of a checkpoint, then another start (CP-10).

No acked tuple is lost, and none is counted twice that was not in flight.
"""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.state.sqlite.provider import SqliteProvider
from tests.checkpoint.killed import faults_of
from tests.checkpoint.killing import STEPS

MESSAGES = 2000
SECS = 60


def run_once(folder: Path, messages: int, *death: str) -> int:
    """Run the topology in a process of its own; return its exit status."""
    command = [sys.executable, "-m", "tests.checkpoint.killing", str(folder), str(messages), f"sqlite:///{folder}/state.db", *death]
    return subprocess.run(command, timeout=SECS, check=False, capture_output=True).returncode


async def faults(folder: Path) -> list[str]:
    """What is wrong with the state that is stored now."""
    provider = SqliteProvider(folder / "state.db")
    await provider.open("killed")
    try:
        return await faults_of(folder, MESSAGES, provider)
    finally:
        await provider.close()


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_next_start_goes_on(step: str, tmp_path: Path) -> None:
    statuses = [run_once(tmp_path, MESSAGES, step, number) for number in ("1", "2")]
    statuses.append(run_once(tmp_path, MESSAGES))

    assert statuses[0] == -signal.SIGKILL
    assert statuses[-1] == 0
    assert asyncio.run(faults(tmp_path)) == []
