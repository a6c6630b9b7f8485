"""Makes the access logs of one day of a shop: seeded, of any size, one file for each web server.

    python examples/log_etl/traffic.py FOLDER [--lines 300000] [--seed 7]

The number of visitors follows the hours of the day, and some pages are far more popular than others. Bots crawl, and there are two outages.
Like real logs, the files have some late lines, some duplicates, and some broken lines.
"""

import argparse
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Final

from access_log import COUNTRIES
from visitors import BOTS, BROWSERS, PAGES, PLANS, STATIC, Visitor

DAY: Final = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
DAY_SECS: Final = 86_400
AFTER_SECS: Final = 3_600
"""Time after the last visitor in which the servers send heartbeats only."""
LATEST_SECS: Final = 300
"""Largest delay of a line. Readers must wait at least this long (pipeline.py: WATERMARK)."""
HEARTBEAT: Final = "Apache/2.4.62 (internal dummy connection)"
LINES_PER_SESSION: Final = 10.04
"""Average, bots included."""


@dataclass(frozen=True)
class Traffic:
    """Size and seed of the logs."""

    lines: int = 300_000
    """Approximate number of lines."""
    seed: int = 7
    servers: int = 4
    users: int = 2_000


@dataclass(frozen=True, slots=True)
class Outage:
    """A failure behind the servers that lasts for a while."""

    begins: int
    ends: int
    status: int
    share: float


