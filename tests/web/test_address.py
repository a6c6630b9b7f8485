"""Addresses of a server: their forms, and ports that cannot be opened."""

import socket

import pytest

from engine.errors import ConfigError
from engine.web.address import bind, parse_address


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", "127.0.0.1:8080"),
        (":8080", "127.0.0.1:8080"),
        (" 127.0.0.1:0 ", "127.0.0.1:0"),
        ("[::1]:8080", "[::1]:8080"),
        ("localhost:65535", "localhost:65535"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("my-host.example.com:1", "my-host.example.com:1"),
    ],
)
def test_an_address_without_a_host_is_loopback(text: str, address: str) -> None:
    assert str(parse_address(text)) == address


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "HOST:PORT"),
        ("localhost", "HOST:PORT"),
        ("localhost:", "HOST:PORT"),
        ("localhost:http", "HOST:PORT"),
        ("127.0.0.1:-1", "HOST:PORT"),
        ("127.0.0.1:65536", "largest port is 65535"),
        ("127.0.0.1:99999999", "HOST:PORT"),
        ("::1:8080", "in brackets"),
        ("[]:8080", "HOST:PORT"),
        ("http://127.0.0.1:8080", "Remove the part before"),
        ("127.0.0.1:8080/x", "HOST:PORT"),
        ("a b:8080", "HOST:PORT"),
        ("٣:٣", "HOST:PORT"),
    ],
)
def test_a_wrong_address_is_refused(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint.replace("(", r"\(")) as caught:
        parse_address(text)
    assert caught.value.exit_status == 2


@pytest.mark.guarantee("WEB-4")
async def test_a_port_in_use_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is in use"):
            await bind(parse_address(f"127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("host", "text"),
    [("192.0.2.1", "does not have the address"), ("no-such-host.invalid", "is unknown"), ("x" * 300, "is unknown"), ("a..b", "is unknown")],
)
async def test_a_host_that_cannot_be_bound_is_a_clear_error(host: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        await bind(parse_address(f"{host}:0"))


async def test_port_0_is_a_free_port() -> None:
    with await bind(parse_address("0")) as listening:
        assert listening.getsockname()[1] > 0
