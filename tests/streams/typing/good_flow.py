"""Types that a flow infers. Both checkers find no fault, and `assert_type` says what they infer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, assert_type

from engine import BasicBolt, Tuple, bolt, spout
from engine.streams import Failed, Flow, Keyed, KeyedStream, Put, Revised, RevisedStage, RevisedStream, Stage, Stream, json_of, merge
from engine.testing import Capture
from engine.transactional.values import MemoryValues, ReduceInto


class Click(NamedTuple):
    user: str
    page: str
    ms: int


@dataclass
class Visit:
    page: str
    country: str


@spout("user", "page", "ms")
def clicks() -> Iterator[tuple[str, str, int]]:
    yield "ada", "/", 3


@spout("line")
def lines() -> Iterator[tuple[str]]:
    yield ("to be",)


def words(line: str) -> list[str]:
    return line.split()


def is_named(row: str | None) -> TypeGuard[str]:
    return row is not None


class Geo:
    """Finds the country of a click."""

    async def prepare(self) -> None:
        self.country = "fr"

    async def __call__(self, click: Click) -> Visit:
        return Visit(click.page, self.country)


class Length:
    def __call__(self, line: str) -> int:
        return len(line)


class Show:
    def __call__(self, row: Revised[Keyed[str, int]]) -> None:
        print(row.value.key)


async def send(click: Click) -> None:
    print(click.user)


class Upper(BasicBolt):
    output_fields = ("page", "country")

    def execute(self, tup: Tuple) -> tuple[str, str]:
        return tup["row"].page.upper(), "fr"


@bolt()
def keep(tup: Tuple) -> None:
    print(tup["row"])


flow = Flow("typed")
source = flow.stream("clicks", clicks, Click)
assert_type(source, Stage[dict[str, Any], Click])
assert_type(source.map(lambda click: click.ms), Stage[Click, int])
assert_type(source.filter(lambda click: click.ms > 3), Stage[Click, Click])
assert_type(flow.stream("lines", lines, str).flat_map(words), Stage[str, str])
assert_type(flow.stream("more", lines, str).map(Length), Stage[str, int])
assert_type(flow.stream("numbers", lines, str).map(int), Stage[str, int])
assert_type(source.map_async(Geo, concurrency=50, retries=3, on_error="divert", name="geo"), Stage[Click, Visit])
assert_type(source.map_async(Geo, on_error="divert", name="divert").failed, Stream[Failed[Click]])
assert_type(source.key_by("page"), KeyedStream[Any, Click])
assert_type(source.key_by(lambda click: click.page), KeyedStream[str, Click])

by_page = source.key_by(lambda click: click.page)
assert_type(by_page.count(name="counts"), RevisedStage[Click, Keyed[str, int]])
assert_type(by_page.sum(lambda click: click.ms), RevisedStage[Click, Keyed[str, int]])
assert_type(by_page.mean(lambda click: click.ms), RevisedStage[Click, Keyed[str, float]])
assert_type(by_page.max_by(lambda click: click.ms), RevisedStage[Click, Keyed[str, Click]])
assert_type(by_page.collect(), RevisedStage[Click, Keyed[str, list[Click]]])
assert_type(by_page.reduce(lambda first, second: first), RevisedStage[Click, Keyed[str, Click]])

named, unnamed = flow.stream("names", lines, str).map(lambda line: line or None).branch(is_named)
assert_type(named, Stream[str])
assert_type(unnamed, Stream[str | None])
slow, fast = source.branch(lambda click: click.ms > 100)
assert_type(slow, Stream[Click])

assert_type(merge(slow, fast), Stream[Click])
assert_type(source.through(Upper, Visit).map(lambda visit: visit.country), Stage[Visit, str])

source.sink("send", send)
source.sink("keep", keep)
source.sink("upper", Upper)
source.sink("print", print)
source.sink("capture", Capture())
source.sink("lazy", lambda: Upper())
source.sink("lambda", lambda click: print(click.page))
source.sink("fields", Capture(), fields={"page": lambda click: click.page})
source.sink("totals", ReduceInto(MemoryValues("totals"), key="page", value="ms"))
by_page.count(name="put").sink("set", Put(MemoryValues("counts"), key=lambda row: row.value.key, value=lambda row: row.value.value))
source.sink("newest", Put(MemoryValues("newest"), key=lambda click: (click.user, click.page), value=lambda click: click.ms))
by_page.count(name="again").sink("show", Show)
by_page.count(name="revised").sink("lambdas", lambda row: print(row.value.key.upper(), row.revision))
bad = source.map(lambda click: click.page, on_error="divert", name="pages").failed
bad.sink("bad", lambda failed: print(failed.row.page, failed.error))


def busy_pages(stream: Stream[Click]) -> RevisedStream[Keyed[str, int]]:
    """Reuse is a function from a stream to a stream."""
    return stream.filter(lambda click: click.ms > 10).key_by(lambda click: click.page).count(name="busy")


busy_pages(slow).sink("busy", print)
assert_type(json_of(Click)(b"{}"), Click)
