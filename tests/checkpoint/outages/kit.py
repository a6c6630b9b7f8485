"""An exact topology that runs until it is told to stop, and what is seen of it while its store is away."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

import engine
from engine import Config, Fields, Run, Snapshot, Spout, SpoutExhausted, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, bolt
from engine.metrics import render
from engine.runtime.bottleneck import find_bottleneck
from engine.runtime.metric_families import families
from engine.web import app
from tests.checkpoint.stored_states import read_with_tools
from tests.patience import PATIENCE_SECS

NAME: Final = "outages"
KEYS: Final = 500
PADDING: Final = "x" * 400
"""Part of each value, so that changes need space."""
LOOK_SECS: Final = 0.02


class Numbers(Spout):
    """Emits numbers until it is told to stop. The first one that is missing is `end`."""

    output_fields = Fields("number", "key")
    emitted = 0
    """Numbers that any instance has emitted."""

    def __init__(self) -> None:
        self.stops = False
        self.next = 0

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def next_tuple(self) -> None:
        if self.stops:
            raise SpoutExhausted
        self.emitted += 20
        rows = [(number, number % KEYS) for number in range(self.next, self.next + 20)]
        self.next += 20
        self.collector.emit_many(rows)


class Count(StatefulBasicBolt):
    """Counts the numbers of each key, and passes them on."""

    output_fields = Fields("number", "key")

    def execute(self, tup: Tuple) -> tuple[int, int]:
        number, key = tup.values
        self.state.put(key, [self.state.get(key, [0])[0] + 1, PADDING])
        return number, key


@bolt("number", "key")
async def slowly(tup: Tuple) -> tuple[int, int]:
    await asyncio.sleep(0.0002)
    return tup["number"], tup["key"]


def topology(numbers: Numbers) -> Topology:
    builder = TopologyBuilder(NAME)
    builder.set_spout("numbers", lambda: numbers, max_spout_pending=500)
    builder.set_bolt("pass", slowly, 2, concurrency=20).shuffle_grouping("numbers")
    builder.set_bolt("first", Count, 2).fields_grouping("pass", "key")
    builder.set_bolt("second", Count, 2).fields_grouping("first", "key")
    return builder.build()


async def play(state: str, work: Callable[[Run, Numbers], Awaitable[Any]]) -> Any:
    """Run the topology until `work` returns, then to its end. Return its result. Each number must count once in the store."""
    numbers = Numbers()
    config = Config(state_provider=state, state_checkpoint_interval_ms=20, processing_guarantee="exactly_once", on_error="stop")
    async with asyncio.timeout(6 * PATIENCE_SECS), engine.run(topology(numbers), config) as run:
        result = await work(run, numbers)
        numbers.stops = True
        await run.completed()
    found = await read_with_tools(state, NAME)
    expected = Counter(number % KEYS for number in range(numbers.next))
    for component in ("first", "second"):
        assert {key: value[0] for (each, _, key), value in found.items() if each == component} == expected, component
    return result


async def until(run: Run, holds: Callable[[Snapshot], bool]) -> Snapshot:
    """Return the first snapshot for which this holds."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not holds(now := run.snapshot()):
            assert run.error is None, run.error
            await asyncio.sleep(LOOK_SECS)
    return now


async def commits(run: Run, count: int = 3) -> None:
    """Wait for some more commits."""
    before = run.snapshot().checkpoint.committed
    await until(run, lambda now: now.checkpoint.committed >= before + count)


@dataclass
class Seen:
    """What a run shows of an outage of its store that has lasted some seconds."""

    snapshot: Snapshot
    readiness: tuple[int, str]
    metrics: str
    limit: str
    """The sentence of the page and of `top`."""
    emitted: tuple[int, int]
    """Rows emitted when the outage was noticed, and a few seconds later."""
    ready_again: int
    """Status of `/readyz` after the next commits."""


async def watch_outage(run: Run, numbers: Numbers, begin: Callable[[], None], end: Callable[[], None]) -> Seen:
    """Let the store go away until the run says so everywhere, then let it come back, and wait for commits."""
    await commits(run)
    await asyncio.to_thread(begin)
    await until(run, lambda now: now.checkpoint.trouble is not None)
    emitted = numbers.emitted
    now = await until(run, lambda now: bool(now.waits))
    seen = Seen(now, await readiness(run), render(families(now)), find_bottleneck(None, now).text, (emitted, numbers.emitted), 0)
    await asyncio.to_thread(end)
    await commits(run)
    seen.ready_again, _ = await readiness(run)
    return seen


async def readiness(run: Run) -> tuple[int, str]:
    transport = httpx.ASGITransport(app(run))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/readyz")
        return answer.status_code, answer.json().get("error", "")


def judge(seen: Seen, store: str, trouble: str) -> None:
    """The run waited, said for what, and has gone on."""
    now = seen.snapshot.checkpoint
    assert trouble in now.held
    assert f"waiting for the state store ({store}) for" in seen.readiness[1]
    assert (seen.readiness[0], seen.ready_again) == (503, 200)
    assert f"waiting for the state store ({store}) for" in seen.limit
    assert trouble in seen.limit
    assert f'stormcell_checkpoint_holds_sources{{topology="{NAME}"}} 1' in seen.metrics
    assert f'stormcell_checkpoint_store_away{{topology="{NAME}"}} 1' in seen.metrics
    assert now.since_commit_secs > 4
    assert seen.emitted[0] == seen.emitted[1], "the sources were polled"
