"""No child outlives its run, and no run waits for a child whose event loop has ended (PR-2)."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import engine
from engine import Config, TopologyBuilder
from engine.runtime.processes import child_process
from engine.runtime.processes.fork_server import FORK_SERVER
from engine.testing import Feeder
from tests.processes import bolts, hostile
from tests.processes.test_deaths import Numbers, begin_program, endless, pids, runs, until
from tests.project.sources import ROOT

PROGRAM_THAT_FORKS = """
import asyncio, os, sys
from functools import partial
import engine
from engine import TopologyBuilder
from engine.testing import Feeder
from tests.processes import bolts, hostile

async def main(path, forked, how, kernel):
    if kernel == "old kernel" and hasattr(os, "pidfd_open"):
        del os.pidfd_open
    builder = TopologyBuilder("forking")
    builder.set_spout("numbers", Feeder("number"))
    builder.set_bolt("bolt", partial(bolts.Pid, path), parallelism=2, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("forks", partial(hostile.HasForked, forked, how)).shuffle_grouping("bolt")
    async with engine.run(builder.build()) as run:
        await run.completed()

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize(("how", "kernel"), [("pool", "new kernel"), ("pool", "old kernel"), ("C code", "new kernel")])
def test_children_end_with_a_killed_parent_that_has_forked(how: str, kernel: str, tmp_path: Path) -> None:
    path, forked = tmp_path / "pids", tmp_path / "forked"
    parent = begin_program(tmp_path, PROGRAM_THAT_FORKS, str(forked), how, kernel)
    try:
        asyncio.run(until(lambda: len(pids(path)) == 2 and pids(forked)))
        parent.kill()
        parent.wait()
        asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))
        assert runs(pids(forked)[0])
    finally:
        parent.kill()
        parent.wait()
        for pid in pids(forked):
            os.kill(pid, signal.SIGKILL)


ENDS_WITH_A_RUN = """
import asyncio, sys
from functools import partial
import engine
from engine import Inlet, TopologyBuilder
from tests.processes.bolts import Pid

builder = TopologyBuilder("open")
builder.set_spout("numbers", lambda: Inlet("number"))
builder.set_bolt("bolt", partial(Pid, sys.argv[1]), processes=True, parallelism=2).shuffle_grouping("numbers")
run = engine.run(builder.build())
loop = asyncio.new_event_loop()
loop.run_until_complete(run.__aenter__())
loop.run_until_complete(run.inlet("numbers").send((1,)))
"""


@pytest.mark.guarantee("PR-2")
def test_a_program_that_ends_with_an_open_run_kills_its_children(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS_WITH_A_RUN, str(tmp_path / "pids")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "Exception ignored" not in done.stderr, done.stderr
    assert len(pids(tmp_path / "pids")) == 2
    asyncio.run(until(lambda: not any(map(runs, pids(tmp_path / "pids"))), secs=2))


def fork_and_end() -> None:
    forked = os.fork()
    if forked == 0:
        child_process._kill_all()  # called by atexit
        os._exit(0)
    os.waitpid(forked, 0)


@pytest.mark.guarantee("PR-2", "RUN-5")
def test_the_end_of_a_forked_process_kills_no_child(tmp_path: Path) -> None:
    async def main() -> None:
        feeder = Feeder("number")
        builder = TopologyBuilder("play")
        builder.set_spout("numbers", feeder)
        builder.set_bolt("bolt", partial(bolts.Pid, str(tmp_path / "pids")), processes=True).shuffle_grouping("numbers")
        async with asyncio.timeout(30), engine.run(builder.build()) as run:
            fork_and_end()
            feeder.feed((1,))
            await until(lambda: len(feeder.acked) == 1)
            assert run.snapshot().components["bolt"].tasks[0].restarts == 0
            await run.stop()

    asyncio.run(main())


@pytest.mark.guarantee("PR-2", "ACK-15")
@pytest.mark.parametrize("how", ["callback", "stop", "cancel", "task"])
def test_the_end_of_the_loop_of_a_child_is_a_death(how: str, tmp_path: Path) -> None:
    numbers = Numbers(partial(hostile.EndsItsLoop, str(tmp_path / "pids"), how))
    began = time.monotonic()
    snapshot = numbers.play()
    assert time.monotonic() - began < 10
    assert {number for (number,) in numbers.capture.values} == set(range(40))
    assert snapshot.components["bolt"].tasks[0].restarts in (1, 2)  # a cancelled task also replaces its instance, if there is time
    assert "ended with status 1" in snapshot.errors[-1].text
    assert len(pids(tmp_path / "pids")) == 2
    assert not any(map(runs, pids(tmp_path / "pids")))


@pytest.mark.guarantee("PR-2", "RUN-3")
def test_a_run_stops_after_a_signal_has_ended_the_loop_of_an_idle_child(tmp_path: Path) -> None:
    path, feeder = tmp_path / "pids", Feeder("number")
    builder = TopologyBuilder("play", Config(drain_timeout_secs=2))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", partial(hostile.EndsItsLoop, str(path), "signal"), processes=True).shuffle_grouping("numbers")

    async def main() -> None:
        async with asyncio.timeout(20), engine.run(builder.build()) as run:
            await asyncio.sleep(0.1)  # a child that is not idle may be in the code of its task, where a SystemExit ends the run
            os.kill(pids(path)[0], signal.SIGTERM)
            await until(lambda: len(pids(path)) == 2)
            feeder.feed((1,))
            await until(lambda: len(feeder.acked) == 1)
            assert run.snapshot().components["bolt"].tasks[0].restarts == 1
            await asyncio.sleep(0.1)
            os.kill(pids(path)[1], signal.SIGTERM)
            await run.stop()

    asyncio.run(main())
    assert not any(map(runs, pids(path)))


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signals_to_all_processes_of_a_service_end_no_child(name: str, tmp_path: Path) -> None:
    path, number = tmp_path / "pids", signal.Signals[name]

    async def main() -> None:
        async with asyncio.timeout(60), engine.run(endless(path, 2)) as run:
            await until(lambda: run.snapshot().components["bolt"].acked > 20)
            asked, acked = FORK_SERVER.pid, run.snapshot().components["bolt"].acked
            assert asked is not None
            for pid in (asked, *pids(path)):
                os.kill(pid, number)
            await until(lambda: run.snapshot().components["bolt"].acked > acked + 20)
            assert [task.restarts for task in run.snapshot().components["bolt"].tasks] == [0, 0]
            FORK_SERVER.fork("another child")[0].close()
            assert FORK_SERVER.pid == asked

    asyncio.run(main())
