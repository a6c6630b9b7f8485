"""A display never ends a run, standard output that is lost does, and no encoding lacks a character."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.api import Bolt, Fields, Spout, SpoutExhausted
from engine.cli import run_in_terminal
from engine.cli.console import live_display
from engine.cli.console.streams import DisplayFile, display_stream
from engine.cli.run_views import PlainLines
from engine.errors import FatalError
from engine.log import JsonFormatter
from engine.runtime.snapshot import Snapshot
from engine.topology import Topology, TopologyBuilder
from tests.project.sources import ROOT

TIMEOUT_SECS = 60
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")

NUMBERS = """\
import itertools
from engine import Bolt, TopologyBuilder, spout

@spout("n")
def numbers():
    yield from ((n,) for n in {source})

class Show(Bolt):
    def execute(self, tup):
        print(f"größe – {{tup['n']}} 😀", flush=True)
        self.collector.ack(tup)

builder = TopologyBuilder("größe–😀")
builder.set_spout("numbers", numbers, max_spout_pending=10)
builder.set_bolt("show", Show, {settings}).shuffle_grouping("numbers")
"""


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "engine", *arguments]


def _environment(**values: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **values}


# Standard error


class _Places:
    """A descriptor that leads to a full disk, and to a file once there is space."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.descriptor = os.open(FULL, os.O_WRONLY)

    def free(self) -> None:
        target = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(target, self.descriptor)
        os.close(target)


@needs_full
@pytest.mark.guarantee("RUN-7")
def test_lines_that_a_display_cannot_show_are_counted_and_told(tmp_path: Path) -> None:
    places = _Places(tmp_path / "errors.txt")
    stream = display_stream(places.descriptor)

    for number in range(3):
        print(f"lost {number}", file=stream, flush=True)
    places.free()
    print("seen", file=stream)

    told, seen = places.file.read_text().splitlines()
    assert told.endswith("WARNING engine.cli: 3 lines could not be written to standard error: No space left on device")
    assert seen == "seen"
    os.close(places.descriptor)


@needs_full
def test_losses_of_a_json_log_are_told_in_json(tmp_path: Path) -> None:
    places = _Places(tmp_path / "errors.txt")
    file = DisplayFile(places.descriptor)
    file.formatter = JsonFormatter()

    file.write(b"lost\n")
    places.free()
    file.write(b'{"message": "seen"}\n')

    lines = [json.loads(line)["message"] for line in places.file.read_text().splitlines()]
    assert lines == ["1 line could not be written to standard error: No space left on device", "seen"]
    os.close(places.descriptor)


def test_a_line_that_is_written_in_part_is_ended_before_the_next_one() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    file = DisplayFile(writer)

    file.write(b"x" * 10_000_000)  # more than the pipe holds
    while len(os.read(reader, 1_000_000)) == 1_000_000:
        pass
    os.set_blocking(reader, False)
    file.write(b"seen\n")

    written = os.read(reader, 1_000_000)
    assert written.startswith(b"\n")
    assert b"1 line could not be written" in written
    assert written.endswith(b"\nseen\n")
    os.close(reader)
    os.close(writer)


class _Numbers(Spout):
    output_fields = Fields("n")

    def __init__(self) -> None:
        self.next = 0

    def next_tuple(self) -> None:
        if self.next == 100:
            raise SpoutExhausted
        self.collector.emit((self.next,), message_id=self.next)
        self.next += 1


def _topology(bolt: Any) -> Topology:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", _Numbers)
    builder.set_bolt("take", bolt).shuffle_grouping("numbers")
    return builder.build()


