"""Connection settings of a cluster (brokers, TLS, SASL). Spouts, sinks and tools share them."""

import ipaddress
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

from engine.config import setting
from engine.config.validated import set_frozen, validated
from engine.errors import FatalError

Brokers: TypeAlias = str | tuple[str, ...] | list[str]
"""One `"host:port"`, a comma-separated list, or a sequence. The client learns the other brokers from the cluster."""


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """TLS and SASL of a connection. The values go to aiokafka's client unchanged.

    `KafkaSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="u", password="p", cafile="ca.pem")`
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting("PLAINTEXT", help="Protocol of the brokers' listener.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"] | None = setting(
        None, help="Mechanism of SASL. none without SASL."
    )
    username: str | None = setting(None, help="User of PLAIN and SCRAM.")
    password: str | None = field(default=None, repr=False)
    """Password of the user. Never shown."""
    token_provider: Any = field(default=None, repr=False)
    """Token provider for OAUTHBEARER, an `aiokafka.abc.AbstractTokenProvider`."""
    cafile: str | None = setting(
        None, help="PEM file of the authority that signed the brokers' certificates. none: the authorities of the system."
    )
    certfile: str | None = setting(None, help="PEM file of our own certificate, if the brokers ask for one.")
    keyfile: str | None = setting(None, help="PEM file of the key of certfile.")
    key_password: str | None = field(default=None, repr=False)
    """Password of the key file. Never shown."""
    check_hostname: bool = setting(True, help="Whether a broker's certificate must contain the host name of its address.")
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    """A ready SSL context, used instead of the files."""

    def _faults(self) -> Iterator[str]:
        sasl, tls = self.protocol.startswith("SASL"), self.protocol.endswith("SSL")
        if sasl and self.mechanism is None:
            yield f"protocol={self.protocol!r} needs a mechanism. Write mechanism='SCRAM-SHA-512', or another one of the brokers."
        if not sasl and (self.mechanism or self.username or self.password):
            yield f"mechanism, username and password need SASL, and protocol={self.protocol!r} has none. Write protocol='SASL_SSL'."
        if self.mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and sasl and not (self.username and self.password):
            yield f"mechanism={self.mechanism!r} needs username and password."
        if self.mechanism == "OAUTHBEARER" and self.token_provider is None:
            yield "mechanism='OAUTHBEARER' needs a token_provider."
        if not tls and (self.ssl_context or self.cafile or self.certfile):
            yield f"certificates need TLS, and protocol={self.protocol!r} has none. Write protocol='SSL' or 'SASL_SSL'."
        if self.keyfile and not self.certfile:
            yield "keyfile needs a certfile, which is missing."
        if self.ssl_context and (self.cafile or self.certfile):
            yield "ssl_context and files of certificates exclude each other. Load the files into the context."

    def client_options(self) -> dict[str, Any]:
        """Return the options of aiokafka's clients.

        Raise OSError or ssl.SSLError for unusable files, and FatalError if the library of a mechanism is missing.
        """
        if self.mechanism == "GSSAPI":
            _require_gssapi()
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl_context"] = self.ssl_context or self._context_of_files()
        if self.mechanism is not None:
            options["sasl_mechanism"] = self.mechanism
        if self.username is not None:
            options |= {"sasl_plain_username": self.username, "sasl_plain_password": self.password}
        if self.token_provider is not None:
            options["sasl_oauth_token_provider"] = self.token_provider
        return options

    def _context_of_files(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.cafile)
        context.check_hostname = self.check_hostname
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile, self.key_password)
        return context


def _require_gssapi() -> None:
    """Raise FatalError if the package is missing. aiokafka would notice the missing package only when it connects."""
    try:
        import_module("gssapi")
    except ImportError as error:
        hint = "pip install gssapi. It needs the Kerberos libraries of the system (on Debian libkrb5-dev and a compiler)."
        raise FatalError(f"mechanism='GSSAPI' needs the package gssapi, which is not installed: {error}", hint=hint) from error


class BrokerAccess(Protocol):
    """Connection settings. The configs of spouts, sinks and tools have these fields."""

    @property
    def brokers(self) -> Sequence[str]: ...
    @property
    def security(self) -> KafkaSecurity: ...
    @property
    def client(self) -> Mapping[str, Any]: ...


PLAINTEXT: Final = KafkaSecurity()


def connection_faults(made: Any, refused: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults of brokers, security and client options. Also normalize these settings.

    refused: client options that a user may not set, with the setting to use instead.
    """
    yield from _broker_faults(made)
    if not isinstance(made.security, KafkaSecurity):
        yield f"security must be a KafkaSecurity(...), not of type {type(made.security).__name__}."  # the value may contain a password
    if not isinstance(made.client, Mapping) or not all(isinstance(key, str) for key in made.client):
        yield f"client must be a mapping of options of aiokafka's client, not {made.client!r}."
        return
    yield from (f"client option {key!r} cannot be set. {refused[key]}" for key in made.client if key in refused)
    set_frozen(made, "client", MappingProxyType(dict(made.client)))


def _broker_faults(made: Any) -> Iterator[str]:
    brokers = made.brokers.split(",") if isinstance(made.brokers, str) else made.brokers
    if not isinstance(brokers, (tuple, list)) or not brokers or not all(isinstance(one, str) for one in brokers):
        yield f"brokers must be 'host:port' or several of them, not {made.brokers!r}."
        return
    brokers = tuple(one.strip() for one in brokers)
    for one in brokers:
        host, colon, port = one.rpartition(":")
        if not (colon and _is_host(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            yield f"broker {one!r} is not 'host:port'. Write brokers='127.0.0.1:9092'."
    set_frozen(made, "brokers", brokers)


def _is_host(text: str) -> bool:
    """Return True if a text can be a host name or an address. An IPv6 address may have brackets."""
    if text.startswith("[") or text.endswith("]"):
        return text[0] == "[" and _is_ipv6(text[1:].removesuffix("]")) and text[-1] == "]"
    try:
        return bool(text.encode("idna")) and text.isprintable() and " " not in text
    except UnicodeError:  # an empty label, a label of more than 63 characters, or an object that is no text
        return False


def _is_ipv6(text: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


REFUSED_EVERYWHERE: Final = {
    "bootstrap_servers": "Write brokers=...",
    "security_protocol": "Write security=KafkaSecurity(...).",
    "ssl_context": "Write security=KafkaSecurity(ssl_context=...).",
    "sasl_mechanism": "Write security=KafkaSecurity(mechanism=...).",
    "sasl_plain_username": "Write security=KafkaSecurity(username=...).",
    "sasl_plain_password": "Write security=KafkaSecurity(password=...).",
    "sasl_oauth_token_provider": "Write security=KafkaSecurity(token_provider=...).",
    "loop": "The run has one loop.",
    "key_deserializer": "The translator reads keys.",
    "value_deserializer": "The translator reads values.",
    "key_serializer": "Return bytes from key=... of the config.",
    "value_serializer": "Return bytes from value=... of the config.",
}
