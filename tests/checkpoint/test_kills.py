"""kill -9 at every named step of a checkpoint, then another start (CP-10).

No acked tuple is lost, and none is counted twice that was not in flight.
"""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from engine.state import LayeredState, StatePlace, codec_named
from engine.state.sqlite.provider import SqliteProvider
from tests.checkpoint.killing import STEPS, lines_of

MESSAGES = 2000
SECS = 60


def run_once(folder: Path, messages: int, *death: str) -> int:
    """Run the topology in a process of its own; return its exit status."""
    command = [sys.executable, "-m", "tests.checkpoint.killing", str(folder), str(messages), f"sqlite:///{folder}/state.db", *death]
    return subprocess.run(command, timeout=SECS, check=False, capture_output=True).returncode


async def counts(folder: Path, component_id: str) -> Counter[int]:
    """What the stored state of a component says, read by one task that owns all of it."""
    provider = SqliteProvider(folder / "state.db")
    await provider.open("killed")
    try:
        place = StatePlace(component_id, 0, 1, True, 128)
        state: LayeredState[int, int] = LayeredState(await provider.store(component_id, 0, place.slots), codec_named("msgpack"), place)
        return Counter(dict(state.items()))
    finally:
        await provider.close()


def emitted_once(folder: Path) -> set[int]:
    """The numbers that no process had in flight when it was killed."""
    times = Counter(int(line) for line in (folder / "emitted").read_text().split("\n")[:-1])
    return {number for number, count in times.items() if count == 1}


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_next_start_goes_on(step: str, tmp_path: Path) -> None:
    statuses = [run_once(tmp_path, MESSAGES, step, number) for number in ("1", "2")]
    statuses.append(run_once(tmp_path, MESSAGES))

    assert statuses[0] == -signal.SIGKILL
    assert statuses[-1] == 0
    assert lines_of(tmp_path / "acked") == set(range(MESSAGES))
    once = emitted_once(tmp_path)
    for component_id in ("first", "second"):
        counted = asyncio.run(counts(tmp_path, component_id))
        assert set(counted) == set(range(MESSAGES)), "an acked number is lost"
        assert {counted[number] for number in once} <= {1}, "a number that was not in flight is counted twice"
