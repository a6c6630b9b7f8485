"""`top` and `ctl`: a run elsewhere is shown and steered, and a wrong URL is a clear error."""

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import click
import pytest

from engine.cli.ctl_command import _end
from engine.cli.remote_run import AskedSnapshot, RemoteError, RemoteRun, RunGone, remote_run
from engine.cli.run_views import Outcome
from engine.cli.top_command import watch
from engine.runtime.snapshot import Snapshot
from tests.cli.commands import run_command
from tests.cli.remote import TOKEN, served_run
from tests.web.runs import ending_topology, topology


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGINE_HTTP_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("8080", ("127.0.0.1", 8080, "/")),
        (":8080", ("127.0.0.1", 8080, "/")),
        ("localhost:1", ("localhost", 1, "/")),
        ("http://[::1]:8080", ("::1", 8080, "/")),
        ("http://example.com/engine", ("example.com", 80, "/engine/")),
        ("https://example.com/a b/".replace(" ", "%20"), ("example.com", 443, "/a%20b/")),
    ],
)
def test_a_url_an_address_or_a_port_names_a_run(url: str, target: tuple[str, int, str]) -> None:
    remote = remote_run(url)
    assert (remote.host, remote.port, remote.path) == target


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://a:port/", "http://a b/", "http://[::1", "x" * 3 + "://y", "http://u:p@h/", "http://a\n/"]
)
def test_a_wrong_url_is_a_wrong_command_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.UsageError, match="is not the URL of a run"):
        remote_run(url)
    assert "is not the URL of a run" in run_command(capsys, "top", url, status=2)[1]


