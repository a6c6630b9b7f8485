"""Rate of an async bolt whose calls wait for 200 ms, 100 at once, in front of a stateful bolt, with checkpoints every second or without.

A barrier waits for the calls before it. Meanwhile the bolt must not stand still.
"""

import asyncio

import engine
from bench.measuring import count_for, rate_figures
from bench.servers import store_url
from bench.state.word_count import NONE, DictCount, StateCount
from engine import Config, Fields, Spout, TopologyBuilder, Tuple, bolt

WAIT_SECS = 0.2
AT_ONCE = 100


class Numbers(Spout):
    """Emits numbers."""

    output_fields = Fields("number")

    def __init__(self) -> None:
        self.next = 0

    def next_tuple(self) -> None:
        self.next += 1
        self.collector.emit((self.next % 1000,), self.next)


class ExactNumbers(Numbers):
    """The number is the position."""

    def next_tuple(self) -> None:
        self.next += 1
        self.collector.emit((self.next % 1000,))

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next


@bolt("number")
async def fetched(tup: Tuple) -> tuple[int]:
    """Wait for an answer of something slow."""
    await asyncio.sleep(WAIT_SECS)
    return (tup["number"],)


async def measure(store: str, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the rate of the bolt."""
    counters: list[DictCount | StateCount] = []

    def counter() -> DictCount | StateCount:
        counters.append(DictCount() if store == NONE else StateCount())
        return counters[-1]

    builder = TopologyBuilder("awaited")
    builder.set_spout("numbers", Numbers if store == NONE else ExactNumbers, max_spout_pending=4 * AT_ONCE)
    builder.set_bolt("fetch", fetched, concurrency=AT_ONCE).shuffle_grouping("numbers")
    builder.set_bolt("count", counter).fields_grouping("fetch", "number")
    with store_url("memory" if store == NONE else store) as url:
        async with engine.run(builder.build(), Config(state_provider=url)) as run:
            await asyncio.sleep(warm_secs)
            rows, secs = await count_for(measured_secs, lambda: sum(each.done for each in counters))
            checkpoint = run.snapshot().checkpoint
            await run.stop()
    if store != NONE and (checkpoint is None or checkpoint.committed < measured_secs / 2 or checkpoint.recoveries):
        raise SystemExit(f"this was no run with a checkpoint every second: {checkpoint}")
    return rate_figures(rows, secs)