@needs_full
@pytest.mark.parametrize("place", ["a full disk", "a closed pipe"])
@pytest.mark.guarantee("RUN-7")
def test_a_display_that_cannot_be_written_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    shown = asyncio.Event()

    class Watched(PlainLines):
        lines = 0

        def show(self, before: Snapshot | None, now: Snapshot) -> None:
            super().show(before, now)
            self.lines += 1
            if self.lines == 3:
                shown.set()

    class Take(Bolt):
        async def execute(self, tup: Any) -> None:
            await shown.wait()  # so the display has failed several times before the first input is done
            self.collector.ack(tup)

    if place == "a full disk":
        descriptor = os.open(FULL, os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    with os.fdopen(descriptor, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        outcome = run_in_terminal(_topology(Take), view=Watched(0.001))
        monkeypatch.undo()
    os.close(descriptor)

    assert outcome.exit_status == 0
    assert outcome.snapshot is not None
    assert (outcome.snapshot.state, outcome.snapshot.components["take"].acked) == ("complete", 100)


# Standard output


@pytest.mark.parametrize("settings", ["", "processes=True"], ids=["in the run", "in a child"])
@pytest.mark.guarantee("RUN-7")
def test_a_run_drains_when_the_reader_of_its_prints_has_gone(tmp_path: Path, settings: str) -> None:
    (tmp_path / "flow.py").write_text(NUMBERS.format(source="itertools.count()", settings=settings), encoding="utf-8")
    command = _command("run", "flow.py", "--plain")
    with subprocess.Popen(
        command, cwd=tmp_path, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline() == "größe – 0 😀\n"
        run.stdout.close()
        errors = run.stderr.read()  # ends with the process
        run.wait(TIMEOUT_SECS)
    assert "The reader of standard output has gone, draining" in errors
    assert "drained after" in errors


@needs_full
@pytest.mark.guarantee("RUN-7")
def test_an_endless_run_drains_when_its_events_cannot_be_written(tmp_path: Path) -> None:
    source = NUMBERS.format(source="itertools.count()", settings="").replace("print(", "str(").replace(", flush=True", "")
    (tmp_path / "flow.py").write_text(source, encoding="utf-8")
    with FULL.open("w") as full:
        done = subprocess.run(
            _command("run", "flow.py", "--json"),
            cwd=tmp_path,
            env=_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_SECS,
        )
    assert done.returncode == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith("Standard output cannot be written, draining: ")
    assert rest == ["Error: the output cannot be written: No space left on device", "Fix: Send the output to a place with free space."]


# The event `end`


def _end_event(bolt: type[Bolt], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    outcome = run_in_terminal(_topology(bolt), view="json")
    last: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["event"], last["exit_status"]) == ("end", outcome.exit_status)
    assert last["snapshot"]["state"] == last["state"]
    return last


def test_the_last_event_of_a_failed_run_has_its_final_state(capsys: pytest.CaptureFixture[str]) -> None:
    class Fails(Bolt):
        def execute(self, tup: Any) -> None:
            raise FatalError("no", hint="none")

    last = _end_event(Fails, capsys)
    assert (last["exit_status"], last["state"]) == (1, "failed")


@pytest.mark.parametrize("signals", [1, 2])
def test_the_last_event_of_an_interrupted_run_has_its_final_state(capsys: pytest.CaptureFixture[str], signals: int) -> None:
    class Interrupts(Bolt):
        async def execute(self, tup: Any) -> None:
            for _ in range(signals if tup["n"] == 0 else 0):
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(0)
            if signals == 2:
                await asyncio.Event().wait()
            self.collector.ack(tup)

    last = _end_event(Interrupts, capsys)
    assert (last["exit_status"], last["state"]) == ((0, "drained") if signals == 1 else (130, "stopped"))


# Encodings and sizes


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "ascii:surrogateescape", "utf-8"])
def test_no_output_needs_more_characters_than_its_encoding_has(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "flow.py").write_text(NUMBERS.format(source="range(2)", settings=""), encoding="utf-8")
    environment = _environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    commands = [["check", "flow.py"], ["graph", "flow.py"], ["run", "flow.py", "--json"], ["run", "--help"]]
    for arguments in commands[:: 1 if encoding == "latin-1" else 2]:
        done = subprocess.run(_command(*arguments), cwd=tmp_path, env=environment, capture_output=True, timeout=TIMEOUT_SECS)
        assert (done.returncode, done.stderr) == (0, b""), (arguments, done.stderr.decode(errors="replace"))
        out = done.stdout.decode(encoding.partition(":")[0])
        assert "Traceback" not in out
        if "--json" in arguments:
            events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            assert (events[0]["topology"], events[-1]["event"]) == ("größe–😀", "end")


@pytest.mark.parametrize("size", ["0", "-1", "00", "wide", "99999999999", ""])
@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
def test_a_size_of_the_terminal_that_is_none_hides_nothing(monkeypatch: pytest.MonkeyPatch, variable: str, size: str) -> None:
    shown = io.StringIO()
    monkeypatch.setenv(variable, size)
    monkeypatch.setattr(sys, "stderr", shown)
    console = live_display._console()
    print("printed by a bolt", file=live_display.AboveTable(console, sys.stdout))
    console.print(live_display.empty_table(("component",), text_columns=(0,), gap=1))
    monkeypatch.undo()

    assert "printed by a bolt\n" in shown.getvalue()
    assert "component" in shown.getvalue()
    assert len(shown.getvalue()) < 10_000
