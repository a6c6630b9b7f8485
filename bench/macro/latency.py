"""`python -m bench.macro.latency --rate 10000 --secs 5`: emit to ack of spout -> id -> null at a fixed rate, as JSON.

Open loop: every tuple has a due time, so many a second whatever the topology does; a late one is emitted at once, none is left
out. A timer of 1 ms wakes the spout, which emits all that is due: about ten at 10,000 tuples/s, and the process sleeps in
between. Two figures: from the call of `emit` to the call of `ack`, and from the due time, which adds the wait for the timer.
"""

import argparse
import asyncio
import json
import time
from array import array

import engine
from bench.compare.work import SENTENCE
from bench.loops import new_event_loop
from bench.macro.components import Identity, Null
from engine import Config, Fields, Spout, TopologyBuilder

TICK_SECS = 0.001


class PacedSpout(Spout):
    """Emits what is due; notes when each tuple was due, emitted and acked."""

    output_fields = Fields("value")

    def __init__(self, rate: float) -> None:
        self.interval = 1 / rate
        self.emitted = 0
        self.started = 0.0
        self.from_emit, self.from_due = array("d"), array("d")

    def open(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.started = time.perf_counter()

    def next_tuple(self) -> None:
        now = time.perf_counter()
        due = self.started + self.emitted * self.interval
        if now < due:
            self.loop.call_later(max(due - now, TICK_SECS), self.context.wake)
            return
        self.emitted += 1
        self.collector.emit((SENTENCE,), (due, now))

    def ack(self, message_id: object) -> None:
        assert isinstance(message_id, tuple)
        due, emitted = message_id
        now = time.perf_counter()
        self.from_emit.append(now - emitted)
        self.from_due.append(now - due)


def percentile(sorted_values: list[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    return sorted_values[min(int(share * len(sorted_values)), len(sorted_values) - 1)]


async def measure(spout: PacedSpout, warm_secs: float, secs: float) -> float:
    """Run the spout warm, then for the measured time; return the rate that was reached."""
    builder = TopologyBuilder("latency")
    builder.set_spout("spout", lambda: spout)
    builder.set_bolt("id", Identity).shuffle_grouping("spout")
    builder.set_bolt("null", Null).shuffle_grouping("id")
    async with engine.run(builder.build(), Config()) as run:
        await asyncio.sleep(warm_secs)
        del spout.from_emit[:], spout.from_due[:]
        before, start = spout.emitted, time.perf_counter()
        await asyncio.sleep(secs)
        rate = (spout.emitted - before) / (time.perf_counter() - start)
        await run.stop()
    return rate


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--warm-secs", type=float, default=1.0)
    parser.add_argument("--secs", type=float, default=5.0)
    arguments = parser.parse_args()
    spout = PacedSpout(arguments.rate)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        rate = runner.run(measure(spout, arguments.warm_secs, arguments.secs))
    from_emit, from_due = sorted(spout.from_emit), sorted(spout.from_due)
    if rate < 0.98 * arguments.rate:
        raise SystemExit(f"only {rate:,.0f} of {arguments.rate:,.0f} tuples/s were emitted: the figures would mean nothing")
    reading = {
        "p50_ms": percentile(from_emit, 0.50) * 1000,
        "p99_ms": percentile(from_emit, 0.99) * 1000,
        "p999_ms": percentile(from_emit, 0.999) * 1000,
        "due_p50_ms": percentile(from_due, 0.50) * 1000,
        "due_p99_ms": percentile(from_due, 0.99) * 1000,
        "per_second": rate,
        "acks": len(from_emit),
    }
    print(json.dumps(reading))


if __name__ == "__main__":
    main()
