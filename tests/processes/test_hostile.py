"""Code of users that is hostile, or just careless."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import ComponentError, Config, TopologyBuilder
from engine.runtime.processes.child_process import ChildProcess
from engine.testing import Capture, Feeder, run_topology
from tests.processes import bolts, hostile
from tests.processes.test_deaths import Numbers, begin_program, pids, runs, until
from tests.processes.test_instances import Play
from tests.processes.test_pickling import SCRIPT
from tests.project.sources import ROOT


@pytest.mark.guarantee("PR-1", "SV-1")
@pytest.mark.parametrize("is_process", [False, True])
def test_a_value_that_a_grouping_refuses_fails_its_input_alone(is_process: bool) -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play", Config(process_timeout_secs=2))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", partial(hostile.Keyed, (3, 5)), processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture, parallelism=2).fields_grouping("bolt", "key")
    for number in range(300):
        feeder.feed((number,))
    feeder.close()
    finished = run_topology(builder.build())
    assert sorted(capture.values) == [(number,) for number in range(300) if number not in (3, 5)]
    assert [failure.reason for _, failure in feeder.failed] == ["error", "error"]
    assert finished.snapshot.components["bolt"].tasks[0].restarts == 0


@pytest.mark.guarantee("PR-2")
def test_a_process_that_a_bolt_has_forked_does_not_hide_its_death(tmp_path: Path) -> None:
    numbers = Numbers(partial(hostile.Forks, str(tmp_path / "pids")))
    began = time.monotonic()
    numbers.play()
    assert time.monotonic() - began < 10
    assert {number for (number,) in numbers.capture.values} == set(range(40))


@pytest.mark.guarantee("PR-1")
def test_a_bolt_may_use_a_pool() -> None:
    numbers = Numbers(hostile.Pooled, 3, process_timeout_secs=5)
    snapshot = numbers.play()
    assert sorted(numbers.capture.values) == [(0,), (2,), (4,)]
    assert snapshot.errors == ()


@pytest.mark.guarantee("PR-1")
def test_a_bolt_may_run_programs() -> None:
    assert Play(hostile.RunsPrograms).values == [(str(number),) for number in range(10)]


@pytest.mark.guarantee("PR-1", "PR-3")
@pytest.mark.parametrize("is_process", [False, True])
def test_acks_do_not_wait_behind_endless_emits(is_process: bool) -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(message_timeout_secs=2, drain_timeout_secs=2))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.Background, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("sink", hostile.Echo).shuffle_grouping("bolt")

    async def main() -> None:
        async with asyncio.timeout(30), engine.run(builder.build()) as run:
            for number in range(20):
                feeder.feed((number,))
                await asyncio.sleep(0.05)
            feeder.close()
            await until(lambda: len(feeder.verdicts) == 20, secs=10)
            await run.stop()

    asyncio.run(main())
    assert len(feeder.acked) == 20


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("is_process", [False, True])
@pytest.mark.parametrize("forgotten_ack", ["fail", "wait"])
def test_an_untracked_tuple_is_not_forgotten(is_process: bool, forgotten_ack: Any) -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play", Config(forgotten_ack=forgotten_ack))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.NeverAcks, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("bolt")
    for number in range(10):
        feeder.feed((number,), tracked=False)
    feeder.close()
    finished = run_topology(builder.build())
    task = finished.snapshot.components["bolt"].tasks[0]
    assert (task.forgotten, task.failed, dict(task.failures)) == (0, 0, {})
    assert len(capture.values) == 10


@pytest.mark.guarantee("PR-1", "ACK-12")
@pytest.mark.parametrize("is_process", [False, True])
@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit(3), BaseException("base"), asyncio.CancelledError("mine")], ids=repr)
def test_a_base_exception_in_a_process(is_process: bool, error: BaseException) -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", partial(hostile.Raises, error), processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("bolt")
    for number in range(10):
        feeder.feed((number,))
    feeder.close()
    if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        run_topology(builder.build())
        assert feeder.failed
    else:
        with pytest.raises(ComponentError, match=type(error).__name__):
            run_topology(builder.build())


@pytest.mark.guarantee("PR-1", "ACK-12")
def test_a_keyboard_interrupt_raised_by_a_bolt_ends_the_run() -> None:
    with pytest.raises((ComponentError, KeyboardInterrupt)):
        Play(partial(hostile.Raises, KeyboardInterrupt()))


@pytest.mark.guarantee("PR-1")
def test_an_exception_that_cannot_be_pickled() -> None:
    play = Play(hostile.RaisesHard)
    assert play.failures[3].error == "HardToPickle: hard"
    with pytest.raises(ComponentError, match="HardToPickle"):
        Play(hostile.RaisesHard, on_error="stop")


@pytest.mark.deep
@pytest.mark.guarantee("PR-1")
def test_floods_of_the_log(caplog: Any) -> None:
    play = Play(hostile.Logs, range(2))
    assert play.values == [(0,), (1,)]
    assert Counter(record.getMessage().split()[0] for record in caplog.records if record.name == "users.hostile") == {
        "record": 20_000, "thread": 4_000,
    }  # fmt: skip


@pytest.mark.guarantee("PR-1", "PR-2")
def test_a_thread_that_never_ends_does_not_delay_the_end() -> None:
    began = time.monotonic()
    assert len(Play(hostile.EndlessThread).values) == 10
    assert time.monotonic() - began < 10


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("is_process", [False, True])
def test_emits_in_prepare_and_cleanup(is_process: bool) -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.EmitsInPrepare, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("bolt")
    feeder.feed((1,))
    feeder.close()
    run_topology(builder.build())
    assert capture.values[:2] == [(-1,), (1,)]


@pytest.mark.guarantee("PR-1", "BU-1")
@pytest.mark.parametrize("second", [bolts.Unreadable, bolts.Unpicklable])
def test_bad_values_in_two_frames_run_no_input_twice(second: type[Any], tmp_path: Path) -> None:
    numbers: list[Any] = list(range(700))
    numbers[10], numbers[30] = bolts.Unreadable(), second()
    play = Play(partial(hostile.CountsCalls, str(tmp_path / "calls")), numbers, burst=20)
    counts = Counter(int(line) for line in (tmp_path / "calls").read_text().split())
    assert {number: count for number, count in counts.items() if count > 1} == {}
    assert play.capture.values == [(number,) for number in numbers if isinstance(number, int)]
    assert len(play.failures) == 2


@pytest.mark.guarantee("PR-1")
@pytest.mark.parametrize("config", [{"acker_executors": 0}, {"acker_executors": 3}, {"burst": 1}, {"executor_receive_buffer_size": 2},
                                    {"max_spout_pending": 1}, {"forgotten_ack": "wait"}], ids=str)  # fmt: skip
def test_settings(config: Any) -> None:
    play = Play(bolts.Echo, range(2000), parallelism=2, **config)
    assert play.values == [(number,) for number in range(2000)]
    assert len(play.feeder.acked) == 2000


@pytest.mark.guarantee("PR-2", "SV-9")
def test_the_end_of_a_cancelled_start_does_not_count_as_the_end_of_the_next_child() -> None:
    async def main() -> None:
        loop, ends = asyncio.get_running_loop(), list[str]()
        connect = loop.create_unix_connection

        async def cancelled(*arguments: Any, **keywords: Any) -> Any:
            await connect(*arguments, **keywords)
            raise asyncio.CancelledError

        loop.create_unix_connection = cancelled  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await ChildProcess.start("cancelled", b"no plan", loop, lambda message: None, ends.append)
        await asyncio.sleep(1)
        assert ends == []

    asyncio.run(main())


@pytest.mark.deep
@pytest.mark.guarantee("PR-2", "RUN-3")
def test_a_thread_that_never_ends_delays_the_end_of_a_run_by_seconds() -> None:
    numbers = Numbers(hostile.EndlessThread)
    began = time.monotonic()
    numbers.play()
    assert time.monotonic() - began < 15


IN_A_DAEMON_THREAD = """
import asyncio, sys, threading, time
from pathlib import Path
import engine
from tests.processes.test_deaths import endless, pids