class Day:
    """Draws the lines of a day in order of arrival."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._random = random.Random(traffic.seed)
        self._arriving: defaultdict[int, list[tuple[float, bytes]]] = defaultdict(list)
        """Lines by the minute of their arrival. A session is drawn as a whole at its start."""
        self._user_weights = list(accumulate(1 / rank**0.6 for rank in range(1, traffic.users + 1)))
        self._page_weights = list(accumulate(1 / rank**1.05 for rank in range(1, len(PAGES) + 1)))
        self._country_weights = list(accumulate(range(len(COUNTRIES), 0, -1)))
        self._outages = [self._outage(10, 502), self._outage(19, 503)]

    def lines(self) -> Iterator[bytes]:
        """Yield all lines."""
        heartbeats = (DAY_SECS + AFTER_SECS) // 60
        sessions = max(self._traffic.lines - heartbeats, 0) / LINES_PER_SESSION
        curve = [busy(minute) for minute in range(DAY_SECS // 60)]
        share = sessions / sum(curve)
        owed = 0.0
        for minute in range((DAY_SECS + AFTER_SECS) // 60):
            if minute < len(curve):
                owed += curve[minute] * share
                while owed >= 1:
                    owed -= 1
                    self._begin_session(minute * 60)
            self._heartbeat(minute * 60)
            yield from (line for _, line in sorted(self._arriving.pop(minute, ())))

    def _outage(self, hour: int, status: int) -> Outage:
        begins = hour * 3_600 + self._random.randrange(3_000)
        return Outage(begins, begins + self._random.randrange(600, 1_500), status, self._random.uniform(0.3, 0.6))

    # Sessions

    def _begin_session(self, second: int) -> None:
        draw = self._random
        if draw.random() < 0.12:
            self._crawl(second)
            return
        visitor = self._visitor()
        at, referrer = second + draw.random() * 60, draw.choice(("-", "-", "https://search.example/", "https://news.example/today"))
        while at < DAY_SECS:
            page = draw.choices(PAGES, cum_weights=self._page_weights)[0]
            method, target, size = page.request(draw)
            self._hit(at, visitor, f"{method} {target} HTTP/1.1", size, referrer)
            for _ in range(draw.choice((0, 1, 1, 2))):
                self._hit(
                    min(at + draw.random(), DAY_SECS - 1),
                    visitor,
                    f"GET {draw.choice(STATIC)} HTTP/1.1",
                    draw.randrange(900, 60_000),
                    page.path,
                )
            if draw.random() < 0.2:
                return
            at, referrer = at + draw.lognormvariate(3.4, 1.0), f"https://shop.example{page.path}"

    def _crawl(self, second: int) -> None:
        draw = self._random
        visitor = Visitor(self._address(), "-", draw.choice(BOTS))
        pause, at = draw.uniform(2, 30), float(second)
        for target in ("/robots.txt", *(draw.choice(PAGES).path for _ in range(draw.randrange(3, 16)))):
            if at < DAY_SECS:
                gone = f"/old{target}" if draw.random() < 0.1 else target
                self._hit(at, visitor, f"GET {gone} HTTP/1.1", draw.randrange(300, 30_000), "-")
            at += pause

    def _visitor(self) -> Visitor:
        draw = self._random
        agent = draw.choice(BROWSERS)
        if draw.random() < 0.4:
            number = draw.choices(range(self._traffic.users), cum_weights=self._user_weights)[0]
            prefix = list(COUNTRIES)[number % len(COUNTRIES)]
            return Visitor(f"{prefix}.{number % 251}.{number % 239}", user_name(number), agent)
        return Visitor(self._address(), "-", agent)

    def _address(self) -> str:
        draw = self._random
        prefix = "192.0" if draw.random() < 0.03 else draw.choices(list(COUNTRIES), cum_weights=self._country_weights)[0]
        return f"{prefix}.{draw.randrange(256)}.{draw.randrange(256)}"

    # Lines

    def _hit(self, at: float, visitor: Visitor, request: str, size: int, referrer: str) -> None:
        """Write the line of a request. By chance it comes late, twice or broken."""
        draw = self._random
        chance = draw.random()
        status = 404 if "/old" in request else 301 if chance < 0.01 else 304 if chance < 0.04 and "/static/" in request else 200
        for outage in self._outages:
            if outage.begins <= at < outage.ends and draw.random() < outage.share:
                status = outage.status
        if status == 200 and draw.random() < 0.002:
            status = 500
        line = self._line(int(at), visitor, request, status, size if status == 200 else 0 if status == 304 else 162, referrer)
        fate = draw.random()
        if fate < 0.003:
            line = self._broken(line)
        elif fate < 0.013:
            self._arrive(at + draw.random() * draw.choice((1, LATEST_SECS)), line)  # a log shipper repeats a line after a lost answer
        self._arrive(at + draw.random() * LATEST_SECS if draw.random() < 0.015 else at, line)

    def _line(self, second: int, visitor: Visitor, request: str, status: int, size: int, referrer: str) -> bytes:
        request_id = f"{self._random.getrandbits(64):016x}"
        return (
            f'{visitor.address} - {visitor.user} [{clock(second)}] "{request}" {status} {size or "-"} '
            f'"{referrer}" "{visitor.agent}" {request_id}\n'
        ).encode()

    def _broken(self, line: bytes) -> bytes:
        draw = self._random
        kind = draw.randrange(3)
        cut = draw.randrange(1, len(line) - 2)
        if kind == 0:
            return line[:cut] + b"\n"  # the disk was full
        if kind == 1:
            return line[:cut] + line  # two processes wrote at once
        return bytes(draw.randrange(128, 256) for _ in range(40)) + line[40:]

    def _heartbeat(self, second: int) -> None:
        """Write the heartbeat of a server, once a minute. It tells readers that no earlier line is missing."""
        server = Visitor("127.0.0.1", "-", HEARTBEAT)
        self._arrive(second + 59.0, self._line(second + 59, server, "OPTIONS * HTTP/1.0", 200, 0, "-"))

    def _arrive(self, at: float, line: bytes) -> None:
        self._arriving[int(at // 60)].append((at, line))


def busy(minute: int) -> float:
    """Return the relative traffic of a minute of the day. It is lowest at 4:00 and highest at 20:00."""
    hour = minute / 60
    return (
        1.0
        + 0.75 * math.sin((hour - 10) / 24 * 2 * math.pi)
        + 0.35 * math.exp(-((hour - 20.5) ** 2) / 3)
        - 0.1 * math.cos(hour * math.pi / 3)
    )


def user_name(number: int) -> str:
    return f"user{number:05}"


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def clock(second: int) -> str:
    """Format a second of the day like an access log."""
    moment = datetime.fromtimestamp(DAY + second, UTC)
    return f"{moment.day:02}/{_MONTHS[moment.month - 1]}/{moment.year}:{moment.hour:02}:{moment.minute:02}:{moment.second:02} +0000"


def write(folder: Path, traffic: Traffic) -> int:
    """Write `access-N.log` for each server, and `users.csv`. Returns the number of lines.

    The load balancer works round robin, so equal positions in the files have equal times. With an uneven load, a reader of all files would
    have to wait longer for the slowest one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users.csv").open("w", encoding="utf-8") as file:
        file.write("user,plan,since\n")
        draw = random.Random(traffic.seed)
        file.writelines(f"{user_name(number)},{draw.choice(PLANS)},{draw.randrange(2015, 2026)}\n" for number in range(traffic.users))
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"access-{number}.log").open("wb")) for number in range(traffic.servers)]
        count = 0
        for line in Day(traffic).lines():
            files[count % len(files)].write(line)
            count += 1
    return count


def in_order(logs: Path) -> Iterator[bytes]:
    """Yield the lines of all logs of a folder in order of arrival."""
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in sorted(logs.glob("access-*.log"))]
        for lines in zip_longest(*files):
            yield from (line.removesuffix(b"\n") for line in lines if line is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the access logs of a day.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=Traffic.lines, help="approximate number of lines (%(default)s)")
    parser.add_argument("--seed", type=int, default=Traffic.seed)
    arguments = parser.parse_args()
    print(f"{write(arguments.folder, Traffic(arguments.lines, arguments.seed)):,} lines")


if __name__ == "__main__":
    main()
