"""The Redis provider refuses wrong URLs, wrong servers and foreign keys (CP-8)."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import StateError, StateUnavailable
from engine.state import TaskStore, provider_of
from engine.state.redis.link import RedisAddress, address_of
from tests.integration.redis_states import LEDGER, each, opened, rows, store_of
from tests.servers.process import HOST, free_port
from tests.servers.redis_server import RedisServer
from tests.servers.required import required

pytestmark = pytest.mark.guarantee("CP-8")
SECRET = "s3cret:%/@"


@pytest.fixture
def locked_server(redis_installed: None, tmp_path: Path) -> Iterator[RedisServer]:
    """Return a server with a password."""
    server = RedisServer(tmp_path, password=SECRET)
    server.start()
    yield server
    server.kill()


async def refused(address: RedisAddress, *said: str, passing: bool = False) -> None:
    """Check that open raises a StateError that has these texts and a hint, and no password. `passing`: the error is temporary."""
    with pytest.raises(StateError) as raised:
        async with opened(address, timeout_secs=2):
            pass
    text = str(raised.value)
    assert isinstance(raised.value, StateUnavailable) == passing, text
    assert raised.value.hint
    assert f"{HOST}:{address.port}" in text
    assert SECRET not in text
    for each_said in said:
        assert each_said in text


async def test_a_correct_password_is_accepted(locked_server: RedisServer) -> None:
    provider = provider_of(f"redis://:s3cret%3A%25%2F%40@{HOST}:{locked_server.port}/0")
    await provider.open("t")
    await provider.close()
    async with opened(replace(locked_server.address(), username="default")):
        pass


async def test_a_wrong_password_is_refused(locked_server: RedisServer) -> None:
    await refused(replace(locked_server.address(), password="no"), "refuses this user or password", "redis://[user]", passing=True)


async def test_a_missing_password_is_refused(locked_server: RedisServer) -> None:
    await refused(replace(locked_server.address(), password=None), "requires a password", "redis://:password@", passing=True)


async def test_a_password_for_a_server_without_one_is_refused(server: RedisServer) -> None:
    await refused(replace(server.address(), password=SECRET), "it has no password", passing=True)


async def test_a_user_without_rights_is_refused(server: RedisServer) -> None:
    with server.client() as client:
        client.acl_setuser("reader", enabled=True, passwords=["+pw"], keys=["*"], categories=["+@read"], commands=["+select", "+client"])
    try:
        await refused(replace(server.address(), username="reader", password="pw"), "its user may not do this", "ACL SETUSER")
    finally:
        with server.client() as client:
            client.acl_deluser("reader")


async def test_a_user_with_the_rights_from_the_hint_can_run(server: RedisServer) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "streams", "on", ">pw", "~{test:*", "+@all", "-@admin")
    try:
        async with opened(replace(server.address(), username="streams", password="pw")) as provider:
            await provider.ledger(LEDGER).claim()
            await (await store_of(provider)).fold(each(rows(0, a="1")), 0)
    finally:
        with server.client() as client:
            client.acl_deluser("streams")


async def test_a_closed_port_is_unavailable() -> None:
    await refused(RedisAddress(HOST, free_port()), "cannot be reached", "Does it run", passing=True)


async def test_a_silent_port_is_unavailable() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, HOST, 0) as listening:
        await refused(RedisAddress(HOST, listening.sockets[0].getsockname()[1]), "did not answer within 2 s", passing=True)


async def test_another_protocol_is_refused() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(web, HOST, 0) as listening:
        await refused(RedisAddress(HOST, listening.sockets[0].getsockname()[1]), "does not answer like Redis", "host and port")


async def test_a_missing_database_is_refused(server: RedisServer) -> None:
    await refused(server.address(db=99), "no database of this number")


async def test_a_newer_format_is_refused(server: RedisServer) -> None:
    with server.client() as client:
        client.set("{test:word%20count}:format", 4)
    await refused(server.address(), "newer version", "Nothing was changed")


async def test_a_foreign_format_is_refused(server: RedisServer) -> None:
    with server.client() as client:
        client.set("{test:word%20count}:format", "hello")
    await refused(server.address(), "was not written by the engine", "prefix")


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
async def test_a_server_that_evicts_keys_is_refused(server: RedisServer, policy: str) -> None:
    with server.client() as client:
        client.config_set("maxmemory", "1gb")
        client.config_set("maxmemory-policy", policy)
    try:
        await refused(server.address(), "evicts any key", policy, "noeviction")
    finally:
        with server.client() as client:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize(
    "key", ["owner", "lanes", "epochs", "ledger:%24checkpoint", "deltas:count:0", "delta:count:0:1:1", "rows:count:3", "format"]
)
async def test_a_key_of_another_type_is_refused(server: RedisServer, key: str) -> None:
    name = f"{{test:word%20count}}:{key}"
    with server.client() as client:
        client.sadd(name, "theirs")
    with pytest.raises(StateError, match="is a set, which the engine did not write") as raised:
        await _use_all_keys(server)
    assert name in raised.value.message
    assert "prefix" in (raised.value.hint or "")
    with server.client() as client:
        assert client.smembers(name) == {b"theirs"}


async def _use_all_keys(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        ledger, store = provider.ledger(LEDGER), await store_of(provider)
        await ledger.claim()
        await ledger.write({"a": 1})
        await store.stage(1, 1, each(b"x"))
        await store.fold(each(rows(2, a="1"), rows(3, a="1")), 1)


async def test_full_memory_raises_a_temporary_error(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        with server.client() as client:
            client.config_set("maxmemory", "1mb")
        try:
            with pytest.raises(StateUnavailable, match="out of memory"):
                await store.stage(1, 1, each(b"x"))
        finally:
            with server.client() as client:
                client.config_set("maxmemory", 0)
        await store.stage(1, 1, each(b"x"))


async def test_a_replica_raises_a_temporary_error(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        with server.client() as client:
            client.replicaof(HOST, "1")
        try:
            with pytest.raises(StateUnavailable, match=r"replica|lost its master"):
                await store.stage(1, 1, each(b"x"))
        finally:
            with server.client() as client:
                client.replicaof("NO", "ONE")
        await store.stage(1, 1, each(b"x"))


async def test_a_busy_script_raises_a_temporary_error(own_server: RedisServer) -> None:
    async with opened(own_server.address()) as provider:
        store = await store_of(provider)
        with own_server.client() as client:
            client.config_set("lua-time-limit", 10)
        looping = asyncio.create_task(asyncio.to_thread(_loop, own_server))
        with pytest.raises(StateUnavailable, match="a script keeps it busy"):
            await _again_and_again(store)
        with own_server.client() as client:
            client.script_kill()
        await looping
        await store.stage(1, 1, each(b"x"))


async def _again_and_again(store: TaskStore) -> None:
    while True:
        await store.stage(1, 1, each(b"x"))


def _loop(server: RedisServer) -> None:
    with server.client() as client:
        with pytest.raises(Exception, match=r"SCRIPT KILL|killed"):
            client.eval("while true do end", 0)


async def test_forgotten_scripts_are_sent_again(server: RedisServer) -> None:
    async with opened(server.address()) as provider:
        store = await store_of(provider)
        await store.stage(1, 1, each(b"x"))
        with server.client() as client:
            client.script_flush()
        await store.stage(1, 2, each(b"x"))
        assert len(await store.deltas()) == 2


@pytest.fixture
def tls_server(redis_installed: None, tmp_path: Path) -> Iterator[tuple[RedisServer, Path]]:
    """Yield a server that accepts TLS only, and its certificate."""
    required(None if shutil.which("openssl") else "openssl, which makes the certificate")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names], check=True, capture_output=True, timeout=60)
    server = RedisServer(tmp_path, "--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no")
    server.start()
    with server.client() as client:
        plain, server.port = server.port, free_port()
        client.config_set("tls-port", server.port)
    yield server, certificate
    server.port = plain
    server.kill()


async def test_a_trusted_certificate_is_accepted(tls_server: tuple[RedisServer, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    server, certificate = tls_server
    address = replace(server.address(), tls=True)
    await refused(address, "its certificate is not trusted", "SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with opened(address) as provider:
        await provider.ledger(LEDGER).claim()


async def test_tls_to_a_server_without_it_is_refused(server: RedisServer) -> None:
    await refused(replace(server.address(), tls=True), "did not answer", "does it speak TLS (if not: redis://)", passing=True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://", "names no host"),
        ("redis:///0", "names no host"),
        ("redis://host:port/0", "no valid host and port"),
        ("redis://:pw@host:99999", "no valid host and port"),
        ("redis://:pw@host/zero", "'/zero' is not the number of a database"),
        ("redis://:pw@host/0/1", "is not the number of a database"),
        ("redis://:pw@host/-1", "is not the number of a database"),
        ("redis://:pw@host/0#x", "is not the number of a database"),
        ("redis://:pw@host/0?prefx=a", "Did you mean 'prefix'?"),
        ("redis://:pw@host/0?prefix=", "prefix= is empty"),
    ],
)
def test_an_ambiguous_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(StateError) as raised:
        provider_of(url)
    assert said in str(raised.value)
    assert ":pw@" not in str(raised.value)
    assert "redis://:password@host" in str(raised.value)


def test_a_url_sets_every_option() -> None:
    assert address_of("rediss://me:p%40ss@[::1]:7000/3?prefix=a%3Ab") == RedisAddress("::1", 7000, 3, "me", "p@ss", True, "a:b")
    assert address_of("redis://host") == RedisAddress("host")
    assert "p@ss" not in repr(address_of("redis://:p%40ss@host"))
    assert str(address_of("redis://[::1]/2")) == "redis://[::1]:6379/2"
