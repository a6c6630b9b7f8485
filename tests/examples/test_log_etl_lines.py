"""examples/log_etl without engine and Spark. Tests cover generated logs, parsed lines and the plain computation."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.examples.log_etl import access_log, plain, traffic

CHARACTERS = ' "-[]:/0a9Z.+?é\u0663\n\r\t\x85'
GOOD = (
    '23.16.113.7 - user00042 [02/Mar/2026:08:06:53 +0000] "GET /product/mug-3?ref=mail HTTP/1.1" 200 5123 "-" '
    '"Mozilla/5.0 (iPhone) Mobile" 61f0a2b8c94d7e35'
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    traffic.write(folder, traffic.Traffic(lines=20_000, seed=3))
    return folder


def arrived(seed: int = 3) -> list[str]:
    return [line.decode(errors="replace").removesuffix("\n") for line in traffic.Day(traffic.Traffic(20_000, seed)).lines()]


# Lines


def test_a_line_becomes_a_row() -> None:
    moment = datetime(2026, 3, 2, 8, 6, 53, tzinfo=UTC)
    assert access_log.parse(GOOD) == (
        "61f0a2b8c94d7e35",
        int(moment.timestamp()) * 1_000_000,
        "user00042",
        "US",
        "phone",
        "product",
        "/product/mug-3",
        200,
        5123,
    )
    assert len(access_log.SCHEMA) == len(access_log.parse(GOOD))


@pytest.mark.parametrize(
    ("was", "now", "column", "value"),
    [
        ("user00042", "-", "visitor", "23.16.113.7"),
        ("23.16.", "192.0.", "country", "--"),
        ("200 5123", "304 -", "bytes", 0),
        ("/product/mug-3?ref=mail", "/", "section", "home"),
        ("/product/mug-3?ref=mail", "/robots.txt", "section", "other"),
        ("(iPhone) Mobile", "(compatible; SearchBot)", "agent", "bot"),
        ("(iPhone) Mobile", "(X11)", "agent", "computer"),
        ("Mozilla/5.0 (iPhone) Mobile", traffic.HEARTBEAT, "agent", "heartbeat"),
    ],
)
def test_parsed_columns_of_a_line(was: str, now: str, column: str, value: object) -> None:
    row = access_log.parse(GOOD.replace(was, now))
    assert row is not None
    assert dict(zip(access_log.SCHEMA, row, strict=True))[column] == value


def test_the_time_zone_of_a_line_is_used() -> None:
    east, utc = access_log.parse(GOOD.replace("+0000", "+0530")), access_log.parse(GOOD)
    assert utc[1] - east[1] == timedelta(hours=5, minutes=30) / timedelta(microseconds=1)


@pytest.mark.parametrize(
    "line", ["", GOOD[:-1], GOOD + " ", GOOD[:70] + GOOD, GOOD.replace("02/Mar", "30/Feb"), GOOD.replace(" 200 ", " 20 ")]
)
def test_an_invalid_line_is_none(line: str) -> None:
    assert access_log.parse(line) is None
    assert plain.take_apart(line) is None


def test_the_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MOST_REMEMBERED", 10)
    for number in range(100):
        access_log.parse(GOOD.replace("mug-3", f"mug-{number}"))
    assert len(access_log._pages) <= 10


@pytest.mark.parametrize("seed", range(3))
def test_the_fast_and_the_slow_parser_agree_on_any_line(seed: int) -> None:
    draw = random.Random(seed)
    lines = arrived(seed)
    for line in (*lines[:2_000], *(mutated(draw, line) for line in draw.sample(lines, 3_000))):
        request, row = plain.take_apart(line), access_log.parse(line)
        expected = None if request is None else (request[0], round(request.time.timestamp()) * 1_000_000, *request[2:])
        assert row == expected, line


def mutated(draw: random.Random, line: str) -> str:
    characters = list(line)
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(characters) + 1)
        characters[at : at + draw.randrange(2)] = draw.choice(("", *CHARACTERS))
    return "".join(characters)


# Days


def test_a_seed_makes_the_same_day(logs: Path, tmp_path: Path) -> None:
    traffic.write(tmp_path, traffic.Traffic(lines=20_000, seed=3))
    names = sorted(path.name for path in logs.iterdir())
    assert names == [*(f"access-{number}.log" for number in range(4)), "users.csv"]
    assert all((logs / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)
    assert arrived(4) != arrived(3)


def test_the_number_of_lines_is_about_the_requested_one() -> None:
    assert 19_000 < len(arrived()) < 21_000


def test_lines_are_late_but_within_the_documented_limit() -> None:
    times = [request.time for line in arrived() if (request := plain.take_apart(line)) is not None]
    newest, latest = times[0], timedelta()
    for time in times:
        newest = max(newest, time)
        latest = max(latest, newest - time)
    assert timedelta(minutes=1) < latest <= timedelta(seconds=traffic.LATEST_SECS)


def test_some_lines_are_duplicates_and_some_are_invalid() -> None:
    lines = arrived()
    requests = [request for line in lines if (request := plain.take_apart(line)) is not None]
    times = Counter(request.request_id for request in requests)
    assert 20 < len(lines) - len(requests) < 200
    assert 50 < sum(times.values()) - len(times) < 500


def test_heartbeats_continue_after_the_last_visit() -> None:
    requests = [request for line in arrived() if (request := plain.take_apart(line)) is not None]
    beats = [request.time for request in requests if request.agent == "heartbeat"]
    last_visit = max(request.time for request in requests if request.agent != "heartbeat")
    assert beats == sorted(set(beats))
    assert len(beats) == 25 * 60
    assert beats[-1] - last_visit > timedelta(minutes=45), "by then the longest session is closed, and all late lines have arrived"


def test_all_requests_are_of_the_same_day() -> None:
    requests = [request for line in arrived() if (request := plain.take_apart(line)) is not None]
    assert {request.time.date() for request in requests if request.agent != "heartbeat"} == {datetime(2026, 3, 2).date()}


def test_there_are_more_requests_in_the_evening_than_at_night() -> None:
    hours = Counter(request.time.hour for line in arrived() if (request := plain.take_apart(line)) is not None)
    assert hours[20] > 4 * hours[4]


# Tables


def test_the_plain_tables_count_every_request_once(logs: Path) -> None:
    tables = plain.compute(logs)
    requests = {request.request_id: request for line in arrived() if (request := plain.take_apart(line)) is not None}
    visits = [request for request in requests.values() if request.agent != "heartbeat"]
    assert tables.lines - tables.broken - tables.duplicates == len(requests)
    assert [sum(column) for column in zip(*tables.traffic.values(), strict=True)] == [
        len(visits),
        sum(request.agent == "bot" for request in visits),
        sum(400 <= request.status <= 499 for request in visits),
        sum(request.status >= 500 for request in visits),
        sum(request.bytes for request in visits),
    ]
    assert sum(row[2] for row in tables.sessions.values()) == sum(request.agent != "bot" for request in visits)


def test_a_session_ends_after_half_an_hour_without_requests(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user,plan,since\nuser00042,plus,2020\n")
    clocks = ("08:00:00", "08:30:00", "09:00:01", "08:59:00", "09:31:00", "09:31:00")
    lines = [GOOD.replace("08:06:53", clock).replace("61f0", f"61f{number}") for number, clock in enumerate(clocks)]
    (tmp_path / "access-0.log").write_text("\n".join([*lines, lines[0], "broken"]))

    def at(clock: str) -> datetime:
        return datetime.fromisoformat(f"2026-03-02T{clock}+00:00")

    tables = plain.compute(tmp_path)
    assert (tables.lines, tables.broken, tables.duplicates) == (8, 1, 1)
    assert tables.sessions == {
        ("user00042", "US", at("08:00:00")): ("plus", at("09:00:01"), 4, 4 * 5123),
        ("user00042", "US", at("09:31:00")): ("plus", at("09:31:00"), 2, 2 * 5123),
    }
    assert tables.pages == {
        (at("08:00:00"), "product", "/product/mug-3"): (3,),
        (at("09:00:00"), "product", "/product/mug-3"): (3,),
    }
