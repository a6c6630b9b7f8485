"""Signals to a real process in any state: the first one drains, the second one stops at once (RUN-3, RUN-4)."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project.sources import ROOT

TIMEOUT_SECS = 60

HEAD = """\
import asyncio, itertools, signal, sys, time
from engine import BasicBolt, Bolt, TopologyBuilder, spout

@spout("number")
def numbers():
    for number in itertools.count():
        yield (number,)

def say(text):
    sys.stdout.write('{"event": "%s"}\\n' % text)  # at once, for a thread says something as well
    sys.stdout.flush()

class Take(Bolt):
    def execute(self, tup):
        self.collector.ack(tup)

"""
TAIL = """
builder = TopologyBuilder("numbers")
builder.set_spout("numbers", numbers, max_spout_pending=10)
builder.set_bolt("last", Last).shuffle_grouping("numbers")
"""
TAKES = "Last = Take\n"
NEVER_ENDS = "class Last(Bolt):\n    async def execute(self, tup):\n        say('took')\n        await asyncio.sleep(1000)\n"
IN_A_THREAD = "class Last(BasicBolt):\n    threads = 1\n    def execute(self, tup):\n        say('took')\n        time.sleep(1000)\n"
IN_TO_THREAD = """\
class Last(Bolt):
    async def execute(self, tup):
        say('took')
        await asyncio.to_thread(time.sleep, 1000)
"""
NEVER_READY = "class Last(Take):\n    async def prepare(self):\n        say('preparing')\n        await asyncio.sleep(1000)\n"
NEVER_CLOSES = """\
class Last(Bolt):
    async def execute(self, tup):
        say('took')
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass
"""
CLOSES_NEVER = """\
class Last(Take):
    async def cleanup(self):
        while True:
            try:
                await asyncio.sleep(1000)
            except:
                pass
"""
HOLDS_THE_LOOP = """\
class Last(Bolt):
    def execute(self, tup):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        while True:
            pass
"""
HOLDS_THE_LOOP_AT_THE_END = """\
class Last(Take):
    def cleanup(self):
        say('closing')
        while True:
            pass
