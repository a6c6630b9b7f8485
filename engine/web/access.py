"""Decides which HTTP requests are refused, by their headers (WEB-1). Plain computation."""

import hmac
import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from engine.errors import UsageError
from engine.web.access_token import check_token

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Headers of a request, as ASGI gives them: names in lower case."""

_HOST: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]+)(?::(?P<port>[0-9]{1,5}))?")
_READS: Final = ("GET", "HEAD")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Answer to a request that is refused."""

    status: int
    error: str
    hint: str


class Access:
    """Rules of one server or mounted application."""

    def __init__(self, *, token: str | None, allowed_hosts: Iterable[str], bound_hosts: Collection[str] = ()) -> None:
        """bound_hosts: name and address that the server is bound to. Empty: unknown, because another server has the application.

        Raises ConfigError for a wrong token, UsageError for a wrong host.
        """
        self._token = None if token is None else check_token(token, "token").encode("ascii")
        self._names = {_checked_name(host) for host in allowed_hosts} | {host.casefold() for host in bound_hosts}
        self._takes_addresses = not bound_hosts or any(_is_unspecified(host) for host in bound_hosts)

    @property
    def can_steer(self) -> bool:
        """True if changes are possible for those who know the token."""
        return self._token is not None

    def refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Return the refusal of a request to a wrong host, or of a page of another site. None: it is allowed so far."""
        hosts = _texts(headers, b"host")
        host = _parsed_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._is_allowed(host[0]):
            shown = ", ".join(map(repr, hosts)) or "missing"
            hint = "Use the address that the server prints, or allow the name: --http-host NAME, or app(run, allowed_hosts=[NAME])."
            return Refusal(421, f"the Host header is {shown}, which is not this server", hint)
        is_read = method in _READS
        if b"cross-site" in _values(headers, b"sec-fetch-site") and not (is_read and _navigates(headers)):
            return Refusal(403, "the request comes from a page of another site", "Open the page of the run itself.")
        if not is_read and any(not _is_same_origin(origin, host) for origin in _texts(headers, b"origin")):
            return Refusal(403, "the Origin header is not this server", "Send the request from the page of the run, or without Origin.")
        return None

    def change_refusal(self, headers: Headers) -> Refusal | None:
        """Return the refusal of a change without the right token. None: it is allowed."""
        if self._token is None:
            hint = "Give the application a token: engine.web.app(run, token=...). The command line has one: run --http."
            return Refusal(403, "this server allows no changes", hint)
        sent = _values(headers, b"authorization")
        scheme, _, token = sent[0].partition(b" ") if len(sent) == 1 else (b"", b"", b"")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token):
            return None
        what = "the token is wrong" if sent else "a change needs a token"
        where = "Give the token that the run printed at its start, or took from ENGINE_HTTP_TOKEN."
        how = "On the page: press Token…. With ctl: --token TOKEN. Over HTTP: the header `Authorization: Bearer TOKEN`."
        return Refusal(401, what, f"{where} {how}")

    def is_authorized_change(self, method: str, headers: Headers) -> bool:
        """Tell whether a request is a change with the right token."""
        return method not in _READS and self.change_refusal(headers) is None

    def _is_allowed(self, host: str) -> bool:
        if host == "localhost" or host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self._takes_addresses or any(_is_same_address(address, name) for name in self._names)


def _checked_name(host: object) -> str:
    if isinstance(host, str) and _is_address(host):
        return host.casefold()
    found = _HOST.fullmatch(host) if isinstance(host, str) else None
    if found is None or found["port"]:
        raise UsageError(
            f"the allowed host {host!r} is not a name or an address", hint="Write the name alone, such as 'engine.example.com'."
        )
    return found["host"].strip("[]").casefold()


def _values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of a header, in the order of the request."""
    return [value for key, value in headers if key == name]


def _texts(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for value in _values(headers, name)]


def _navigates(headers: Headers) -> bool:
    """Tell whether the user opens the page, for example by a link on another site."""
    return _values(headers, b"sec-fetch-mode") == [b"navigate"]


def _parsed_host(value: str) -> tuple[str, str] | None:
    """Return host and port of a Host header. The port is empty if it is not there. None: the header is malformed."""
    found = _HOST.fullmatch(value.strip())
    return None if found is None else (found["host"].strip("[]").casefold(), found["port"] or "")


def _is_same_origin(origin: str, host: tuple[str, str]) -> bool:
    """Tell whether an Origin is the requested host. The scheme may differ, because a proxy may add TLS."""
    try:
        parts = urlsplit(origin.strip())
    except ValueError:
        return False
    found = _parsed_host(parts.netloc)
    default = _DEFAULT_PORTS.get(parts.scheme)
    if found is None or default is None or parts.path or parts.query or parts.fragment:
        return False
    return (found[0], found[1] or default) == (host[0], host[1] or default)


def _is_unspecified(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_same_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address, name: str) -> bool:
    try:
        return ipaddress.ip_address(name) == address
    except ValueError:
        return False
