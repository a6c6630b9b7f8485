"""Arguments of a wrong type."""

from collections.abc import Iterator
from typing import NamedTuple

from engine import spout
from engine.streams import Flow, Stream, merge


class Click(NamedTuple):
    user: str
    ms: int


class Other:
    def __call__(self, row: str) -> int:
        return len(row)


@spout("user", "ms")
def clicks() -> Iterator[tuple[str, int]]:
    yield "ada", 3


def length(text: str) -> int:
    return len(text)


async def later(click: Click) -> int:
    return click.ms


flow = Flow("bad")
source = flow.stream("clicks", clicks, Click)
source.map(length)  # error: length|"map"
source.map(Other)  # error: Other|"map"
source.flat_map(lambda click: click.ms)  # error: Iterable|int
source.map_async(lambda click: click.ms)  # error: Awaitable|int
source.map(lambda click: click.ms, on_error="dvert")  # error: dvert|divert
source.map(lambda click: click.ms, retrys=3)  # error: retrys
source.key_by("user").map(lambda click: click)  # error: map
source.key_by(lambda click: click.user).reduce(lambda first, second: first.ms)  # error: int|Click
texts: Stream[str] = source.map(lambda click: click.ms)  # error: Stream|Stage
merge(source, "text")  # error: merge|str
source.sink("length", length)  # error: sink
source.sink("other", Other)  # error: sink
source.key_by(lambda click: click.user).count(name="n").key_by("key")  # error: UpdatesReplaceEarlierOnes
