"""Memory of a SQLite state that is larger than its cache.

One process puts all keys, a second one updates some keys at random, and a third one reads all keys by `items()`. Each reports keys per
second, and its peak resident memory (`ru_maxrss`) with the interpreter.
"""

import random
import resource
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import engine
from bench.process import call_in_process
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
    """Counts each number with a key of 16 bytes. Reads all keys for the number `READ_ALL`."""

    found = 0

    def execute(self, tup: Tuple) -> None:
        if tup[0] == READ_ALL:
            self.found = sum(1 for _ in self.state.items())
            return
        key = f"key {tup[0]:012}"
        self.state.put(key, self.state.get(key, 0) + 1)


def measure(keys: int) -> dict[str, float]:
    """Run each step in its own process."""
    reading: dict[str, float] = {}
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        for step in ("put", "change", "read"):
            arguments = {"step": step, "keys": keys, "folder": folder}
            figures = call_in_process("bench.state.large:measure_step", arguments, timeout_secs=600)
            reading |= {f"{step}_{key}": value for key, value in figures.items()}
    return reading


async def measure_step(step: str, keys: int, folder: str) -> dict[str, float]:
    """Run one step. Return its rate and its peak memory."""
    draws, bolt = random.Random(1), Count()
    units, numbers = {
        "put": (keys, iter(range(keys))),
        "change": (AT_RANDOM, (draws.randrange(keys) for _ in range(AT_RANDOM))),
        "read": (keys, iter([READ_ALL])),
    }[step]
    builder = TopologyBuilder("large")
    builder.set_spout("numbers", lambda: Numbers(numbers))
    builder.set_bolt("count", lambda: bolt).fields_grouping("numbers", "number")
    start = time.perf_counter()
    async with engine.run(builder.build(), Config(state_provider=f"sqlite:///{folder}/state.db", max_spout_pending=50_000)) as run:
        await run.completed()
    secs = time.perf_counter() - start
    if step == "read" and bolt.found != keys:
        raise SystemExit(f"{bolt.found:,} of {keys:,} keys were found")
    return {"per_second": units / secs, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
