"""Turns a line of an access log into a row: parses, cleans, enriches.

The lines have the combined format, followed by the id of the request (nginx: `$request_id`):

    23.16.113.7 - user00042 [02/Mar/2026:08:06:53 +0000] "GET /product/mug-3?ref=mail HTTP/1.1" 200 5123 "-" "Mozilla/5.0" 61f0a2b8c94d7e35
"""

import re
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar

V = TypeVar("V")

SCHEMA: Final = {
    "request_id": "string not null",
    "time": "timestamp not null",
    "visitor": "string not null",
    "country": "string not null",
    "agent": "string not null",
    "section": "string not null",
    "page": "string not null",
    "status": "int not null",
    "bytes": "bigint not null",
}
"""The columns of a row, and their types in Spark. The time is in microseconds since 1970."""
Row: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of SCHEMA. Making a NamedTuple would take longer than matching the line."""

LINE: Final = re.compile(
    r'([^ "]+) [^ "]+ ([^ "]+) '  # the address, an unused identity, the user
    r"\[(\d\d/\w{3}/\d{4}:\d\d:\d\d):([0-5]\d) ([+-]\d{4})\] "  # the time, with its zone
    r'"[^ "]+ ([^ "]+) [^ "]+" ([1-5]\d\d) (\d+|-) '  # method, target and protocol; status and bytes
    r'"[^"]*" "([^"]*)" '  # the referring page, the agent
    r"([0-9a-f]{16})",
    re.ASCII,
)

COUNTRIES: Final = {
    **dict.fromkeys(("23.16", "23.17", "47.80", "66.24", "98.40"), "US"),
    **dict.fromkeys(("46.88", "79.192", "91.0"), "DE"),
    **dict.fromkeys(("36.24", "58.30", "101.64"), "CN"),
    **dict.fromkeys(("49.36", "106.192"), "IN"),
    **dict.fromkeys(("81.128", "86.0"), "GB"),
    **dict.fromkeys(("90.0", "92.128"), "FR"),
    **dict.fromkeys(("177.32", "189.0"), "BR"),
    **dict.fromkeys(("126.0", "133.32"), "JP"),
}
"""Country by the first two numbers of an address. The data is made up: a real table has 400,000 prefixes."""
ELSEWHERE: Final = "--"

SECTIONS: Final = frozenset({"product", "category", "search", "cart", "checkout", "blog", "api", "static", "account"})
"""First parts of paths that name a section. The section of "/" is `home`, of any other path `other`."""

MOST_REMEMBERED: Final = 100_000
"""Bound of each cache, because a log may be full of unique targets."""

_minutes: dict[str, int] = {}
_agents: dict[str, str] = {}
_pages: dict[str, tuple[str, str]] = {}


def parse(line: str) -> Row | None:
    """Return the row of a line, or None if the line does not have this format."""
    match = LINE.fullmatch(line)
    if match is None:
        return None
    address, user, minute, second, zone, target, status, size, agent, request_id = match.groups()
    try:
        minute_us = _minutes.get(minute + zone) or _minute_us(minute + zone)
    except ValueError:
        return None  # the 30th of February
    section, page = _pages.get(target) or _page(target)
    return (
        request_id,
        minute_us + int(second) * 1_000_000,
        address if user == "-" else user,  # the visitor
        COUNTRIES.get(address.rsplit(".", 2)[0], ELSEWHERE),
        _agents.get(agent) or _agent(agent),
        section,
        page,
        int(status),
        0 if size == "-" else int(size),
    )


def _minute_us(text: str) -> int:
    """Return the start of a minute such as `02/Mar/2026:08:06+0000`, in microseconds since 1970."""
    return _remember(_minutes, text, int(datetime.strptime(text, "%d/%b/%Y:%H:%M%z").timestamp()) * 1_000_000)


def _page(target: str) -> tuple[str, str]:
    path = target.partition("?")[0]
    first = path[1:].partition("/")[0]
    section = first if first in SECTIONS else "other" if first else "home"
    return _remember(_pages, target, (section, path))


def _agent(text: str) -> str:
    lower = text.lower()
    if "internal dummy connection" in lower:
        kind = "heartbeat"  # a server asks itself: no visit, but it moves the watermark
    elif "bot" in lower or "crawler" in lower:
        kind = "bot"
    else:
        kind = "phone" if "mobile" in lower else "computer"
    return _remember(_agents, text, kind)


def _remember(known: dict[str, V], key: str, value: V) -> V:
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    known[key] = value
    return value