"""


class Running:
    """`python -m engine run --json` on a file, and the events that it writes."""

    def __init__(self, folder: Path, component: str, *options: str) -> None:
        (folder / "flow.py").write_text(HEAD + component + TAIL, encoding="utf-8")
        command = [sys.executable, "-m", "engine", "run", "flow.py", "--json", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def wait_for(self, *events: str) -> dict[str, Any]:
        """Read until each kind of event has come, in any order. Return the last event."""
        assert self.process.stdout is not None
        missing = set(events)
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            missing.discard(found["event"])
            if not missing:
                return found
        raise AssertionError(f"no {', '.join(missing)}: {self.process.communicate()[1]}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def status(self) -> int:
        """Wait for the end."""
        self.process.communicate(timeout=TIMEOUT_SECS)
        return self.process.returncode


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Any]:
    """Yield a function that starts runs. At the end, kill those that still live."""
    started: list[Running] = []

    def start(component: str, *options: str) -> Running:
        started.append(Running(tmp_path, component, *options))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.guarantee("RUN-3", "RUN-4")
def test_the_first_signal_drains(running: Any, number: signal.Signals, loop: str) -> None:
    run = running(TAKES, "-c", f"event_loop={loop}")
    run.wait_for("start")
    run.send(number)

    assert "open trees have 30 s to finish" in run.wait_for("note")["text"]
    end = run.wait_for("end")
    assert run.status() == 0
    assert (end["exit_status"], end["state"]) == (0, "drained")
    numbers = end["snapshot"]["components"]["numbers"]
    assert numbers["pending"] == 0
    assert numbers["emitted"] == numbers["acked"]


@pytest.mark.parametrize("component", [NEVER_ENDS, IN_A_THREAD], ids=["async", "thread"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.guarantee("RUN-3", "RUN-4")
def test_the_second_signal_stops_now(running: Any, component: str, loop: str) -> None:
    run = running(component, "-c", f"event_loop={loop}")
    run.wait_for("start", "took")
    run.send(signal.SIGINT)
    run.wait_for("note")
    run.send(signal.SIGTERM)

    end = run.wait_for("end")
    assert run.status() == 130
    assert end["exit_status"] == 130
    assert "stopped at once" in end["summary"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.guarantee("RUN-3")
def test_the_second_signal_interrupts_a_component_that_blocks_the_loop(running: Any, loop: str) -> None:
    run = running(HOLDS_THE_LOOP, "-c", f"event_loop={loop}")
    assert run.wait_for("end")["exit_status"] == 130
    assert run.status() == 130


@pytest.mark.guarantee("RUN-3")
def test_the_second_signal_ends_a_component_that_blocks_the_loop_while_it_closes(running: Any) -> None:
    run = running(HOLDS_THE_LOOP_AT_THE_END, "-c", "drain_timeout_secs=0.1")
    run.wait_for("start")
    run.send(signal.SIGTERM)
    run.wait_for("closing")
    run.send(signal.SIGTERM)

    assert run.status() == 130


@pytest.mark.guarantee("RUN-3", "RUN-4")
def test_a_drain_does_not_wait_for_a_thread_that_never_returns(running: Any) -> None:
    run = running(IN_A_THREAD, "-c", "drain_timeout_secs=0.1")
    run.wait_for("start", "took")
    run.send(signal.SIGINT)

    assert run.wait_for("end")["exit_status"] == 3
    _, errors = run.process.communicate(timeout=TIMEOUT_SECS)
    assert run.process.returncode == 3
    assert "a call of bolt 'last' in a pool thread did not return. The process ends without it" in errors


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_thread_of_to_thread_that_never_returns_does_not_keep_the_process(running: Any, loop: str) -> None:
    run = running(IN_TO_THREAD, "-c", "drain_timeout_secs=0.1", "-c", f"event_loop={loop}")
    run.wait_for("start", "took")
    run.send(signal.SIGINT)

    assert run.wait_for("end")["exit_status"] == 3
    _, errors = run.process.communicate(timeout=TIMEOUT_SECS)
    assert run.process.returncode == 3
    assert "a call of asyncio.to_thread() or run_in_executor() did not return. The process ends without it" in errors


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("component", [NEVER_CLOSES, CLOSES_NEVER])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_component_that_swallows_its_cancellation_does_not_keep_the_process(running: Any, component: str, loop: str) -> None:
    imports = "from engine import cancellation\nfrom engine.runtime import executor\n"
    patience = f"{imports}cancellation.CLOSE_TIMEOUT_SECS = executor.CLOSE_TIMEOUT_SECS = 2\n"
    run = running(patience + component, "-c", "drain_timeout_secs=0.1", "-c", f"event_loop={loop}")
    run.wait_for("start")
    run.send(signal.SIGTERM)

    end = run.wait_for("end")
    assert end["exit_status"] == (3 if any(end["undone"].values()) else 0)
    _, errors = run.process.communicate(timeout=TIMEOUT_SECS)
    assert run.process.returncode == end["exit_status"]
    assert "swallowed its cancellation and did not end. The process ends without it" in errors
    assert "1 coroutine of bolt 'last' did not end within" in errors


@pytest.mark.guarantee("RUN-3")
def test_a_third_signal_ends_a_process_that_does_not_stop(running: Any) -> None:
    run = running(NEVER_CLOSES)
    run.wait_for("start", "took")
    run.send(signal.SIGINT)
    run.wait_for("note")
    for _ in range(50):
        run.send(signal.SIGINT)
        try:
            run.process.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            continue
    assert run.status() == 130


@pytest.mark.guarantee("RUN-3")
def test_a_signal_before_the_start_ends_the_process(running: Any) -> None:
    run = running(NEVER_READY)
    run.wait_for("preparing")
    run.send(signal.SIGINT)

    assert run.wait_for("note")["text"] == "Stopping before the start"
    assert run.wait_for("end")["snapshot"] is None
    assert run.status() == 0


@pytest.mark.guarantee("RUN-3")
def test_a_drain_has_a_time_limit(running: Any) -> None:
    run = running(NEVER_ENDS, "-c", "drain_timeout_secs=0.2")
    run.wait_for("start", "took")
    run.send(signal.SIGINT)

    end = run.wait_for("end")
    assert run.status() == 3
    assert (end["state"], end["exit_status"]) == ("drained", 3)


def test_a_reader_that_closes_the_pipe_ends_the_run(running: Any) -> None:
    run = running(TAKES, "-c", "stats_interval_secs=0.05")
    run.wait_for("snapshot")
    run.process.stdout.close()

    assert run.process.wait(TIMEOUT_SECS) == 0
    assert run.process.stderr.read() == ""


def test_the_live_table_works_on_a_real_terminal(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(HEAD + TAKES + TAIL, encoding="utf-8")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    command = [sys.executable, "-m", "engine", "run", "flow.py", "--for", "1200ms"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        screen = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)

    assert process.returncode == 0
    assert screen.count("numbers · running") >= 1
    assert "1.2 s have passed, draining" in screen
    assert "numbers · drained" in screen
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")  # the cursor is back
    assert "numbers: drained after" in screen.splitlines()[-1]


def _read(descriptor: int) -> bytes:
    """Return the next output of a terminal. At its end Linux raises an error; then it is empty."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
