"""`python -m bench.transactions.batches STORE`: the global count in batches of so many tuples, as JSON: nanoseconds per tuple or per batch.

The clock runs from the commit with which a tenth is done to the end of the run.
"""

import argparse
import asyncio
import time

import engine
from bench.compare.work import print_result
from bench.kafka.job import Tally
from bench.loops import new_event_loop
from bench.transactions.components import PARTIAL_COUNTS, TUPLES, WORD, GlobalCount, PartialCount, WaitingCount
from bench.transactions.ledgers import LEDGERS, ledger_url
from engine import Config, Topology
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder


def global_count(tally: Tally, take: int, pending: int, *, waits: bool) -> Topology:
    """The topology: `take` tuples in a batch, `pending` batches at once."""
    spout = MemoryTransactionalSpout([WORD] * tally.expected, "word", take)
    builder = TransactionalTopologyBuilder("global-count", "words", spout, max_spout_pending=pending)
    builder.set_bolt("partial", WaitingCount if waits else PartialCount, PARTIAL_COUNTS).shuffle_grouping("words")
    builder.set_committer("total", lambda: GlobalCount(tally)).global_grouping("partial")
    return builder.build()


async def count(topology: Topology, config: Config, tally: Tally) -> None:
    """Run it to its end, and print the line of JSON."""
    async with engine.run(topology, config) as run:
        await run.completed()
        ended_at = time.monotonic()
    if tally.seen != tally.expected:
        raise SystemExit(f"{tally.seen:,} tuples of {tally.expected:,} were counted")
    print_result(tally.expected - tally.warm, ended_at - tally.from_at)


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=LEDGERS)
    parser.add_argument("--tuples", type=int, required=True)
    parser.add_argument("--take", type=int, default=TUPLES)
    parser.add_argument("--pending", type=int, required=True)
    parser.add_argument("--waits", action="store_true")
    arguments = parser.parse_args()
    tally = Tally(arguments.tuples)
    topology = global_count(tally, arguments.take, arguments.pending, waits=arguments.waits)
    with ledger_url(arguments.store) as url, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(count(topology, Config(state_provider=url), tally))


if __name__ == "__main__":
    main()
