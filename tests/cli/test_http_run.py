"""`run --http`: the page of a run in a terminal, and the errors before its start."""

import socket
import sys
import threading
import urllib.request
from typing import Any

import pytest

from engine.cli import HttpOptions, Outcome, run_in_terminal
from engine.config import Config
from engine.errors import ConfigError
from tests.cli.commands import run_command
from tests.cli.test_run_session import Noted
from tests.cli.topology_files import Write
from tests.web.runs import ending_topology, topology

FEW = """
from engine import TopologyBuilder, bolt, spout

@spout("number")
def numbers():
    yield from ((number,) for number in range(10))

builder = TopologyBuilder("few")
builder.set_spout("numbers", numbers)
builder.set_bolt("last", bolt()(lambda tup: None)).shuffle_grouping("numbers")
"""


@pytest.mark.guarantee("WEB-1")
def test_the_url_and_a_random_token_are_printed_once(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGINE_HTTP_TOKEN", raising=False)
    out, err = run_command(capsys, "run", write(FEW, head=""), "--plain", "--http", "0")
    assert err.startswith("Watch: http://127.0.0.1:")
    assert err.count("#token=") == 1
    assert "few: complete after" in err
    assert out == ""


@pytest.mark.guarantee("WEB-1")
def test_a_given_token_is_not_printed(write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_HTTP_TOKEN", "very-secret")
    _, err = run_command(capsys, "run", write(FEW, head=""), "--plain", "--http", "0")
    assert "ENGINE_HTTP_TOKEN" in err
    assert "very-secret" not in err
    assert "very-secret" not in "".join(run_command(capsys, "run", write(FEW, head=""), "--show-config"))


@pytest.mark.guarantee("WEB-1")
def test_an_empty_token_is_refused(write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_HTTP_TOKEN", "")
    assert "ENGINE_HTTP_TOKEN is empty" in run_command(capsys, "run", write(FEW, head=""), "--http", "0", status=2)[1]


@pytest.mark.guarantee("WEB-4")
def test_a_port_in_use_is_status_2(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        err = run_command(capsys, "run", write(FEW, head=""), "--http", f":{taken.getsockname()[1]}", status=2)[1]
    assert "is in use" in err
    assert "Traceback" not in err
    assert "complete" not in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--http", "x"], "is not an address with a port"),
        (["--http-host", "a"], "--http-host needs --http"),
        (["--http-call", "in"], "--http-call needs --http"),
        (["--http", "0", "--http-call", "nummers"], "Did you mean 'numbers'?"),
        (["--http", "0", "--http-host", "a:80"], "is not a name or an address"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], why: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert why in run_command(capsys, "run", write(FEW, head=""), *arguments, status=2)[1]


def test_a_missing_extra_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("engine.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    outcome = run_in_terminal(ending_topology(), view="silent", http="0")
    assert isinstance(outcome.error, ConfigError)
    assert "pip install '.[web]'" in capsys.readouterr().err


def test_a_run_in_a_terminal_can_be_drained_over_http(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_HTTP_TOKEN", "secret")
    statuses = []

    class Draining(Noted):
        async def begin(self, name: str) -> None:
            thread.start()

    def drain() -> None:
        url = capsys.readouterr().err.split()[1]
        request: Any = urllib.request.Request(f"{url}api/drain", b"{}", {"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request) as answer:
            statuses.append(answer.status)

    thread = threading.Thread(target=drain)
    outcome: Outcome = run_in_terminal(topology(), Config(seed=1), view=Draining(), http=HttpOptions("127.0.0.1:0"))
    thread.join()
    assert statuses == [202]
    assert outcome.snapshot is not None
    assert (outcome.exit_status, outcome.snapshot.state) == (0, "drained")