async def play():
    async with engine.run(endless(Path(sys.argv[1]), 2)) as run:
        await run.completed()

if __name__ == "__main__":
    threading.Thread(target=lambda: asyncio.run(play()), daemon=True).start()
    while len(pids(Path(sys.argv[1]))) < 2:
        time.sleep(0.01)
"""


@pytest.mark.guarantee("PR-2", "RUN-5")
def test_a_program_ends_while_a_run_goes_on_in_a_daemon_thread(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IN_A_DAEMON_THREAD)
    path = tmp_path / "pids"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    program = subprocess.Popen([sys.executable, str(tmp_path / "program.py"), str(path)], env=environment)
    try:
        program.wait(20)
    finally:
        program.kill()
        program.wait()
    asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))


@pytest.mark.guarantee("PR-1", "RUN-4")
def test_engine_run_reports_no_thread_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "engine", "run", "flow.py", "--plain")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "did not return" not in done.stdout + done.stderr


@pytest.mark.guarantee("PR-2")
def test_a_stopped_child_of_a_killed_parent_ends_when_it_continues(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    parent = begin_program(tmp_path)
    try:
        asyncio.run(until(lambda: len(pids(path)) == 2))
        os.kill(pids(path)[0], signal.SIGSTOP)
    finally:
        parent.kill()
        parent.wait()
    os.kill(pids(path)[0], signal.SIGCONT)
    asyncio.run(until(lambda: not any(map(runs, pids(path))), secs=2))


@pytest.mark.guarantee("PR-1", "ACK-15")
def test_a_dropped_input_is_freed_in_the_run() -> None:
    feeder = Feeder("number")
    builder = TopologyBuilder("play", Config(forgotten_ack="wait", enable_message_timeouts=False))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.NeverAcks, processes=True).shuffle_grouping("numbers")
    feeder.feed_all([(number,) for number in range(10)])

    async def main() -> None:
        async with asyncio.timeout(30), engine.run(builder.build()) as run:
            await until(lambda: run.snapshot().components["bolt"].emitted == 10)
            await until(lambda: len(run.owed_acks()) == 0, secs=3)
            await run.stop()

    asyncio.run(main())


@pytest.mark.guarantee("PR-1", "BU-1")
@pytest.mark.parametrize("is_process", [False, True])
def test_direct_emits_of_a_burst_that_raised_are_taken_back(is_process: bool) -> None:
    feeder, direct, seen = Feeder("number"), Capture(), Capture()
    builder = TopologyBuilder("play")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.SendsDirectly, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("direct", direct).direct_grouping("bolt", "direct")
    builder.set_bolt("seen", seen).shuffle_grouping("bolt")
    feeder.feed_all([(number,) for number in range(20)])
    feeder.close()
    finished = run_topology(builder.build())
    assert "too many" in finished.errors[0].text
    assert direct.values == seen.values == [(number,) for number in range(20)]
    assert len(feeder.acked) == 20


@pytest.mark.guarantee("PR-3", "BU-1", "ACK-8")
@pytest.mark.parametrize("is_process", [False, True])
async def test_inputs_that_wait_to_run_again_do_not_time_out(is_process: bool) -> None:
    feeder, capture = Feeder("number"), Capture()
    builder = TopologyBuilder("play", Config(message_timeout_secs=1))
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", hostile.SettlesAndWaits, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", capture).shuffle_grouping("bolt")
    feeder.feed_all([(number,) for number in range(8)])
    feeder.close()
    async with asyncio.timeout(30), engine.run(builder.build()) as run:
        await run.completed()
    assert {failure.reason for _, failure in feeder.failed} == {"failed"}
    assert len(feeder.acked) + len(feeder.failed) == 8


@pytest.mark.guarantee("PR-2")
def test_a_pool_that_nobody_shuts_down_ends_with_its_child(caplog: pytest.LogCaptureFixture) -> None:
    """As it does at the end of any program. Else the child would be killed after a while, and its workers would live on."""
    play = Play(hostile.KeepsAPool, range(3))
    [pid] = {pid for (pid,) in play.values}
    assert not runs(pid)
    assert "was killed" not in caplog.text
    assert play.finished.errors == ()
