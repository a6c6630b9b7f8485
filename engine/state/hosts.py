"""Reads the hosts of a database URL, which may name several: `postgresql://user:password@one:5432,two/database`."""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_HOST: Final = re.compile(r"([^\s\[\]:@]*|\[[0-9a-fA-F:.]+(%[\w.-]+)?\])(:(?P<port>[0-9]{1,5}))?")
MOST_PORT: Final = 65535


def split_by_host(url: str) -> list[SplitResult]:
    """Return the URL once for each of its hosts, with this host alone. Raises ValueError.

    The `urlsplit` of newer Pythons refuses an address in brackets that follows another host.
    """
    scheme, slashes, rest = url.partition("://")
    place, *path = re.split(r"(?=[/?#])", rest, maxsplit=1)
    user, at, hosts = place.rpartition("@")
    return [urlsplit("".join((scheme, slashes, user, at, host, *path))) for host in hosts.split(",")]


def hosts_of(urls: list[SplitResult]) -> list[str]:
    """Return each host as its URL writes it, with its port. A URL without a host has one empty host. Raises ValueError.

    >>> hosts_of(split_by_host("postgresql://me:secret@one:5432,[::1]:5433,three/db"))
    ['one:5432', '[::1]:5433', 'three']
    """
    hosts = [url.netloc.rpartition("@")[2] for url in urls]
    if not all(map(_is_host, hosts)) or (len(hosts) > 1 and "" in hosts):
        raise ValueError("no valid host and port")  # without the text, which may be a part of the password
    return hosts


def shown_url(url: str) -> str:
    """Return a URL without its secrets, for messages.

    >>> shown_url("postgresql://me:secret@one:5432,[::1]:5433/db?password=secret")
    'postgresql://one:5432,[::1]:5433/db'
    """
    try:
        urls = split_by_host(url)
        hosts = hosts_of(urls)
    except ValueError:
        return "an invalid URL"
    return f"{urls[0].scheme}://{','.join(hosts)}{urls[0].path}"


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) <= MOST_PORT
