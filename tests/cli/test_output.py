"""If standard output or error cannot be written, there is one clear line, no traceback, and the right exit status."""

import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.topology_files import HEAD
from tests.project.sources import ROOT

TIMEOUT_SECS = 60
FULL = Path("/dev/full")
LOST = "Error: the output cannot be written: No space left on device\nFix: Send the output to a place with free space.\n"

pytestmark = pytest.mark.guarantee("RUN-4")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
buffered = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


def engine_in(folder: Path, command: str, redirected: str, unbuffered: str = "") -> tuple[int, str, str]:
    """Run the command line in a shell, with a spout that ends at once. Return status, output and errors."""
    (folder / "flow.py").write_text(f"{HEAD}topology = _builder().build()\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    line = f"exec '{sys.executable}' -m engine {command} {redirected}"
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECS)
    return done.returncode, done.stdout, done.stderr


@needs_full
@buffered
@pytest.mark.parametrize("command", ["check flow.py", "graph flow.py", "run --show-config", "--help", "run --help", "--version"])
def test_a_failed_write_of_a_command_is_reported(tmp_path: Path, command: str, unbuffered: str) -> None:
    assert engine_in(tmp_path, command, ">/dev/full", unbuffered) == (2, "", LOST)


@needs_full
@buffered
@pytest.mark.parametrize(
    ("command", "redirected", "status"),
    [
        ("run flow.py --json", ">/dev/full", 2),
        ("run flow.py --plain", "2>/dev/full", 0),
        ("run none.py --json", ">/dev/full", 2),
        ("run none.py", "2>/dev/full", 2),
        ("zork", "2>/dev/full", 2),
        ("run flow.py --json", ">/dev/full 2>/dev/full", 2),
    ],
)
def test_the_exit_status_of_a_finished_command_is_kept_on_a_full_disk(
    tmp_path: Path, command: str, redirected: str, status: int, unbuffered: str
) -> None:
    ended, out, err = engine_in(tmp_path, command, redirected, unbuffered)
    assert ended == status, err
    assert out == ""
    assert "Traceback" not in err
    assert ("No space left on device" in err) == ("2>" not in redirected)


@buffered
@pytest.mark.parametrize("command", ["check flow.py", "graph flow.py", "--help", "run flow.py --json", "run flow.py --plain 2>&1"])
def test_a_closed_pipe_is_no_error(tmp_path: Path, command: str, unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        (tmp_path / "flow.py").write_text(f"{HEAD}topology = _builder().build()\n", encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
        line = f"exec '{sys.executable}' -m engine {command}"
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECS
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


PRINTS = """
from contextlib import suppress
from engine import BasicBolt, TopologyBuilder, bolt, spout

@spout("number")
def numbers():
    yield from ((number,) for number in range(2000))

@bolt()
def prints(tup):
    print(tup["number"])

class Prints(BasicBolt):
    def execute(self, tup):
        prints.function(tup)

builder = TopologyBuilder("prints")
builder.set_spout("numbers", numbers)
builder.set_bolt("prints", prints).shuffle_grouping("numbers")
topology = builder.build()
"""


# The long lines are more than Python keeps in its buffer, which has 128 KiB since 3.14: so the prints fail, and not only the last flush.
@needs_full
@buffered
@pytest.mark.guarantee("RUN-7")
@pytest.mark.parametrize(
    ("printing", "declared", "status"),
    [
        ("print(f'{tup[0]:099}')", "prints", 3),
        ("with suppress(OSError): print(tup[0], flush=True)", "prints", 2),
        ("print(f'{tup[0]:099}')", "Prints", 3),
        ("print(f'{tup[0]:099}')", "Prints, processes=True", 2),
    ],
    ids=["raises", "is caught", "of a class", "in a child"],
)
def test_what_a_component_prints_to_a_full_disk_is_never_lost_in_silence(
    tmp_path: Path, printing: str, declared: str, status: int, unbuffered: str
) -> None:
    text = PRINTS.replace('print(tup["number"])', printing).replace('"prints", prints)', f'"prints", {declared})')
    (tmp_path / "prints.py").write_text(text, encoding="utf-8")
    ended, _, err = engine_in(tmp_path, "run prints.py", ">/dev/full", unbuffered)
    assert ended == status, err
    assert err.count(LOST) == 1


PIPE_BYTES = 4096


def _unread_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.guarantee("RUN-7")
@pytest.mark.parametrize("options", ["--plain", "--json"])
def test_a_pipe_that_the_parent_has_made_non_blocking_loses_no_line(tmp_path: Path, options: str) -> None:
    (tmp_path / "flow.py").write_text(PRINTS, encoding="utf-8")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "engine", "run", "flow.py", options]
    with (
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=writer, stderr=subprocess.DEVNULL) as process,
        open(reader, "rb") as out,
    ):
        os.close(writer)
        while process.poll() is None and not _unread_bytes(reader):  # the pipe is full at once
            time.sleep(0.01)
        lines = out.read().splitlines()
        assert process.wait(TIMEOUT_SECS) == 0
    assert [line for line in lines if line.isdigit()] == [b"%d" % number for number in range(2000)]
    assert options == "--plain" or json.loads(lines[-1])["event"] == "end"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["check flow.py", "--help", "run flow.py --json", "run flow.py --plain"])
