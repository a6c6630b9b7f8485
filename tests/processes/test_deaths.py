"""The death of a child is a death of its task, and of nothing else (PR-2)."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import ComponentError, Config, Run, TopologyBuilder, spout
from engine.runtime.processes import child_process
from engine.runtime.processes.child_process import ChildProcess
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.testing import Capture, Feeder, run_topology
from tests.processes import bolts, late_bolts
from tests.project.sources import ROOT


def runs(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while it is read
        return False


async def until(holds: Callable[[], object], secs: float = 20) -> None:
    """Wait in real time until a condition holds."""
    end = time.monotonic() + secs
    while not holds():
        assert time.monotonic() < end, "the condition does not hold in time"
        await asyncio.sleep(0.01)


class Numbers:
    """A run of numbers through bolts in processes, on a real loop. Failed numbers are sent again."""

    def __init__(self, bolt: Any, count: int = 40, *, parallelism: int = 1, on_error: Any = None, **config: Any) -> None:
        self.capture = Capture()

        @spout("number", max_retries=20)
        def numbers() -> Any:
            for number in range(count):
                yield (number,)

        builder = TopologyBuilder("numbers", Config(**config))
        builder.set_spout("numbers", numbers)
        builder.set_bolt("bolt", bolt, parallelism=parallelism, processes=True, on_error=on_error).shuffle_grouping("numbers")
        builder.set_bolt("seen", self.capture).shuffle_grouping("bolt")
        self.topology = builder.build()

    def play(self) -> Any:
        """Run to completion, and return the last snapshot."""

        async def main() -> Any:
            async with asyncio.timeout(60), engine.run(self.topology) as run:
                await run.completed()
                return run.snapshot()

        return asyncio.run(main())


@pytest.mark.guarantee("PR-2", "ACK-15")
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("kill", "was killed by SIGKILL"),
        ("exit", "ended with status 3"),
        ("close", "its process"),
        ("stop", "has hung for 1 s (process_timeout_secs) and was killed"),
        ("hang", "has hung for 1 s (process_timeout_secs) and was killed"),
    ],
)
def test_a_child_that_ends_or_hangs_is_replaced(how: str, text: str, tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, how), process_timeout_secs=1)
    snapshot = numbers.play()
    assert {number for number, _ in numbers.capture.values} == set(range(40))
    assert len({pid for _, pid in numbers.capture.values}) == 2 or numbers.capture.values[0][1] != int((tmp_path / "pid").read_text())
    [report] = snapshot.errors
    assert text in report.text
    assert report.next_step == "the task is replaced by a fresh instance"
    task = snapshot.components["bolt"].tasks[0]
    assert task.restarts == 1
    assert task.failures.get("task_died", 0) > 0
    assert not runs(int((tmp_path / "pid").read_text()))


@pytest.mark.guarantee("PR-2")
@pytest.mark.parametrize("how", ["interrupt", "terminate"])
def test_signals_of_a_terminal_do_not_end_a_child(how: str, tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, how))
    snapshot = numbers.play()
    assert snapshot.errors == ()
    assert len({pid for _, pid in numbers.capture.values}) == 1


@pytest.mark.guarantee("PR-1", "SV-1")
@pytest.mark.parametrize(("on_error", "processes"), [("fail", 1), ("restart", 1)])
def test_an_error_of_the_bolt_ends_no_process(on_error: str, processes: int, tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, "raise"), on_error=on_error)
    snapshot = numbers.play()
    assert len({pid for _, pid in numbers.capture.values}) == processes
    [report] = snapshot.errors
    assert report.text.startswith("JSONDecodeError")
    assert snapshot.components["bolt"].tasks[0].restarts == (on_error == "restart")


@pytest.mark.guarantee("PR-1", "SV-4")
def test_stop_ends_the_run_with_the_error(tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, "raise"), on_error="stop")
    with pytest.raises(ComponentError) as raised:
        numbers.play()
    assert "'bolt' (task 2): raised JSONDecodeError" in raised.value.message
    assert "on_error is 'stop'" in raised.value.message
    assert raised.value.hint is not None
    assert isinstance(raised.value.error, ValueError)


@pytest.mark.guarantee("PR-1", "ACK-12")
def test_a_sys_exit_ends_the_run(tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, "end"))
    with pytest.raises(ComponentError, match="SystemExit"):
        numbers.play()


@pytest.mark.guarantee("PR-1", "SV-3")
def test_an_instance_that_cannot_be_prepared_ends_the_run() -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(max_task_restarts=1))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolts.FailsAtPrepare, processes=True).shuffle_grouping("numbers")
    with pytest.raises(ComponentError) as raised:
        run_topology(builder.build())
    assert "'bolt' (task 2): died more than 1 times in 60 s before it was ready" in raised.value.message
    assert "ConnectionError: the database is away" in raised.value.message


@pytest.mark.guarantee("PR-2", "SV-3")
def test_a_child_that_always_dies_at_its_start_ends_the_run() -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(max_task_restarts=2))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", bolts.DiesAtPrepare, processes=True).shuffle_grouping("numbers")
    with pytest.raises(ComponentError, match="ended with status 7"):
        run_topology(builder.build())


@pytest.mark.guarantee("PR-2")
def test_other_tasks_do_not_notice(tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.Crashes, str(tmp_path / "pid"), 7, "kill"), 400, parallelism=3)
    snapshot = numbers.play()
    assert {number for number, _ in numbers.capture.values} == set(range(400))
    assert sorted(task.restarts for task in snapshot.components["bolt"].tasks) == [0, 0, 1]
    assert sum(bool(task.failures) for task in snapshot.components["bolt"].tasks) == 1


@pytest.mark.guarantee("PR-2", "SV-9")
def test_an_operator_can_replace_a_child(tmp_path: Path) -> None:
    async def main() -> list[int]:
        async with asyncio.timeout(60), engine.run(endless(tmp_path / "pids")) as run:
            await until(lambda: run.snapshot().components["bolt"].acked > 20)
            run.restart_task(2)
            await until(lambda: len(pids(tmp_path / "pids")) == 2)
            run.kill_task(2)
            await until(lambda: len(pids(tmp_path / "pids")) == 3)
            acked = run.snapshot().components["bolt"].acked
            await until(lambda: run.snapshot().components["bolt"].acked > acked + 20)
            assert run.snapshot().components["bolt"].tasks[0].restarts == 2
        return pids(tmp_path / "pids")

    for pid in asyncio.run(main()):
        assert not runs(pid)


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def endless(path: Path, parallelism: int = 1) -> Any:
    """Return a topology that never ends, and writes the processes of its bolt into a file."""

    @spout("number")
    def numbers() -> Any:
        number = 0
        while True:
            number += 1
            yield (number,)

    builder = TopologyBuilder("endless", Config(max_spout_pending=500))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("bolt", partial(bolts.Pid, str(path)), parallelism=parallelism, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("seen", Capture()).shuffle_grouping("bolt")
    return builder.build()


PROGRAM = """
import asyncio, sys
from pathlib import Path
import engine
from tests.processes.test_deaths import endless

