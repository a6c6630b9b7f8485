"""Time from emit to ack of spout -> id -> null at a fixed rate.

It is an open loop, so every tuple has a due time, whatever the topology does. A late tuple is emitted at once, and no tuple is left out. A
timer of 1 ms wakes the spout, so about ten tuples are emitted together at 10,000 tuples/s. Time is taken from the call of `emit` to the
call of `ack`, and from the due time, which adds the wait for the timer.
"""

import asyncio
import time
from array import array
from collections.abc import Sequence

import engine
from bench.macro.components import Identity, Null
from bench.measuring import count_for, percentile
from bench.texts import SENTENCE
from engine import Config, Fields, Spout, TopologyBuilder

TICK_SECS = 0.001


class PacedSpout(Spout):
    """Emits a tuple when it is due. Notes the seconds from emit to ack and from due to ack."""

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


def percentiles_ms(secs: Sequence[float], prefix: str = "", shares: Sequence[str] = ("p50", "p99")) -> dict[str, float]:
    """Return percentiles, such as "p50", in milliseconds."""
    ordered = sorted(secs)
    return {f"{prefix}{share}_ms": percentile(ordered, float(f"0.{share[1:]}")) * 1000 for share in shares}


async def measure(rate: float, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return percentiles of the time after the warm-up."""
    spout = PacedSpout(rate)
    builder = TopologyBuilder("latency")
    builder.set_spout("spout", lambda: spout)
    builder.set_bolt("id", Identity).shuffle_grouping("spout")
    builder.set_bolt("null", Null).shuffle_grouping("id")
    async with engine.run(builder.build(), Config()) as run:
        await asyncio.sleep(warm_secs)
        del spout.from_emit[:], spout.from_due[:]
        emitted, secs = await count_for(measured_secs, lambda: spout.emitted)
        await run.stop()
    if emitted / secs < 0.98 * rate:
        raise SystemExit(
            f"only {emitted / secs:,.0f} of {rate:,.0f} tuples/s were emitted: this machine is too slow or too busy for the rate"
        )
    return {
        **percentiles_ms(spout.from_emit, shares=("p50", "p99", "p999")),
        **percentiles_ms(spout.from_due, "due_"),
        "per_second": emitted / secs,
        "acks": len(spout.from_emit),
    }
