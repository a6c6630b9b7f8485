"""`python -m bench.state.large --keys 5000000`: memory of a SQLite state that is larger than its cache, as JSON.

One process puts all keys; another one counts some again, at random; a third reads all of them by `items()`. For each: how many keys a
second, and the most that it had resident at any time (`ru_maxrss`), interpreter and all.
"""

import argparse
import asyncio
import json
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import engine
from bench.child import module_child, run_child
from bench.loops import new_event_loop
from engine import Config, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple

AT_RANDOM = 200_000
READ_ALL = -1


class Numbers(Spout):
    """Emits numbers."""

    output_fields = engine.Fields("number")

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers

    def next_tuple(self) -> None:
        number = next(self.numbers, None)
        if number is None:
            raise SpoutExhausted
        self.collector.emit((number,), number)


class Count(StatefulBasicBolt):
    """Counts each number, as a key of 16 bytes; reads all keys when it is told to."""

    found = 0

    def execute(self, tup: Tuple) -> None:
        if tup[0] == READ_ALL:
            self.found = sum(1 for _ in self.state.items())
            return
        key = f"key {tup[0]:012}"
        self.state.put(key, self.state.get(key, 0) + 1)


async def count(numbers: Iterator[int], folder: Path) -> tuple[float, int]:
    """Run to the end; return the seconds, and how many keys the bolt has read."""
    bolt = Count()
    builder = TopologyBuilder("large")
    builder.set_spout("numbers", lambda: Numbers(numbers))
    builder.set_bolt("count", lambda: bolt).fields_grouping("numbers", "number")
    config = Config(state_provider=f"sqlite:///{folder}/state.db", max_spout_pending=50_000)
    start = time.perf_counter()
    async with engine.run(builder.build(), config) as run:
        await run.completed()
    return time.perf_counter() - start, bolt.found


def step(name: str, keys: int, folder: Path) -> dict[str, float]:
    """Do one step in this process; return its rate and its most memory."""
    draws = random.Random(1)
    steps = {
        "put": (keys, iter(range(keys))),
        "change": (AT_RANDOM, (draws.randrange(keys) for _ in range(AT_RANDOM))),
        "read": (keys, iter([READ_ALL])),
    }
    units, numbers = steps[name]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        secs, found = runner.run(count(numbers, folder))
    if name == "read" and found != keys:
        raise SystemExit(f"{found:,} of {keys:,} keys were found")
    return {f"{name}_per_second": units / secs, f"{name}_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--step", choices=("put", "change", "read"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.step is not None:
        print(json.dumps(step(arguments.step, arguments.keys, arguments.folder)))
        return
    reading: dict[str, float] = {}
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        for name in ("put", "change", "read"):
            arguments_of_step = ("--step", name, "--folder", folder, "--keys", arguments.keys)
            reading |= run_child(module_child("bench.state.large", *arguments_of_step, timeout_secs=600))
    print(json.dumps(reading))


if __name__ == "__main__":
    main()