async def main():
    async with engine.run(endless(Path(sys.argv[1]), 2)) as run:
        await run.completed()

if __name__ == "__main__":
    asyncio.run(main())
"""


def begin_program(folder: Path, program: str = PROGRAM, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a program whose children write their process ids into the file `pids`."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, str(folder / "program.py"), str(folder / "pids"), *arguments]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.mark.guarantee("PR-2")
def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    parent = begin_program(tmp_path)
    try:
        asyncio.run(until(lambda: len(pids(path)) == 2))
    finally:
        parent.kill()
        parent.wait()
    asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))


@pytest.mark.guarantee("PR-2", "RUN-5")
@pytest.mark.parametrize("how", ["stopped", "left", "abandoned"])
def test_no_child_outlives_its_run(how: str, tmp_path: Path) -> None:
    path = tmp_path / "pids"

    async def main() -> Run:
        run = engine.run(endless(path, 2))
        await run.__aenter__()
        await until(lambda: run.snapshot().components["bolt"].acked > 20)
        if how == "stopped":
            await run.stop()
        elif how == "left":
            await run.__aexit__(None, None, None)
        return run

    asyncio.run(main())
    assert len(pids(path)) == 2
    asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))


@pytest.mark.guarantee("PR-2")
def test_a_child_that_stops_during_its_start_is_replaced(tmp_path: Path) -> None:
    numbers = Numbers(partial(bolts.StopsAtPrepare, str(tmp_path / "pid")), process_timeout_secs=1)
    snapshot = numbers.play()
    assert {number for (number,) in numbers.capture.values} == set(range(40))
    [report] = snapshot.errors
    assert "has hung for 1 s (process_timeout_secs) and was killed, before its instance was ready" in report.text


def test_a_start_that_is_cancelled_before_it_begins_leaves_no_socket() -> None:
    async def main() -> None:
        may_go_on = threading.Event()
        child_process._STARTS.pool.submit(may_go_on.wait, 20)
        loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(ChildProcess.start("never", b"", loop, lambda message: None, lambda reason: None))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        may_go_on.set()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(each.message) for each in caught if issubclass(each.category, ResourceWarning)] == []


@pytest.mark.guarantee("PR-1", "ACK-12")
def test_restarts_before_the_first_instance_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ready = ProcessBoltExecutor._on_ready

    def ready_late(executor: ProcessBoltExecutor) -> None:
        executor.run_context.loop.call_later(0.1, ready, executor)  # so the first frame with the restarts comes before

    monkeypatch.setattr(ProcessBoltExecutor, "_on_ready", ready_late)
    numbers = Numbers(partial(late_bolts.BeginsLate, str(tmp_path / "begins")))
    snapshot = numbers.play()
    assert snapshot.components["bolt"].tasks[0].restarts == 2
