"""Time from emit to ack while checkpoints of 100,000 changed keys are written.

One run has two parts that share only the loop. A spout feeds a stateful bolt with keys at a fixed rate, 100,000 different ones in each
interval. The spout is told of these acks after a checkpoint, so they are not measured. The other part is spout -> id -> null at 1,000
tuples/s, acked at once. Its times from emit to ack and from due to ack are measured during each checkpoint. The *added* time is the
difference to the same load on a bolt that keeps its keys in a dict. This load is measured first.
"""

import asyncio
import time

import engine
from bench.macro.components import Identity, Null
from bench.macro.latency import PacedSpout, percentiles_ms
from bench.servers import store_url
from bench.state.word_count import NONE, DictCount, StateCount
from engine import Config, Fields, Spout, TopologyBuilder

KEYS = 100_000
INTERVAL_SECS = 2.0
RATE = 1000
TICK_SECS = 0.002
LOOK_SECS = 0.005


class KeySpout(Spout):
    """Emits the same KEYS keys evenly in each interval."""

    output_fields = Fields("key")

    def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.started, self.emitted = time.perf_counter(), 0

    def next_tuple(self) -> None:
        due = self.started + self.emitted * INTERVAL_SECS / KEYS
        wait = due - time.perf_counter()
        if wait > 0:
            self.loop.call_later(max(wait, TICK_SECS), self.context.wake)
            return
        self.emitted += 1
        self.collector.emit((f"key {self.emitted % KEYS:012}",), self.emitted)


class WatchedSpout(PacedSpout):
    """Notes the time of each ack."""

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self.acked_at: list[float] = []

    def ack(self, message_id: object) -> None:
        super().ack(message_id)
        self.acked_at.append(time.perf_counter())


async def measure(store: str, measured_secs: float) -> dict[str, float]:
    """Return the figures of a store, and the p99 that the store adds."""
    with store_url(store) as url:
        without = await _run(NONE, "memory://", measured_secs)
        reading = await _run(store, url, measured_secs)
    return {**reading, "added_p99_ms": reading["due_p99_ms"] - without["due_p99_ms"]}


async def _run(store: str, url: str, secs: float) -> dict[str, float]:
    """Return percentiles of tuples that were acked during a checkpoint. Without a store, of all tuples."""
    watched = WatchedSpout(RATE)
    builder = TopologyBuilder("latency")
    builder.set_spout("keys", KeySpout)
    builder.set_bolt("keep", DictCount if store == NONE else StateCount).fields_grouping("keys", "key")
    builder.set_spout("watched", lambda: watched)
    builder.set_bolt("id", Identity).shuffle_grouping("watched")
    builder.set_bolt("null", Null).shuffle_grouping("id")
    config = Config(state_provider=url, state_checkpoint_interval_ms=round(INTERVAL_SECS * 1000))
    async with engine.run(builder.build(), config) as run:
        await asyncio.sleep(1.5 * INTERVAL_SECS)
        began, first = time.perf_counter(), len(watched.acked_at)
        spans = await _checkpoint_spans(run, began + secs) if store != NONE else [(began, began + secs)]
        if store == NONE:
            await asyncio.sleep(secs)
        checkpoint = run.snapshot().checkpoint
        await run.stop()
    keys = checkpoint.last_keys if checkpoint else 0
    if store != NONE and keys < 0.9 * KEYS:
        raise SystemExit(f"the last checkpoint had {keys:,} of {KEYS:,} keys: this machine is too slow or too busy for the rate")
    acked = list(zip(watched.acked_at, watched.from_emit, watched.from_due, strict=True))[first:]
    during = [times for at, *times in acked if any(start <= at and at - times[1] <= end for start, end in spans)]
    if not during:
        raise SystemExit(f"nothing was acked during one of {len(spans)} checkpoints: the figures would mean nothing")
    from_emit, from_due = zip(*during, strict=True)
    return {
        **percentiles_ms(from_emit),
        "max_ms": max(from_emit) * 1000,
        "due_p99_ms": percentiles_ms(from_due)["p99_ms"],
        "acks": len(during),
        "checkpoint_ms": (checkpoint.last_ms or 0.0) if checkpoint else 0.0,
    }


async def _checkpoint_spans(run: engine.Run, until: float) -> list[tuple[float, float]]:
    """Return begin and end of each checkpoint before a time."""
    spans, since = [], 0.0
    while (now := time.perf_counter()) < until or since:
        checkpoint = run.snapshot().checkpoint
        busy = checkpoint is not None and checkpoint.step != "idle"
        if busy and not since:
            since = now - LOOK_SECS
        elif not busy and since:
            spans.append((since, now))
            since = 0.0
        await asyncio.sleep(LOOK_SECS)
    return spans
