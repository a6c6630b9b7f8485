"""Words per second of the word count over a text, with counts in a dict or in a state.

With a store the state is checkpointed every second. Both bolts count at the same place of the same callback. A run is measured over whole
checkpoint intervals, so that all runs have the same number of checkpoints.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import engine
from bench.macro.burst_components import CountMany, LineBurstSpout, SplitMany
from bench.macro.components import LineSpout
from bench.macro.throughput import MAX_SPOUT_PENDING, add_word_count
from bench.measuring import count_for, rate_figures
from bench.servers import store_url
from bench.texts import standard_library_lines
from engine import Bolt, Burst, Config, StatefulBolt, StatefulBurstBolt, TopologyBuilder, Tuple

NONE = "none"


class DictCount(Bolt):
    """Counts words, or keys, in a dict."""

    def prepare(self) -> None:
        self.counts: dict[str, int] = {}
        self.done = 0

    def execute(self, tup: Tuple) -> None:
        word = tup[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.done += 1
        self.collector.ack(tup)


class StateCount(StatefulBolt):
    """Counts words, or keys, in a state."""

    def prepare(self) -> None:
        self.done = 0

    def init_state(self, state: Any) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup[0]
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.done += 1
        self.collector.ack(tup)


class DictCountMany(CountMany):
    """Counts the words of bursts in a dict."""

    done = 0

    def execute_many(self, burst: Burst) -> None:
        super().execute_many(burst)
        self.done += len(burst)


class StateCountMany(StatefulBurstBolt):
    """Counts the words of bursts in a state."""

    done = 0

    def execute_many(self, burst: Burst) -> None:
        self.state.add_many(burst["word"])
        self.done += len(burst)


class ExactLines(LineSpout):
    """The lines, with their number as the position, and without message ids."""

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit((next(self.lines),))

    def seek(self, position: int | None) -> None:
        self.emitted = position or 0

    def position(self) -> int:
        return self.emitted


class ExactLineBursts(LineBurstSpout):
    """The same, in bursts."""

    seek = ExactLines.seek
    position = ExactLines.position

    def next_tuples(self, limit: int) -> None:
        self.emitted += limit
        self.collector.emit_many([(line,) for line in itertools.islice(self.lines, limit)])


def word_count(counter: Callable[[], Any], *, bursts: bool, exact: bool = False) -> TopologyBuilder:
    """Return a topology of 2 splitters and 4 counters, which take single tuples or bursts. exact: the source can rewind."""
    lines = standard_library_lines()
    builder = TopologyBuilder("word-count")
    source: Callable[..., Any] = (ExactLineBursts if exact else LineBurstSpout) if bursts else ExactLines if exact else LineSpout
    builder.set_spout("lines", lambda: source(itertools.cycle(lines)))
    if bursts:
        builder.set_bolt("split", SplitMany, parallelism=2).shuffle_grouping("lines")
        builder.set_bolt("count", counter, parallelism=4).fields_grouping("split", "word")
    else:
        add_word_count(builder, "lines", counter)
    return builder


async def measure(
    store: str, warm_secs: float, measured_secs: float, *, bursts: bool = False, exact: bool = False
) -> dict[str, float]:
    """Return the rate with a store, or with store "none". exact: each line counts exactly once."""
    counters: list[Any] = []
    in_dict, in_state = (DictCountMany, StateCountMany) if bursts else (DictCount, StateCount)

    def counter() -> Any:
        counters.append(in_dict() if store == NONE else in_state())
        return counters[-1]

    builder = word_count(counter, bursts=bursts, exact=exact)
    with store_url("memory" if store == NONE else store) as url:
        # A source that cannot rewind is told of acks at the checkpoint, so the trees of a second are open. Else few open trees are fastest.
        window: Any = MAX_SPOUT_PENDING if store == NONE or exact else Config().max_spout_pending
        config = Config(max_spout_pending=window, state_provider=url, processing_guarantee="exactly_once" if exact else None)
        async with engine.run(builder.build(), config) as run:
            await asyncio.sleep(warm_secs)
            words, secs = await count_for(measured_secs, lambda: sum(each.done for each in counters))
            checkpoint = run.snapshot().checkpoint
            if store != NONE and (checkpoint is None or checkpoint.committed < measured_secs / 2 or checkpoint.recoveries):
                raise SystemExit(f"{store}: this was no run with a checkpoint every second: {checkpoint}")
            await run.stop()
    return rate_figures(words, secs)
