"""`python -m bench.state.word_count STORE --secs 5`: words per second of the word count over a text, with durable counts, as JSON.

STORE is `none` for counts in a dict, `memory`, `sqlite` or `redis` for counts in a state of that store, checkpointed every second. Both
count in the same place of the same callback. A run is measured over whole intervals, so that each has as many checkpoints.
"""

import argparse
import asyncio
import itertools
import time
from typing import Any

import engine
from bench.compare.work import print_result
from bench.loops import new_event_loop
from bench.macro.components import LineSpout, Split
from bench.macro.topologies import MAX_SPOUT_PENDING
from bench.state.stores import STORES, store_url
from bench.texts import standard_library_lines
from engine import Bolt, Config, StatefulBolt, TopologyBuilder, Tuple

NONE = "none"


class DictCount(Bolt):
    """Counts words in a dict."""

    def prepare(self) -> None:
        self.counts: dict[str, int] = {}
        self.done = 0

    def execute(self, tup: Tuple) -> None:
        word = tup[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.done += 1
        self.collector.ack(tup)


class StateCount(StatefulBolt):
    """Counts words in a state."""

    def prepare(self) -> None:
        self.done = 0

    def init_state(self, state: Any) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup[0]
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.done += 1
        self.collector.ack(tup)


async def measure(store: str, config: Config, warm_secs: float, secs: float) -> tuple[int, float]:
    """Return (words, seconds) of the time after the warm-up."""
    counters: list[Any] = []

    def counter() -> Any:
        counters.append(DictCount() if store == NONE else StateCount())
        return counters[-1]

    lines = standard_library_lines()
    builder = TopologyBuilder("word-count")
    builder.set_spout("lines", lambda: LineSpout(itertools.cycle(lines)))
    builder.set_bolt("split", Split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", counter, parallelism=4).fields_grouping("split", "word")
    async with engine.run(builder.build(), config) as run:
        await asyncio.sleep(warm_secs)
        before, start = sum(each.done for each in counters), time.perf_counter()
        await asyncio.sleep(secs)
        words, taken = sum(each.done for each in counters) - before, time.perf_counter() - start
        checkpoint = run.snapshot().checkpoint
        if store != NONE and (checkpoint is None or checkpoint.committed < secs / 2 or checkpoint.recoveries):
            raise SystemExit(f"{store}: this was no run with a checkpoint every second: {checkpoint}")
        await run.stop()
    return words, taken


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=(NONE, *STORES))
    parser.add_argument("--warm-secs", type=float, default=2.0)
    parser.add_argument("--secs", type=float, default=5.0)
    arguments = parser.parse_args()
    with store_url(arguments.store if arguments.store != NONE else "memory") as url, asyncio.Runner(loop_factory=new_event_loop) as runner:
        # The deferral keeps a second of trees open; what keeps none open is fastest with few of them.
        config = Config(max_spout_pending=MAX_SPOUT_PENDING) if arguments.store == NONE else Config(state_provider=url)
        words, secs = runner.run(measure(arguments.store, config, arguments.warm_secs, arguments.secs))
    print_result(words, secs)


if __name__ == "__main__":
    main()
