"""The same tables by plain Python, without engine and Spark. The result of the pipeline is compared with them, row by row.

This program holds every request in memory, and must compute all tables again for a new line. The engine and Spark do neither.
It shares the tables of countries and of sections with the engine's part, but no code.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from access_log import COUNTRIES, ELSEWHERE, SECTIONS

GAP: Final = timedelta(minutes=30)
Table: TypeAlias = dict[tuple[Any, ...], tuple[Any, ...]]
"""Key columns of each row -> value columns."""


class Request(NamedTuple):
    """The parts of a line."""

    request_id: str
    time: datetime
    visitor: str
    country: str
    agent: str
    section: str
    path: str
    status: int
    bytes: int


@dataclass(frozen=True)
class Tables:
    """All tables and counts of a log."""

    NAMES: ClassVar = ("traffic", "pages", "sessions")

    lines: int
    broken: int
    duplicates: int
    heartbeats: int
    traffic: Table
    """Minute -> requests, by bots, client errors, server errors, bytes."""
    pages: Table
    """Hour, section, page -> views."""
    sessions: Table
    """Visitor, country, began -> plan, ended, requests, bytes."""
    duplicates_in_batches: int = field(default=0, compare=False)
    """Duplicates that the engine dropped."""

    @property
    def rows(self) -> int:
        """Number of rows in all tables."""
        return sum(len(getattr(self, name)) for name in self.NAMES)

    @property
    def totals(self) -> tuple[int, ...]:
        """Sums of the traffic: requests, by bots, client errors, server errors, bytes."""
        return tuple(map(sum, zip(*self.traffic.values(), strict=True))) or (0,) * 5

    def differences(self, other: "Tables") -> list[str]:
        """Describe each difference to other tables."""
        counts = [name for name in ("lines", "broken", "duplicates", "heartbeats") if getattr(self, name) != getattr(other, name)]
        texts = [f"{name}: {getattr(self, name):,} and {getattr(other, name):,}" for name in counts]
        for name in self.NAMES:
            mine, theirs = getattr(self, name).items(), getattr(other, name).items()
            if mine != theirs:
                texts.append(f"{name}: {len(mine - theirs):,} of {len(mine):,} rows differ from {len(theirs - mine):,} of {len(theirs):,}")
        return texts


def compute(folder: Path) -> Tables:
    """Return the tables of the logs of a folder."""
    lines = list(chain.from_iterable(_lines(path) for path in sorted(folder.glob("access-*.log"))))
    whole = [request for line in lines if (request := take_apart(line)) is not None]
    requests = {request.request_id: request for request in whole}
    seen = [request for request in requests.values() if request.agent != "heartbeat"]
    people = [request for request in seen if request.agent != "bot"]
    with (folder / "users.csv").open(newline="") as file:
        plans = {row["user"]: row["plan"] for row in csv.DictReader(file)}
    return Tables(
        lines=len(lines),
        broken=len(lines) - len(whole),
        duplicates=len(whole) - len(requests),
        heartbeats=len(requests) - len(seen),
        traffic=_traffic(seen),
        pages=_pages(people),
        sessions=_sessions(people, plans),
    )


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode(errors="replace").removesuffix("\n").split("\n")


def take_apart(line: str) -> Request | None:
    """Parse a line. Returns None for a broken one."""
    try:
        client, asked, outcome, _, between, agent, request_id = line.split('"')
        address, identity, user, clock, zone, end = client.split(" ")
        method, target, protocol = asked.split(" ")
        before, status, size, behind = outcome.split(" ")
        time = _time(clock, zone)
    except ValueError:
        return None
    words_are_there = address and identity and user and method and target and protocol
    nothing_else = not (end or before or behind) and between == request_id[:1] == " "
    id_is_one = len(request_id) == 17 and set(request_id[1:]) <= set("0123456789abcdef")
    numbers = _is_number(status) and "100" <= status <= "599" and len(status) == 3 and (size == "-" or _is_number(size))
    if not (words_are_there and nothing_else and id_is_one and numbers):
        return None
    path = target.split("?")[0]
    return Request(
        request_id[1:],
        time,
        address if user == "-" else user,
        COUNTRIES.get(".".join(address.split(".")[:-2]), ELSEWHERE),
        _kind(agent),
        _section(path),
        path,
        int(status),
        0 if size == "-" else int(size),
    )


def _time(clock: str, zone: str) -> datetime:
    day, hours, minutes, seconds = clock.split(":")
    if len(clock) != 21 or not all(_is_number(text) and len(text) == 2 for text in (hours, minutes, seconds)):
        raise ValueError(clock)
    return _day(day, zone).replace(hour=int(hours), minute=int(minutes), second=int(seconds))


@lru_cache(1_000)
def _day(day: str, zone: str) -> datetime:
    if len(zone) != 6 or not (day + zone).isascii():
        raise ValueError(day, zone)
    return datetime.strptime(f"{day} {zone}", "[%d/%b/%Y %z]")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _kind(agent: str) -> str:
    words = agent.casefold()
    if "internal dummy connection" in words:
        return "heartbeat"
    if any(word in words for word in ("bot", "crawler")):
        return "bot"
    return "phone" if "mobile" in words else "computer"


def _section(path: str) -> str:
    parts = path.split("/")
    first = parts[1] if path.startswith("/") else path[1:].split("/")[0]
    return first if first in SECTIONS else "other" if first else "home"


# The tables


def _traffic(requests: Iterable[Request]) -> Table:
    rows: defaultdict[tuple[datetime], list[int]] = defaultdict(lambda: [0] * 5)
    for request in requests:
        row = rows[(request.time.replace(second=0),)]
        row[0] += 1
        row[1] += request.agent == "bot"
        row[2] += request.status // 100 == 4
        row[3] += request.status // 100 == 5
        row[4] += request.bytes
    return {key: tuple(row) for key, row in rows.items()}


def _pages(requests: Iterable[Request]) -> Table:
    views = Counter(
        (request.time.replace(minute=0, second=0), request.section, request.path)
        for request in requests
        if request.section not in ("static", "api") and request.status < 400
    )
    return {key: (count,) for key, count in views.items()}


def _sessions(requests: Iterable[Request], plans: dict[str, str]) -> Table:
    by_visitor: defaultdict[tuple[str, str], list[Request]] = defaultdict(list)
    for request in requests:
        by_visitor[request.visitor, request.country].append(request)
    rows: Table = {}
    for (visitor, country), theirs in by_visitor.items():
        for visit in _visits(sorted(theirs, key=lambda request: request.time)):
            requested, sent = len(visit), sum(request.bytes for request in visit)
            rows[visitor, country, visit[0].time] = (plans.get(visitor, "guest"), visit[-1].time, requested, sent)
    return rows


def _visits(requests: list[Request]) -> Iterator[list[Request]]:
    """Yield the requests of each session of a visitor."""
    visit = [requests[0]]
    for request in requests[1:]:
        if request.time - visit[-1].time > GAP:
            yield visit
            visit = []
        visit.append(request)
    yield visit