def test_the_token_may_be_in_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_HTTP_TOKEN", "other")
    assert remote_run("http://127.0.0.1:8080/").token == "other"
    assert remote_run("http://127.0.0.1:8080/#token=a%2Fb").token == "a/b"
    assert remote_run("http://127.0.0.1:8080/#token=a", "b").token == "b"
    assert "token" not in remote_run("http://127.0.0.1:8080/#token=secret").url


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ctl", "drain"], "The URL of the run is missing. Write `ctl 8080 drain`."),
        (["ctl", "8080"], "The command is missing. The commands are state, activate,"),
        (["ctl", "8080", "drian"], "Did you mean 'drain'?"),
        (["ctl", "8080", "drain", "--token", "a b"], "the token is empty, or has a space"),
        (["ctl", "8080", "drain", "--token", "é"], "the token is empty, or has a space"),
        (["ctl", "8080", "restart", "x"], "TASK is 'x', which is no number. Write the number of a task, such as `restart 4`."),
        (["top", "8080", "--json", "--plain"], "exclude each other"),
        (["top", "8080", "--interval", "5"], "is a number without a unit"),
    ],
)
def test_a_wrong_command_line_is_status_2(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert why in run_command(capsys, *arguments, status=2)[1]


def test_a_run_is_shown_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(topology()) as served:
        timer = threading.Timer(0.2, lambda: served.ask(served.run.drain))
        timer.start()
        out, err = run_command(capsys, "top", served.url, "--interval", "10s")
        timer.join()
    assert out == ""
    assert "Ctrl-C ends these lines, and not the run." in err
    assert "squares: drained after" in err


def test_a_run_is_written_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(topology()) as served:
        timer = threading.Timer(0.2, lambda: served.ask(served.run.stop))
        timer.start()
        events = [json.loads(line) for line in run_command(capsys, "top", served.url, "--json", "--interval", "50ms")[0].splitlines()]
        timer.join()
    assert [event["event"] for event in events[:2]] == ["start", "snapshot"]
    assert (events[-1]["event"], events[-1]["state"], events[-1]["exit_status"]) == ("end", "stopped", 0)


def test_a_run_that_has_gone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(ending_topology()) as served:
        pass
    for command in (("top", served.url), ("ctl", served.url, "state"), ("ctl", served.url, "drain", "--token", "x")):
        err = run_command(capsys, *command, status=1)[1]
        assert f"no run answers at {served.url}" in err
        assert "--http" in err


class _Interrupted:
    """A view in which the user presses Ctrl-C at the second snapshot."""

    interval_secs = 1.0

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.outcome: Outcome | None = None

    async def begin(self, name: str) -> None:
        """Do nothing."""

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        if before is not None:
            raise self.error

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome


def test_ctrl_c_ends_the_table_and_not_the_run() -> None:
    with served_run(topology()) as served:
        view: Any = _Interrupted(KeyboardInterrupt())
        assert watch(remote_run(served.url), view, 0.01) == 0
        assert view.outcome.snapshot.state == "running"
        assert served.run.state == "running"


def test_a_connection_that_is_lost_is_an_error() -> None:
    with served_run(topology()) as served:
        remote = remote_run(served.url)
        view: Any = _Interrupted(RunGone("gone"))
        with pytest.raises(RunGone, match=r"connection to .* is lost"):
            watch(remote, view, 0.01)
        assert view.outcome.exit_status == 1


class _Other(http.server.BaseHTTPRequestHandler):
    """Another server, whose answer depends on the path."""

    def do_GET(self) -> None:
        self.send_response(302 if self.path.startswith("/moved") else 200)
        if self.path.startswith("/other-version"):
            self.send_header("x-stormcell-version", "99.0")
        self.end_headers()
        self.wfile.write(b'{"topology": "x"}' if self.path.startswith("/other-version") else b"<html>")

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def other() -> Iterator[str]:
    """Yield the URL of a server that is no run."""
    server = http.server.HTTPServer(("127.0.0.1", 0), _Other)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_another_server_is_no_run(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("/", "/moved"):
        err = run_command(capsys, "top", other + path, status=1)[1]
        assert "is not the page of a run" in err
        assert "Check host, port and path" in err


def test_another_version_is_a_clear_error(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = run_command(capsys, "top", f"{other}/other-version/", status=1)[1]
    assert "a snapshot that this version cannot read" in err
    assert "Use the same version" in err


def test_a_server_that_speaks_no_http_is_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.sendall(b"220 mail.example.com ESMTP\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        err = run_command(capsys, "ctl", f":{listening.getsockname()[1]}", "state", status=1)[1]
        thread.join()
    assert "is not the page of a run" in err


@pytest.mark.parametrize(
    ("path", "begin"),
    [
        ("api/snapshot", b"content-length: 900\r\n\r\n{"),
        ("api/events", b"transfer-encoding: chunked\r\n\r\n"),
        ("api/events", b"transfer-encoding: chunked\r\n\r\n900\r\nevent: sample\ndata: {"),
    ],
)
def test_a_process_that_dies_within_an_answer_is_gone(path: str, begin: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nx-stormcell-version: 1\r\n" + begin)
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        remote = remote_run(str(listening.getsockname()[1]))
        with pytest.raises(RunGone, match="no run answers at"):
            list(remote.events()) if path == "api/events" else remote.snapshot()
        thread.join()


def test_a_run_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.remote_run.TIMEOUT_SECS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with pytest.raises(RemoteError, match="did not answer within") as caught:
            remote_run(str(listening.getsockname()[1])).snapshot()
        assert not isinstance(caught.value, RunGone)


@pytest.mark.parametrize(("path", "slow"), [("api/snapshot", "x"), ("api/events", "event: sample\ndata: ")])
def test_a_server_that_sends_byte_after_byte_is_given_up(path: str, slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.remote_run.TIMEOUT_SECS", 0.2)
    monkeypatch.setattr("engine.cli.remote_run.SILENCE_SECS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1000)
                connection.sendall(f"HTTP/1.1 200 OK\r\nx-stormcell-version: 1\r\ncontent-length: 99999\r\n\r\n{slow}".encode())
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.01)

        thread = threading.Thread(target=answer)
        thread.start()
        remote = remote_run(str(listening.getsockname()[1]))
        with pytest.raises(RemoteError, match="did not answer within"):
            list(remote.events()) if path == "api/events" else remote.snapshot()
        thread.join()


def test_changes_need_the_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with served_run(topology()) as served:
        err = run_command(capsys, "ctl", served.url, "deactivate", status=1)[1]
        assert "a change needs a token" in err
        assert "printed at its start" in err
        assert "--token" in err
        assert "the token is wrong" in run_command(capsys, "ctl", served.url, "drain", "--token", "x", status=1)[1]
        assert run_command(capsys, "ctl", served.url, "deactivate", "--token", TOKEN)[0] == "running: the spouts are not polled\n"
        assert run_command(capsys, "ctl", f"{served.url}#token={TOKEN}", "activate")[0] == "running\n"
        monkeypatch.setenv("ENGINE_HTTP_TOKEN", TOKEN)
        assert run_command(capsys, "ctl", served.url, "log-level", "warning")[0] == "log level: warning\n"


def test_a_run_is_steered(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(topology(), callable_inlets=["in"]) as served:
        url = f"{served.url}#token={TOKEN}"
        assert run_command(capsys, "ctl", url, "call", "in", "[12]")[0] == '{"number": 12, "square": 144}\n'
        assert "thirteen" in run_command(capsys, "ctl", url, "call", "in", "[13]", status=1)[1]
        assert "may be called" in run_command(capsys, "ctl", url, "call", "no", "[13]", status=1)[1].replace("cannot be", "may be")
        assert "Callable: in." in run_command(capsys, "ctl", url, "call", "no", "[13]", status=1)[1]
        assert "no JSON list" in run_command(capsys, "ctl", url, "call", "in", "{}", status=2)[1]
        assert run_command(capsys, "ctl", url, "restart", "2")[0] == "task 2 gets a new instance\n"
        assert "no task 99" in run_command(capsys, "ctl", url, "restart", "99", status=1)[1]
        assert run_command(capsys, "ctl", url, "state")[0].startswith("squares running ")
        assert run_command(capsys, "ctl", url, "trace", "in", "17", "--no-wait")[0].startswith("waiting: ")


def test_a_drain_waits_for_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(topology()) as served:
        out, _ = run_command(capsys, "ctl", served.url, "drain", "--token", TOKEN)
        assert out.startswith("squares: drained after ")
    with served_run(topology()) as served:
        assert run_command(capsys, "ctl", served.url, "stop", "--token", TOKEN, "--no-wait")[0] in ("stopped\n", "running\n")


def test_a_drain_of_a_run_that_cannot_be_sampled_is_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no sample today")

    monkeypatch.setattr("engine.web.sampler.make_sample", broken)
    with served_run(topology()) as served:
        err = run_command(capsys, "ctl", served.url, "drain", "--token", TOKEN, status=1)[1]
        assert "has ended, but its page could not be sampled" in err
        assert "log" in err


def test_a_drain_that_finds_too_many_readers_names_the_way_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.web.sampler.MOST_READERS", 0)
    with served_run(topology()) as served:
        err = run_command(capsys, "ctl", served.url, "drain", "--token", TOKEN, status=1)[1]
        assert "--no-wait" in err
        assert served.run.state == "running"
        run_command(capsys, "ctl", served.url, "drain", "--token", TOKEN, "--no-wait")


@pytest.mark.parametrize("interval_secs", [0.05, 0.4])
def test_the_end_of_a_run_always_finds_an_open_request(interval_secs: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.top_command.MOST_WAIT_SECS", 0.2)

    ask, asked = RemoteRun.ask_snapshot, []

    def ask_after_the_end(remote: RemoteRun, wait_secs: float) -> AskedSnapshot:
        asked.append(wait_secs)
        if len(asked) == 4:  # the first one is for the first snapshot
            served.ask(served.run.stop)
            time.sleep(0.3)  # the server is gone
        return ask(remote, wait_secs)

    monkeypatch.setattr(RemoteRun, "ask_snapshot", ask_after_the_end)
    view: Any = _Interrupted(AssertionError("not raised"))
    view.show = lambda before, now: shown.append(now.state)
    shown: list[str] = []
    with served_run(topology()) as served:
        assert watch(remote_run(served.url), view, interval_secs) == 0
    assert shown[-1] == "stopped"
    assert view.outcome.exit_status == 0


def test_a_long_interval_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.top_command.MOST_WAIT_SECS", 0.2)
    shown = []

    class Notes(_Interrupted):
        def show(self, before: Snapshot | None, now: Snapshot) -> None:
            shown.append(now.uptime_secs)
            if len(shown) == 3:
                raise KeyboardInterrupt

    with served_run(topology()) as served:
        assert watch(remote_run(served.url), cast(Any, Notes(KeyboardInterrupt())), 0.5) == 0
    assert all(after - before >= 0.4 for before, after in pairwise(shown))


def test_a_trace_with_control_characters_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    with served_run(topology()) as served:
        url = f"{served.url}#token={TOKEN}"

        def fail() -> None:
            while not served.run.message_traces:
                time.sleep(0.01)
            served.run.message_traces[0].end("failed", 0.0, "\x1b[2J\ud800 <é>\n")

        failing = threading.Thread(target=fail)
        failing.start()
        out = run_command(capsys, "ctl", url, "trace", "in", "17")[0]
        failing.join()
    assert out.splitlines()[-1] == r"failed: \x1b[2J\ud800 <é>\n"


def test_a_refused_request_ends_the_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RemoteError("too many readers", status=503)

    view: Any = _Interrupted(AssertionError("not raised"))
    view.show = lambda before, now: monkeypatch.setattr(AskedSnapshot, "wait", property(lambda _: refuse))
    with served_run(topology()) as served:
        with pytest.raises(RemoteError, match="too many readers"):
            watch(remote_run(served.url), view, 0.01)
        assert view.outcome.exit_status == 1


@pytest.mark.parametrize(("state", "status"), [("drained", 0), ("failed", 1)])
def test_the_exit_status_of_a_drain_tells_whether_the_run_failed(state: str, status: int) -> None:
    total = {"open_trees": 0, "emitted": 1, "acked": 1, "failed": 0}
    sample = {"topology": "squares", "uptime_secs": 1.0, "total": total}
    remote = RemoteRun("http://127.0.0.1:1/", "http", "127.0.0.1", 1, "/", None)
    events = iter([("history", None), ("sample", sample | {"state": "draining"}), ("end", sample | {"state": state})])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RemoteRun, "events", lambda self: events)
        patch.setattr(RemoteRun, "post", lambda self, path: {})
        assert _end(remote, "api/drain")[0] == bool(status)