def test_a_closed_descriptor_is_treated_like_dev_null(tmp_path: Path, command: str, closed: str) -> None:
    status, out, err = engine_in(tmp_path, command, closed)
    assert status == 0, err
    assert (out == "") == (">&-" in closed.replace("2>&-", "") or "--plain" in command)
    assert "Traceback" not in err


CLOSED = {
    "closed": "sys.stdout.close(); sys.stderr.close()",
    "gone": "sys.stdout = sys.stderr = None",
    "no streams": "sys.stdout = sys.stderr = object()",
    "detached": "sys.stdout.detach(); sys.stderr.detach()",
    "descriptors closed": "os.close(1); os.close(2)",
    "broken": "sys.stdout = sys.stderr = Broken()",
}
TAKES_AWAY = """
import os
import sys
from engine import Bolt, TopologyBuilder, spout

class Broken:
    def write(self, text):
        raise ZeroDivisionError

    flush = write

def take_away():
    {how}

@spout("line")
def lines():
    yield ("to be",)

class Sink(Bolt):
    def prepare(self):
        {in_prepare}

    def execute(self, tup):
        {in_execute}
        self.collector.ack(tup)

builder = TopologyBuilder("words")
builder.set_spout("lines", lines)
builder.set_bolt("sink", Sink).shuffle_grouping("lines")
{at_import}
"""


def _taking_away(folder: Path, how: str, where: str, *arguments: str) -> tuple[int, str, str]:
    calls = {place: "take_away()" if place == where else "pass" for place in ("at_import", "in_prepare", "in_execute")}
    (folder / "flow.py").write_text(TAKES_AWAY.format(how=CLOSED[how], **calls), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "engine", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECS)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("how", CLOSED)
def test_a_file_may_remove_the_streams_during_its_import(tmp_path: Path, how: str) -> None:
    assert _taking_away(tmp_path, how, "at_import", "check", "flow.py")[:2] == (
        0,
        "flow.py: topology 'words' is valid: 2 components, 2 tasks\n"
        "component  kind       inputs                 outputs\n"
        "lines      spout × 1  –                      default(line)\n"
        "sink       bolt × 1   lines.default shuffle  –\n",
    )


@pytest.mark.parametrize(
    ("how", "where"),
    # The next file that is opened gets the number of a closed descriptor.
    [(how, where) for how in CLOSED for where in ("at_import", "in_prepare", "in_execute") if where == "at_import" or "descr" not in how],
)
def test_a_component_may_remove_the_streams(tmp_path: Path, how: str, where: str) -> None:
    status, out, err = _taking_away(tmp_path, how, where, "run", "flow.py", "--json")
    assert (status, err) == (0, "")
    assert '"end"' in out.splitlines()[-1]
    status, _, err = _taking_away(tmp_path, how, where, "run", "flow.py", "--plain")
    assert status == 0
    assert "words: complete after" in err.splitlines()[-1]


def test_without_standard_error_only_the_log_is_lost(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        TAKES_AWAY.format(how=CLOSED["closed"], at_import="pass", in_prepare="take_away(); raise ValueError('boom')", in_execute="pass"),
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "engine", "run", "flow.py", "--plain"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECS)
    assert done.returncode == 1
    assert "'sink' (task 2) raised ValueError: boom" in done.stderr
    assert "Error: 'sink' (task 2): died more than 5 times" in done.stderr
