"""Addresses that a server listens on: parses them, and binds a socket before anything else starts (WEB-4)."""

import asyncio
import errno
import os
import re
import socket
from dataclasses import dataclass
from typing import Final

from engine.errors import ConfigError
from engine.forks import open_unshared

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 128
"""Connections that wait to be accepted."""
_FORMS: Final = "Write HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080. A PORT alone means 127.0.0.1."
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[^\[\]]*\]|[^:\[\]/@\s]*):)?(?P<port>[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port of a server. Port 0 is a free port that the system chooses."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address of a text. Raise ConfigError if it is none. Without a host it is loopback (WEB-1).

    >>> str(parse_address("8080")), str(parse_address("[::1]:0"))
    ('127.0.0.1:8080', '[::1]:0')
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise _wrong_address(f"{text!r} is not an address with a port. {_hint_of(text.strip())}")
    port = int(found["port"])
    if port > 65_535:
        raise _wrong_address(f"{text!r} has the port {port}, and the largest port is 65535. Choose another port.")
    host = (found["host"] or LOOPBACK).strip("[]")
    if found["host"] == "[]" or ("%" in host and ":" not in host):
        raise _wrong_address(f"{text!r} is not an address with a port. {_FORMS}")
    return Address(host, port)


def _hint_of(text: str) -> str:
    if "://" in text:
        return f"Remove the part before the host. {_FORMS}"
    if text.count(":") > 1 and "[" not in text:
        return "Write an IPv6 address in brackets, such as [::1]:8080."
    return _FORMS


def _wrong_address(fault: str) -> ConfigError:
    return ConfigError([fault], headline="HTTP address")


async def bind(address: Address) -> socket.socket:
    """Return a listening socket. Raise ConfigError if the host is unknown, or the port cannot be opened."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _wrong_address(f"the host {address.host!r} is unknown ({why}). Correct the host, or write 127.0.0.1.") from error
    family, kind, protocol, _, place = min(found, key=lambda info: info[0] != socket.AF_INET)  # localhost is 127.0.0.1, then ::1
    listening = open_unshared(lambda: socket.socket(family, kind, protocol))
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for a restart soon after the end
        listening.setblocking(False)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _wrong_address(_fault(address, error)) from error
    return listening


def _fault(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} of {address.host} is in use. End the other program, or choose another port. Port 0 is a free port."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user must not open port {address.port} of {address.host}. Choose a port of 1024 or more, such as 8080."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"this machine does not have the address {address.host}. Choose one of its own addresses, 127.0.0.1, or 0.0.0.0 for all."
    return f"{address} cannot be opened: {error.strerror}. Choose another address."
