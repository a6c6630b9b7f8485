"""The paths of our nodes in ZooKeeper, and where a URL says that they begin."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from engine.errors import StateError
from engine.names import did_you_mean
from engine.state.standby import DEFAULT_LEASE_SECS, parse_lease_secs

DEFAULT_PORT: Final = 2181
DEFAULT_ROOT: Final = "/stormcell"
EXAMPLE: Final = (
    "It looks like zookeeper://host:2181,other:2181/stormcell; with a user: zookeeper://user:password@host:2181/stormcell, where what is "
    "special in a password is %-encoded."
)
_LEDGER: Final = "ledger:"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """What a `zookeeper://` URL says. As text it has no password."""

    hosts: str
    """`host:port`, or several of them, with commas between."""
    root: str = DEFAULT_ROOT
    username: str | None = None
    password: str | None = None
    lease_secs: float = DEFAULT_LEASE_SECS
    """So long a process that does not answer counts as alive for one that stands by: the timeout of its session."""

    def __str__(self) -> str:
        return f"zookeeper://{self.hosts}{self.root}"

    def __repr__(self) -> str:
        return f"ZooKeeperAddress({str(self)!r})"


def address_of(url: str) -> ZooKeeperAddress:
    """Return what a URL says; raise StateError, which never shows the password, where it says nothing clear.

    >>> address_of("zookeeper://me:secret@one,two:2182/team/streams")
    ZooKeeperAddress('zookeeper://one:2181,two:2182/team/streams')
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # which may show the password
        raise StateError("state_provider: the zookeeper:// URL is no host and port", hint=EXAMPLE) from None
    user, _, hosts = parts.netloc.rpartition("@")
    username, has_password, password = user.partition(":")
    if user and not (username and has_password):
        raise StateError(f"state_provider: zookeeper://{hosts}: the URL names a user without a password", hint=EXAMPLE)
    root = parts.path.rstrip("/") or DEFAULT_ROOT
    if parts.fragment or any(part in ("", ".", "..") for part in root[1:].split("/")):
        raise StateError(f"state_provider: zookeeper://{hosts}: {parts.path!r} is no path of a node", hint=EXAMPLE)
    named = ",".join(_host_and_port(each) for each in hosts.split(","))
    lease_secs = _lease_of(named, parts.query)
    return ZooKeeperAddress(named, unquote(root), unquote(username) or None, unquote(password) if user else None, lease_secs)


def _host_and_port(text: str) -> str:
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise StateError(f"state_provider: {text!r} in the zookeeper:// URL is no host and port", hint=EXAMPLE) from None
    if not host or parts.path:
        raise StateError("state_provider: the zookeeper:// URL names no host, or an empty one", hint=EXAMPLE)
    return f"{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORT}"


def _lease_of(hosts: str, query: str) -> float:
    secs = DEFAULT_LEASE_SECS
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != "lease_secs":
            hint = f"{did_you_mean(name, ['lease_secs'])} {EXAMPLE}"
            raise StateError(f"state_provider: zookeeper://{hosts}: {name!r} is nothing that the URL can set", hint=hint)
        secs = parse_lease_secs(value, "zookeeper")
    return secs


class NodePaths:
    """Paths for one topology. What a user chose is %-encoded, so that no two of them give one path.

    >>> paths = NodePaths("/stormcell", "word count")
    >>> paths.owner, paths.ledger("transactions")
    ('/stormcell/word%20count/owner', '/stormcell/word%20count/ledger:transactions')
    """

    def __init__(self, root: str, topology_name: str) -> None:
        self.topology: Final = f"{root}/{_encoded(topology_name)}"
        """Holds the format."""
        self.owner: Final = f"{self.topology}/owner"
        """Is there while a process runs the topology, and says which."""

    def ledger(self, name: str) -> str:
        """Holds the name of its one child, which holds the entries."""
        return f"{self.topology}/{_LEDGER}{_encoded(name)}"


def topology_of(node: str) -> str:
    """Return whose node this is, among those below the root.

    >>> topology_of("word%20count")
    'word count'
    """
    return unquote(node, errors="surrogatepass")


def _encoded(text: str) -> str:
    encoded = quote(text, safe="", errors="surrogatepass")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded
