"""Reads the hosts of a database URL, which may name several: `postgresql://user:password@one:5432,two/database`."""

import re
from typing import Final
from urllib.parse import urlsplit

_HOST: Final = re.compile(r"([^\s\[\]:@]*|\[[0-9a-fA-F:.]+(%[\w.-]+)?\])(:(?P<port>[0-9]{1,5}))?")
MOST_PORT: Final = 65535


def hosts_of(url: str) -> list[str]:
    """Return each host as the URL writes it, with its port. A URL without a host has one empty host. Raises ValueError.

    >>> hosts_of("postgresql://me:secret@one:5432,[::1]:5433,three/db")
    ['one:5432', '[::1]:5433', 'three']
    """
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    if not all(map(_is_host, hosts)) or (len(hosts) > 1 and "" in hosts):
        raise ValueError("no valid host and port")  # without the text, which may be a part of the password
    return hosts


def shown_url(url: str) -> str:
    """Return a URL without its secrets, for messages."""
    try:
        parts, hosts = urlsplit(url), hosts_of(url)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{','.join(hosts)}{parts.path}"


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) <= MOST_PORT
