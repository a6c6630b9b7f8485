"""A run does not wait for a child that hangs in a plain call (RUN-3)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, TopologyBuilder
from engine.runtime.processes import process_bolt
from engine.testing import Feeder
from tests.processes import talking_bolts
from tests.processes.test_deaths import pids, runs, until


async def hang(path: Path, end: Any, **texts: Any) -> Any:
    """Start a bolt that hangs, call `end` with the run, and return the last snapshot."""
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(drain_timeout_secs=0.2))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", partial(talking_bolts.Hangs, str(path), **texts), processes=True).shuffle_grouping("numbers")
    feeder.feed((7,))
    async with asyncio.timeout(20), engine.run(builder.build()) as run:  # cleanup() would have 30 s
        await until(lambda: pids(path))
        await end(run)
        return run.snapshot()


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_bolt, "CALL_GRACE_SECS", 0.5)


@pytest.mark.guarantee("RUN-3", "PR-2")
@pytest.mark.parametrize(("how", "prints"), [("stop", False), ("stop", True), ("drain", False)])
def test_a_child_in_a_plain_call_is_killed_at_once(how: str, prints: bool, tmp_path: Path) -> None:
    snapshot = asyncio.run(hang(tmp_path / "pids", lambda run: getattr(run, how)(), prints=prints))
    [pid] = pids(tmp_path / "pids")
    text = f"its process {pid} is killed, because it hangs in a plain call, probably execute() of <Tuple (7,) from numbers"
    assert text in snapshot.errors[-1].text
    assert "cleanup()" not in str(snapshot.errors)
    assert not runs(pid)


@pytest.mark.guarantee("SV-9", "PR-2")
def test_a_restarted_task_does_not_wait_for_a_child_in_a_plain_call(tmp_path: Path) -> None:
    async def restart(run: Any) -> None:
        run.restart_task(run.task_ids("bolt")[0])
        await until(lambda: not runs(pids(tmp_path / "pids")[0]))
        await run.stop()

    snapshot = asyncio.run(hang(tmp_path / "pids", restart))
    assert snapshot.components["bolt"].tasks[0].restarts == 1
