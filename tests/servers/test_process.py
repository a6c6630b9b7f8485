"""Servers start, explain failed starts, and end with their users."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECS
from tests.servers.cache import made_once
from tests.servers.maven import why_no_jars
from tests.servers.process import HOST, ServerProcess, accepts, free_port
from tests.servers.required import required
from tests.servers.server import Server
from tests.servers.shared import shared_port

LISTENER = "import socket, sys; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); taken = list(iter(server.accept, None))"
PROGRAM = """
import sys
from pathlib import Path
from tests.servers.test_process import Parent

server = Parent(Path(sys.argv[1]))
server.start()
print(server.port, flush=True)
for line in sys.stdin:
    server.freeze()
    print("frozen", flush=True)
"""


class Listener(Server):
    """The smallest server: it accepts connections and holds them."""

    program = LISTENER

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.process = ServerProcess("listener", folder)

    def start(self) -> None:
        self.process.start([sys.executable, "-I", "-S", "-c", self.program, str(self.port)], lambda: accepts(self.port))


class Parent(Listener):
    """A server with a child process in another session, which holds the connections."""

    program = "import os, signal\nif os.fork(): signal.pause()\nos.setsid()\n" + LISTENER


def was_closed(connection: socket.socket) -> bool:
    """Wait for the end of the server on the other side."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    server = Listener(tmp_path)
    server.start()
    yield server
    server.process.kill()


def connected(port: int) -> "closing[socket.socket]":
    return closing(socket.create_connection((HOST, port), timeout=PATIENCE_SECS))


def test_a_server_restarts_on_its_port(listener: Listener) -> None:
    listener.process.kill()
    assert not accepts(listener.port)
    listener.start()
    assert accepts(listener.port)


def test_stop_ends_a_frozen_server(listener: Listener) -> None:
    listener.freeze()
    listener.stop()
    assert not accepts(listener.port)


def test_processes_that_a_server_started_are_killed_with_it(tmp_path: Path) -> None:
    with Parent(tmp_path) as server, connected(server.port) as connection:
        server.kill()
        assert not accepts(server.port)
        assert was_closed(connection)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_server_ends_with_its_program(tmp_path: Path, *, frozen: bool) -> None:
    """kill -9 of the program ends the server and its child processes too."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        port = int(program.stdout.readline())
        with connected(port) as connection:
            if frozen:
                program.stdin.write(b"freeze\n")
                program.stdin.flush()
                assert program.stdout.readline() == b"frozen\n"
            program.kill()
            assert was_closed(connection)


def test_the_error_of_a_failed_start_says_why(tmp_path: Path) -> None:
    server = ServerProcess("broken", tmp_path)
    with pytest.raises(RuntimeError, match=r"broken ended with status 3 before it was ready: .*server\.log:\nno such option"):
        server.start([sys.executable, "-c", "print('no such option', flush=True); raise SystemExit(3)"], lambda: False)


def test_a_shared_server_ends_with_its_last_user(tmp_path: Path) -> None:
    with ExitStack() as first, ExitStack() as second:
        port = first.enter_context(shared_port(tmp_path / "shared", Listener))
        assert second.enter_context(shared_port(tmp_path / "shared", Listener)) == port
        with connected(port) as connection:
            first.close()
            assert accepts(port)
            second.close()
            assert was_closed(connection)
    with shared_port(tmp_path / "shared", Listener) as another:
        assert accepts(another)


def test_a_cached_file_is_made_once(tmp_path: Path) -> None:
    made, together = [], threading.Barrier(4, timeout=PATIENCE_SECS)

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("whole")

    def use(_: int) -> str:
        together.wait()
        return made_once(tmp_path / "kept", make).read_text()

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(use, range(4))) == ["whole"] * 4
    assert len(made) == 1


def test_a_failed_download_leaves_no_file_behind(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        made_once(tmp_path / "kept", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.lock"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """Make a program that prints to standard error and fails. It is alone on the path, and the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.servers.maven.RETRY_SECS", (0, 0))

    def make(name: str, said: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({said!r})\n")
        path.chmod(0o755)

    return make


def test_a_missing_program_is_reported(fake: Callable[[str, str], None]) -> None:
    assert why_no_jars("a", ("a:b:1",)) == "java is not installed: scripts/install-system-packages java"
    fake("java", 'openjdk version "11.0.25"')
    assert why_no_jars("b", ("a:b:1",)) == "java 11 is too old, 17 is needed"
    fake("java", 'openjdk version "21"')
    assert "scripts/install-system-packages maven" in str(why_no_jars("c", ("a:b:1",)))


def test_jars_that_cannot_be_downloaded_are_reported(fake: Callable[[str, str], None]) -> None:
    fake("java", 'openjdk version "17.0.15"')
    fake("mvn", "[ERROR] no network")
    assert why_no_jars("d", ("a:b:1",)) == "Maven could not fetch a:b:1 in 2 tries: [ERROR] no network"


def test_a_missing_requirement_skips_locally_and_fails_on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    required(None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no server"):
        required("no server")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI needs it: no server"):
        required("no server")
