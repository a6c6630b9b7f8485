"""Time from emit to ack of a stateful word count at a fixed rate, exactly once, with a checkpoint every few seconds.

Each row is due at a fixed time, whatever the topology does. A row is acked when all its words are counted (EO-4).
"""

import asyncio

import engine
from bench.macro.components import Split
from bench.macro.latency import PacedSpout, percentiles_ms
from bench.measuring import count_for
from bench.servers import store_url
from bench.state.word_count import StateCount
from engine import Config, TopologyBuilder


class ExactPacedSpout(PacedSpout):
    """The number of the next row is the position."""

    def seek(self, position: int | None) -> None:
        self.emitted = position or 0

    def position(self) -> int:
        return self.emitted


async def measure(store: str, rate: float, interval_secs: float, measured_secs: float) -> dict[str, float]:
    """Return percentiles over `measured_secs`, which should have several checkpoints."""
    spout = ExactPacedSpout(rate)
    builder = TopologyBuilder("latency")
    builder.set_spout("lines", lambda: spout)
    builder.set_bolt("split", Split).shuffle_grouping("lines")
    builder.set_bolt("count", StateCount, parallelism=2).fields_grouping("split", "word")
    with store_url(store) as url:
        config = Config(state_provider=url, state_checkpoint_interval_ms=round(interval_secs * 1000), processing_guarantee="exactly_once")
        async with engine.run(builder.build(), config) as run:
            await asyncio.sleep(min(2.0, measured_secs))
            del spout.from_emit[:], spout.from_due[:]
            emitted, secs = await count_for(measured_secs, lambda: spout.emitted)
            checkpoint = run.snapshot().checkpoint
            await run.stop()
    if emitted / secs < 0.98 * rate:
        raise SystemExit(f"only {emitted / secs:,.0f} of {rate:,.0f} rows/s were emitted: this machine is too slow or too busy")
    if checkpoint is None or checkpoint.committed < measured_secs / interval_secs - 1 or checkpoint.recoveries:
        raise SystemExit(f"this was no run with a checkpoint every {interval_secs:g} s: {checkpoint}")
    return {
        **percentiles_ms(spout.from_emit, shares=("p50", "p99", "p999")),
        **percentiles_ms(spout.from_due, "due_"),
        "checkpoints": checkpoint.committed,
    }
