"""A server on a real socket: hostile clients, its port, and its end with the run (WEB-1, WEB-4)."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
from typing import Any

import pytest

import engine
from engine import Config
from engine.errors import ConfigError
from engine.web import Serving, serve, server
from engine.web.answers import MOST_BODY_BYTES
from engine.web.sampler import Sampler
from tests.patience import PATIENCE_SECS
from tests.web.runs import TOKEN, ask, connect, served, topology

pytestmark = pytest.mark.timeout(PATIENCE_SECS)

HOST = b"Host: localhost\r\n"
TOKEN_LINE = f"Authorization: Bearer {TOKEN}\r\n".encode()


@pytest.mark.guarantee("WEB-4")
async def test_a_port_in_use_is_an_error_before_anything_starts() -> None:
    prepared = []

    class Noted(engine.BasicBolt):
        def prepare(self) -> None:
            prepared.append(self)

        def execute(self, tup: Any) -> None:
            """Never called."""

    builder = engine.TopologyBuilder("noted")
    builder.set_spout("in", lambda: engine.Inlet("number"))
    builder.set_bolt("last", Noted).shuffle_grouping("in")
    run = engine.run(builder.build())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ConfigError, match="is in use"):
            async with serve(run, f"127.0.0.1:{taken.getsockname()[1]}"), run:
                pass
    assert not prepared


@pytest.mark.guarantee("WEB-4")
async def test_the_server_ends_with_its_block() -> None:
    async with served() as (run, serving):
        assert (await ask(serving, b"GET /readyz HTTP/1.0\r\n" + HOST + b"\r\n")).startswith(b"HTTP/1.1 200")
    assert run.state == "stopped"
    with pytest.raises(ConnectionRefusedError):
        await connect(serving)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.guarantee("WEB-4", "RUN-5")
async def test_a_server_touches_neither_signals_nor_logging() -> None:
    def seen() -> object:
        root = logging.getLogger()
        uvicorn = logging.getLogger("uvicorn.access")
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        return handlers, list(root.handlers), root.level, list(uvicorn.handlers), uvicorn.propagate

    before = seen()
    async with served() as (_, serving):
        await ask(serving, b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n")
        assert seen() == before
    assert seen() == before


@pytest.mark.guarantee("WEB-4")
async def test_clients_that_send_nothing_or_half_never_keep_the_run_from_ending() -> None:
    loop = asyncio.get_running_loop()
    async with served() as (_, serving):
        clients = [await connect(serving) for _ in range(4)]
        for (_, writer), sent in zip(clients, (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-", BODY), strict=True):
            writer.write(sent)
        await ask(serving, b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n")
        began = loop.time()
    assert loop.time() - began < 2
    for _, writer in clients:
        writer.close()


BODY = b"POST /api/log-level HTTP/1.1\r\n" + HOST + TOKEN_LINE + b"Content-Length: 20\r\n\r\n{"


@pytest.mark.guarantee("WEB-3")
async def test_a_slow_head_and_a_slow_body_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECS", 0.05)
    monkeypatch.setattr("engine.web.answers.BODY_SECS", 0.05)
    async with served() as (_, serving):
        assert await ask(serving, b"GET / HTTP/1.1\r\nHost: local") == b""
        assert await ask(serving, b"") == b""
        answer = await ask(serving, BODY)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"within 0.05 s" in answer


@pytest.mark.guarantee("WEB-3")
async def test_a_hung_reader_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.web.event_stream.SEND_SECS", 0.05)
    monkeypatch.setattr("engine.web.sampler.INTERVAL_SECS", 0.001)
    monkeypatch.setattr("engine.web.sampler.MOST_WORK_SHARE", 1.0)
    samplers: list[Sampler] = []

    def large_sample(sampler: Sampler) -> bytes:
        samplers.append(sampler)
        return b'"' + b"x" * 1_000_000 + b'"'

    monkeypatch.setattr(Sampler, "_encoded_sample", large_sample)
    async with served() as (run, serving):
        reader, writer = await connect(serving)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /api/events HTTP/1.1\r\n" + HOST + b"\r\n")
        while not (samplers and samplers[0].readers):
            await run.inlet("in").send((1,))
        while samplers[0].readers:
            await run.inlet("in").send((1,))
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = await reader.read()
        assert not received.endswith(b"0\r\n\r\n"), "the connection is aborted while its answer is incomplete"
        assert len(received) < 20_000_000
        writer.close()


@pytest.mark.guarantee("WEB-3")
async def test_too_many_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 10)
    async with served() as (_, serving):
        clients = [await connect(serving) for _ in range(10)]
        reader, writer = await connect(serving)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        for _, each in clients:
            each.close()


@pytest.mark.guarantee("WEB-3")
async def test_a_host_with_too_many_connections_locks_no_other_host_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 10)
    async with served() as (_, serving):
        clients = [await connect(serving) for _ in range(10)]
        place = serving.address.host, serving.address.port
        reader, writer = await asyncio.open_connection(*place, local_addr=("127.0.0.2", 0))
        writer.write(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        for each in (writer, *(each for _, each in clients)):
            each.close()


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET / HTTP/1.0\r\n\r\n", b"421"),
        (b"GET / HTTP/1.0\r\nHost: evil.example.com\r\n\r\n", b"421"),
        (b"GET / HTTP/1.0\r\nHost: \xff\xfe\r\n\r\n", b"421"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n\r\n", b"400"),
        (b"GET http://evil.example.com/ HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"POST /api/stop HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n", b"401"),
        (b"POST /api/stop HTTP/1.0\r\nHost: localhost\r\nOrigin: \xff\r\n" + TOKEN_LINE + b"\r\n", b"403"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"400"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.0\r\n" + HOST + b"\r\n", b"404"),
        (b"GET /%ff%fe%00 HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"POST /api/log-level HTTP/1.0\r\n" + HOST + TOKEN_LINE + b"Content-Length: -1\r\n\r\n", b"400"),
        (b"GET /api/events HTTP/1.0\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\nOrigin: null\r\n\r\n", b"200"),
    ],
)
async def test_malformed_requests_get_a_client_error(request_bytes: bytes, status: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served() as (run, serving):
        if status == b"200":
            await run.drain()
        answer = await ask(serving, request_bytes)
        assert answer.split(b" ", 2)[1] == status, answer[:500]
        assert b"Traceback" not in answer
        assert b"squares" not in answer or status == b"200"
        assert run.state in ("running", "drained")
    assert not [record for record in caplog.records if record.name.startswith(("uvicorn", "engine.web"))]


@pytest.mark.guarantee("WEB-1")
async def test_only_files_of_the_page_are_served() -> None:
    paths = [
        *("/static/", "/static/..", "/static/../static_files.py", "/static/%2e%2e/static_files.py", "/static/..%2fstatic_files.py"),
        *("/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/index.html%00", "/static/index.html/", "/static/..%5cx", "/../x"),
    ]
    async with served() as (_, serving):
        for path in paths:
            answer = await ask(serving, f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 404"), path


async def test_a_client_that_sends_too_much_gets_its_answer() -> None:
    head = b"POST /api/log-level HTTP/1.1\r\n" + HOST + TOKEN_LINE + b"Transfer-Encoding: chunked\r\n\r\n"
    chunks = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (MOST_BODY_BYTES // 65536 + 2)
    async with served() as (_, serving):
        reader, writer = await connect(serving)
        writer.write(head + chunks + b"0\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")
        writer.close()


async def test_a_server_that_is_on_ipv6_is_found_there() -> None:
    run = engine.run(topology(), Config(seed=1))
    try:
        async with serve(run, "[::1]:0") as serving:
            assert serving.url == f"http://[::1]:{serving.address.port}/"
            answer = await ask(serving, f"GET /healthz HTTP/1.0\r\nHost: [::1]:{serving.address.port}\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 200")
    except ConfigError:
        pytest.skip("this machine has no IPv6")


@pytest.mark.guarantee("WEB-3")
async def test_a_client_that_does_not_take_its_answers_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TAKE_SECS", 0.2)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr("engine.web.read_budget.SHARE", 1.0)  # the client asks without pause
    async with served() as (_, serving):
        with socket.create_connection((serving.address.host, serving.address.port)) as hung:
            hung.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(hung, b"GET /static/page.css HTTP/1.1\r\n" + HOST + b"\r\n")
            await asyncio.sleep(0.5)  # it was taken by the system, so the client is only idle
            request = b"GET /static/page.css HTTP/1.1\r\n" + HOST + b"\r\n"
            await asyncio.get_running_loop().sock_sendall(hung, request * 2000)
            async with asyncio.timeout(10):
                while not await _answers(serving):
                    """The hung client has the only connection."""


async def _answers(serving: Serving) -> bool:
    """Tell whether another client gets an answer."""
    try:
        return (await ask(serving, b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n")).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def listening_socket(serving: Serving) -> socket.socket:
    """Return a copy of the socket that accepts the connections of a server."""
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            found = socket.socket(fileno=os.dup(number))
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and found.getsockname()[1] == serving.address.port:
                return found
            found.close()
    raise AssertionError("the server has no socket")


@pytest.mark.guarantee("WEB-3")
async def test_a_socket_that_accepts_nothing_more_costs_the_run_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ACCEPT_PAUSE_SECS", 0.01)
    async with served() as (run, serving):
        with listening_socket(serving) as listening:
            listening.shutdown(socket.SHUT_RDWR)  # as code of a library may do in a forked process, which shares the socket
        await asyncio.sleep(0.1)
        assert run.state == "running"
        assert [record.getMessage() for record in caplog.records if "accept" in record.getMessage()] == [
            "the page of the run cannot accept connections: Invalid argument. It tries again every 0.01 s."
        ]


@pytest.mark.guarantee("WEB-3")
async def test_connections_beyond_the_files_of_the_process_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ACCEPT_PAUSE_SECS", 0.01)
    async with served() as (_, serving):
        with socket.socket() as client:
            client.setblocking(False)
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, before[1]))
            try:
                await asyncio.get_running_loop().sock_connect(client, (serving.address.host, serving.address.port))
                await asyncio.sleep(0.05)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            await asyncio.get_running_loop().sock_sendall(client, b"GET /readyz HTTP/1.0\r\n" + HOST + b"\r\n")
            assert (await asyncio.get_running_loop().sock_recv(client, 100)).startswith(b"HTTP/1.1 200")
