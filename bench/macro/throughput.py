"""Rate of a topology that runs forever, after a warm-up.

The components count, and the count is read at two times. The spout never tests for an end, so its callback equals that of the bare loop.
`max_spout_pending` also equals that of the bare loop, because more open trees only need more of the processor's cache.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import engine
from bench.macro.burst_components import ConstBurstSpout, CountMany, IdentityMany, NullMany, SplitMany, UntrackedBurstSpout
from bench.macro.components import ConstSpout, Count, Identity, Null, Split, UntrackedSpout
from bench.measuring import count_for, rate_figures
from bench.texts import SENTENCE, WORDS_PER_SENTENCE
from engine import Config, TopologyBuilder

MAX_SPOUT_PENDING = 1000
FAN_OUT = 10


async def measure(work: str, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the rate of a work."""
    builder = TopologyBuilder(work)
    done = WORKS[work](builder)
    config = Config(acker_executors=0) if work.startswith("un-acked") else Config(max_spout_pending=MAX_SPOUT_PENDING)
    async with engine.run(builder.build(), config) as run:
        await asyncio.sleep(warm_secs)
        units, secs = await count_for(measured_secs, done)
        await run.stop()
    return rate_figures(units, secs)


def add_word_count(builder: TopologyBuilder, source: str, counter: Callable[[], engine.Bolt]) -> None:
    """Add 2 splitters and 4 counters behind a spout of lines."""
    builder.set_bolt("split", Split, parallelism=2).shuffle_grouping(source)
    builder.set_bolt("count", counter, parallelism=4).fields_grouping("split", "word")


def _const_null(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstSpout(("hello",)))
    builder.set_bolt("null", Null).shuffle_grouping("spout")
    return lambda: spout.acked


def _const_id_null(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstSpout(("hello",)))
    builder.set_bolt("id", Identity).shuffle_grouping("spout")
    builder.set_bolt("null", Null).shuffle_grouping("id")
    return lambda: spout.acked


def _un_acked(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, UntrackedSpout(("hello",)))
    builder.set_bolt("null", Null).shuffle_grouping("spout")
    return lambda: spout.emitted


def _fan_out(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstSpout(("hello",)))
    builder.set_bolt("null", Null, parallelism=FAN_OUT).all_grouping("spout")
    return lambda: spout.acked * FAN_OUT


def _word_count(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstSpout((SENTENCE,)))
    add_word_count(builder, "spout", Count)
    return lambda: spout.acked * WORDS_PER_SENTENCE


def _const_null_bursts(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstBurstSpout(("hello",)))
    builder.set_bolt("null", NullMany).shuffle_grouping("spout")
    return lambda: spout.acked


def _const_id_null_bursts(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstBurstSpout(("hello",)))
    builder.set_bolt("id", IdentityMany).shuffle_grouping("spout")
    builder.set_bolt("null", NullMany).shuffle_grouping("id")
    return lambda: spout.acked


def _un_acked_bursts(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, UntrackedBurstSpout(("hello",)))
    builder.set_bolt("null", NullMany).shuffle_grouping("spout")
    return lambda: spout.emitted


def _word_count_bursts(builder: TopologyBuilder) -> Callable[[], int]:
    spout = _add_spout(builder, ConstBurstSpout((SENTENCE,)))
    builder.set_bolt("split", SplitMany, parallelism=2).shuffle_grouping("spout")
    builder.set_bolt("count", CountMany, parallelism=4).fields_grouping("split", "word")
    return lambda: spout.acked * WORDS_PER_SENTENCE


S = TypeVar("S", ConstSpout, ConstBurstSpout)


def _add_spout(builder: TopologyBuilder, spout: S) -> S:
    builder.set_spout("spout", lambda: spout)
    return spout


WORKS = {
    "const-null": _const_null,
    "const-id-null": _const_id_null,
    "un-acked": _un_acked,
    "fan-out": _fan_out,
    "word-count": _word_count,
    "const-null-bursts": _const_null_bursts,
    "const-id-null-bursts": _const_id_null_bursts,
    "un-acked-bursts": _un_acked_bursts,
    "word-count-bursts": _word_count_bursts,
}
"""Each function adds the components of a topology, and returns the function that counts units."""
