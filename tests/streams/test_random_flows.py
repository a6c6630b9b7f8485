"""Random flows give what a plain computation gives, however their stages are fused, branched and merged."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from engine import Config
from engine.streams import Flow, Stream, merge
from engine.testing import Feeder
from tests.streams.flows import run
from tests.tiers import cases

ROWS = list(range(60))
OPTIONS: list[dict[str, Any]] = [{}, {}, {}, {"parallelism": 2}, {"retries": 1}, {"threads": 1}]


class Grown:
    """A flow that grows at random, with the rows that each of its streams has by a plain computation."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.flow = Flow("random")
        self.feeders: list[Feeder] = []
        self.streams: list[tuple[Stream[int], list[int]]] = []
        self.seen: list[tuple[list[int], list[int]]] = []
        """Rows of each sink, and the expected ones."""

    def add_source(self) -> None:
        feeder = Feeder("number")
        rows = self.random.sample(ROWS, 30)
        feeder.feed_all([(row,) for row in rows])
        feeder.close()
        self.feeders.append(feeder)
        self.streams.append((self.flow.stream(f"source{len(self.feeders)}", feeder, int), rows))

    def add_step(self) -> None:
        stream, rows = self.random.choice(self.streams)
        number, options = self.random.randrange(1, 5), self.random.choice(OPTIONS)
        steps: list[Callable[[], tuple[Stream[int], list[int]]]] = [
            lambda: (stream.map(lambda row: row + number, **options), [row + number for row in rows]),
            lambda: (stream.filter(lambda row: row % (number + 1), **options), [row for row in rows if row % (number + 1)]),
            lambda: (stream.flat_map(lambda row: [row] * (row % 3), **options), [row for row in rows for _ in range(row % 3)]),
            lambda: (stream.map_async(self.later, concurrency=number), rows),
        ]
        self.streams.append(self.random.choice(steps)())

    @staticmethod
    async def later(row: int) -> int:
        return row

    def add_branch(self) -> None:
        stream, rows = self.random.choice(self.streams)
        first, second, rest = stream.branch(lambda row: row % 2 == 0, lambda row: row % 3 == 0)
        self.streams.append((first, [row for row in rows if row % 2 == 0]))
        self.streams.append((second, [row for row in rows if row % 2 and row % 3 == 0]))
        self.streams.append((rest, [row for row in rows if row % 2 and row % 3]))

    def add_merge(self) -> None:
        (one, its_rows), (other, other_rows) = self.random.sample(self.streams, 2) if len(self.streams) > 1 else self.streams * 2
        if one is not other and not self._share(one, other):
            self.streams.append((merge(one, other), its_rows + other_rows))

    def _share(self, one: Stream[int], other: Stream[int]) -> bool:
        """Tell whether a merge would take the rows of one stream twice, which it does not do."""
        return bool(self._parts(one) & self._parts(other))

    def _parts(self, stream: Stream[int]) -> set[Any]:
        waiting, found = [stream._port], set()
        while waiting:
            port = waiting.pop()
            if type(port.node).__name__ == "MergeNode":
                waiting += port.node.inputs
            else:
                found.add(port)
        return found

    def add_sink(self, number: int) -> None:
        stream, rows = self.streams[number]
        seen: list[int] = []
        self.seen.append((seen, rows))
        stream.sink(f"sink{number}", seen.append)


@pytest.mark.guarantee("TF-1", "TF-7")
@pytest.mark.parametrize("seed", range(cases(100)))
def test_a_random_flow_gives_what_a_plain_computation_gives(seed: int) -> None:
    grown = Grown(seed)
    for _ in range(grown.random.randrange(1, 3)):
        grown.add_source()
    for _ in range(grown.random.randrange(1, 9)):
        grown.random.choice([grown.add_step, grown.add_step, grown.add_step, grown.add_branch, grown.add_merge])()
    numbers = {len(grown.streams) - 1, *grown.random.sample(range(len(grown.streams)), min(3, len(grown.streams)))}
    for number in sorted(numbers):
        grown.add_sink(number)
    run(grown.flow, Config(burst=grown.random.choice([1, 7, 256])), seed=seed)
    for seen, expected in grown.seen:
        assert Counter(seen) == Counter(expected)
    for feeder in grown.feeders:
        assert len(feeder.acked) == 30
