"""Paths of nodes in ZooKeeper, and the parts of a URL."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from engine.errors import StateError
from engine.names import did_you_mean
from engine.state.hosts import split_by_host
from engine.state.standby import DEFAULT_LEASE_SECS, parse_lease_secs

DEFAULT_PORT: Final = 2181
DEFAULT_ROOT: Final = "/stormcell"
EXAMPLE: Final = (
    "It looks like zookeeper://host:2181,other:2181/stormcell, or zookeeper://user:password@host:2181/stormcell. Encode special "
    "characters of a password with %."
)
_LEDGER: Final = "ledger:"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """Parts of a `zookeeper://` URL. Its text has no password."""

    hosts: str
    """One or more `host:port`, separated by commas."""
    root: str = DEFAULT_ROOT
    username: str | None = None
    password: str | None = None
    lease_secs: float = DEFAULT_LEASE_SECS
    """Session timeout: seconds after which a standby process considers a silent process dead."""

    def __str__(self) -> str:
        return f"zookeeper://{self.hosts}{self.root}"

    def __repr__(self) -> str:
        return f"ZooKeeperAddress({str(self)!r})"


def address_of(url: str) -> ZooKeeperAddress:
    """Parse a URL. Raises StateError without the password for an invalid one.

    >>> address_of("zookeeper://me:secret@one,two:2182/team/streams")
    ZooKeeperAddress('zookeeper://one:2181,two:2182/team/streams')
    """
    try:
        urls = split_by_host(url)
    except ValueError:  # its text may have the password
        raise StateError("state_provider: the zookeeper:// URL has no valid host and port", hint=EXAMPLE) from None
    parts, user = urls[0], urls[0].netloc.rpartition("@")[0]
    hosts = ",".join(each.netloc.rpartition("@")[2] for each in urls)
    username, has_password, password = user.partition(":")
    if user and not (username and has_password):
        raise StateError(f"state_provider: zookeeper://{hosts}: the URL names a user without a password", hint=EXAMPLE)
    root = parts.path.rstrip("/") or DEFAULT_ROOT
    if parts.fragment or any(part in ("", ".", "..") for part in root[1:].split("/")):
        raise StateError(f"state_provider: zookeeper://{hosts}: {parts.path!r} is not a path of a node", hint=EXAMPLE)
    named = ",".join(_host_and_port(each) for each in hosts.split(","))
    lease_secs = _lease_of(named, parts.query)
    return ZooKeeperAddress(named, unquote(root), unquote(username) or None, unquote(password) if user else None, lease_secs)


def _host_and_port(text: str) -> str:
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise StateError(f"state_provider: {text!r} in the zookeeper:// URL is not a host and port", hint=EXAMPLE) from None
    if not host or parts.path:
        raise StateError("state_provider: the zookeeper:// URL names no host, or an empty one", hint=EXAMPLE)
    return f"{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORT}"


def _lease_of(hosts: str, query: str) -> float:
    secs = DEFAULT_LEASE_SECS
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != "lease_secs":
            hint = f"{did_you_mean(name, ['lease_secs'])} {EXAMPLE}"
            raise StateError(f"state_provider: zookeeper://{hosts}: {name!r} is not an option of the URL", hint=hint)
        secs = parse_lease_secs(value, "zookeeper")
    return secs


class NodePaths:
    """Paths of one topology. Names of users are %-encoded, so that different names give different paths.

    >>> paths = NodePaths("/stormcell", "word count")
    >>> paths.owner, paths.ledger("transactions")
    ('/stormcell/word%20count/owner', '/stormcell/word%20count/ledger:transactions')
    """

    def __init__(self, root: str, topology_name: str) -> None:
        self.topology: Final = f"{root}/{_encoded(topology_name)}"
        """Node with the format."""
        self.owner: Final = f"{self.topology}/owner"
        """Ephemeral node with the name of the process that runs the topology."""

    def ledger(self, name: str) -> str:
        """Node with the name of its only child, which has the entries."""
        return f"{self.topology}/{_LEDGER}{_encoded(name)}"


def topology_of(node: str) -> str:
    """Return the topology of a node below the root.

    >>> topology_of("word%20count")
    'word count'
    """
    return unquote(node, errors="surrogatepass")


def _encoded(text: str) -> str:
    encoded = quote(text, safe="", errors="surrogatepass")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded
