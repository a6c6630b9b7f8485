"""`python -m bench.compare.unacked_run TUPLES BURST`: nanoseconds per tuple of the bare loop without its ledger, as JSON.

`unacked_loop` is compiled by `bench.compare.bare_loop`, which puts it on the path.
"""

import asyncio
import sys
import time

from unacked_loop import BoltSide, Ring, SpoutSide  # type: ignore[import-not-found]

from bench.compare.work import print_result
from bench.loops import new_event_loop


class Spout:
    """Emits the same value for ever."""

    def __init__(self, collector: SpoutSide) -> None:
        self.collector = collector
        self.values = ("hello",)
        self.emitted = 0

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit(self.values)


class Null:
    """Acks."""

    def __init__(self, collector: BoltSide) -> None:
        self.collector = collector

    def execute(self, tup: object) -> None:
        self.collector.ack(tup)


async def run(tuples: int, burst: int) -> float:
    """Return the seconds that so many tuples take from the spout through the bolt."""
    ring = Ring()
    spout, bolt = Spout(SpoutSide([ring])), Null(BoltSide())
    ring.bind(bolt.execute)
    executed = 0

    async def drive_spout() -> None:
        while spout.emitted < tuples:
            spout.collector.burst(spout.next_tuple, min(burst, tuples - spout.emitted))
            await asyncio.sleep(0)

    async def drive_bolt() -> None:
        nonlocal executed
        while executed < tuples:
            executed += ring.drain(burst)
            await asyncio.sleep(0)

    start = time.perf_counter()
    await asyncio.gather(drive_spout(), drive_bolt())
    return time.perf_counter() - start


def main() -> None:
    """Print one line of JSON."""
    tuples, burst = int(sys.argv[1]), int(sys.argv[2])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        secs = runner.run(run(tuples, burst))
    print_result(tuples, secs)


if __name__ == "__main__":
    main()
