"""`python -m bench.state.latency STORE`: emit to ack while checkpoints of 100,000 changed keys are written, as JSON.

One run, two parts that share a loop and nothing else. A spout feeds a stateful bolt with keys at a fixed rate: 100,000 in each interval,
each another one; their acks wait for a checkpoint, so they say nothing. Beside it goes spout -> id -> null at 1,000 tuples/s, acked at
once, whose emit to ack, and due to ack, are measured from the moment a checkpoint begins to its end. What the state *adds* is beside the
same load on a bolt that keeps its keys in a dict, measured first.
"""

import argparse
import asyncio
import json
import time
from typing import Any

import engine
from bench.loops import new_event_loop
from bench.macro.components import Identity, Null
from bench.macro.latency import PacedSpout, percentile
from bench.state.stores import STORES, store_url
from engine import Bolt, Config, Fields, Spout, StatefulBolt, TopologyBuilder, Tuple

KEYS = 100_000
INTERVAL_SECS = 2.0
RATE = 1000
NONE = "none"
TICK_SECS = 0.002


class KeySpout(Spout):
    """Emits KEYS keys in each interval, evenly; then the same again."""

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


class KeepInDict(Bolt):
    """Keeps the last number of each key."""

    def prepare(self) -> None:
        self.values: dict[str, int] = {}

    def execute(self, tup: Tuple) -> None:
        self.values[tup[0]] = self.values.get(tup[0], 0) + 1
        self.collector.ack(tup)


class KeepInState(StatefulBolt):
    """The same in a state."""

    def init_state(self, state: Any) -> None:
        self.values = state

    def execute(self, tup: Tuple) -> None:
        self.values.put(tup[0], self.values.get(tup[0], 0) + 1)
        self.collector.ack(tup)


class WatchedSpout(PacedSpout):
    """Notes when each tuple was acked."""

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self.acked_at: list[float] = []

    def ack(self, message_id: object) -> None:
        super().ack(message_id)
        self.acked_at.append(time.perf_counter())


async def measure(store: str, url: str, secs: float) -> dict[str, float]:
    """Run it; return percentiles in ms, over what was acked while a checkpoint was under way (`none`: over all)."""
    watched = WatchedSpout(RATE)
    builder = TopologyBuilder("latency")
    builder.set_spout("keys", KeySpout)
    builder.set_bolt("keep", KeepInDict if store == NONE else KeepInState).fields_grouping("keys", "key")
    builder.set_spout("watched", lambda: watched)
    builder.set_bolt("id", Identity).shuffle_grouping("watched")
    builder.set_bolt("null", Null).shuffle_grouping("id")
    config = Config(state_provider=url, state_checkpoint_interval_ms=round(INTERVAL_SECS * 1000))
    async with engine.run(builder.build(), config) as run:
        await asyncio.sleep(1.5 * INTERVAL_SECS)
        began, first = time.perf_counter(), len(watched.acked_at)
        spans = await _checkpoints(run, began + secs) if store != NONE else [(began, began + secs)]
        if store == NONE:
            await asyncio.sleep(secs)
        snapshot = run.snapshot()
        await run.stop()
    acked = list(zip(watched.acked_at, watched.from_emit, watched.from_due, strict=True))[first:]
    during = [times for at, *times in acked if any(start <= at and at - times[1] <= end for start, end in spans)]
    if not during:
        raise SystemExit(f"nothing was acked while one of {len(spans)} checkpoints was under way: the figures would mean nothing")
    from_emit, from_due = (sorted(times) for times in zip(*during, strict=True))
    checkpoint = snapshot.checkpoint
    if store != NONE and (checkpoint is None or checkpoint.last_keys < 0.9 * KEYS):
        raise SystemExit(f"a checkpoint did not have {KEYS:,} keys: {checkpoint}")
    return {
        "p50_ms": percentile(from_emit, 0.50) * 1000,
        "p99_ms": percentile(from_emit, 0.99) * 1000,
        "max_ms": from_emit[-1] * 1000,
        "due_p99_ms": percentile(from_due, 0.99) * 1000,
        "acks": len(during),
        "checkpoint_ms": (checkpoint.last_ms or 0.0) if checkpoint else 0.0,
    }


async def _checkpoints(run: engine.Run, until: float) -> list[tuple[float, float]]:
    """When checkpoints were under way."""
    spans, since = [], 0.0
    while (now := time.perf_counter()) < until or since:
        checkpoint = run.snapshot().checkpoint
        busy = checkpoint is not None and checkpoint.step != "idle"
        if busy and not since:
            since = now - 0.005
        elif not busy and since:
            spans.append((since, now))
            since = 0.0
        await asyncio.sleep(0.005)
    return spans


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=STORES)
    parser.add_argument("--secs", type=float, default=10.0)
    arguments = parser.parse_args()
    with store_url(arguments.store) as url, asyncio.Runner(loop_factory=new_event_loop) as runner:
        without = runner.run(measure(NONE, "memory://", arguments.secs))
        reading = runner.run(measure(arguments.store, url, arguments.secs))
    print(json.dumps(reading | {"added_p99_ms": reading["due_p99_ms"] - without["due_p99_ms"]}))


if __name__ == "__main__":
    main()
