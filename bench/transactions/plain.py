"""`python -m bench.transactions.plain WAY`: the global count without transactions, every tuple acked, as JSON. WAY is emit or emit_many."""

import argparse
import asyncio
import time

import engine
from bench.compare.work import print_result
from bench.kafka.job import Tally
from bench.loops import new_event_loop
from bench.transactions.components import PARTIAL_COUNTS, TUPLES, InBursts, OneByOne, PlainGlobalCount, PlainPartialCount
from engine import Config, Topology, TopologyBuilder

WAYS = {"emit": OneByOne, "emit_many": InBursts}


def global_count(tally: Tally, way: str) -> Topology:
    """The topology: as many tuples are open as are in a batch."""
    builder = TopologyBuilder("plain-count")
    builder.set_spout("words", lambda: WAYS[way](tally), max_spout_pending=TUPLES)
    builder.set_bolt("partial", PlainPartialCount, PARTIAL_COUNTS).shuffle_grouping("words")
    builder.set_bolt("total", lambda: PlainGlobalCount(tally)).global_grouping("partial")
    return builder.build()


async def count(topology: Topology, tally: Tally) -> None:
    """Run it to its end, and print the line of JSON."""
    async with engine.run(topology, Config()) as run:
        await run.completed()
        ended_at = time.monotonic()
    if tally.seen <= tally.expected - TUPLES:  # what tasks had not passed on in the end is less
        raise SystemExit(f"{tally.seen:,} tuples of {tally.expected:,} were counted")
    print_result(tally.expected - tally.warm, ended_at - tally.from_at)


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--tuples", type=int, required=True)
    arguments = parser.parse_args()
    tally = Tally(arguments.tuples)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(count(global_count(tally, arguments.way), tally))


if __name__ == "__main__":
    main()
