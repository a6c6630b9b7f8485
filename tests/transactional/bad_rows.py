"""Bolts of every form that fail for bad rows, a committer that keeps the others, and a function that reads dead letters."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from engine import BasicBolt, Config, FailTuple, Tuple
from engine.dead_letters import DeadLetter, letters_in
from engine.state import provider_of
from engine.state.codec import MessagePack
from engine.testing import Finished, run_topology
from engine.transactional import (
    BatchBolt,
    BurstBolt,
    Committer,
    MemoryTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)
from engine.transactional.transactional_state import LEDGER

BAD = frozenset({3, 7, 8, 23})
CHECKED: list[tuple[TransactionAttempt, int]] = []


def check(tup: Tuple) -> int:
    """Return the number of a row. Raises for a bad one."""
    number: int = tup["number"]
    CHECKED.append((tup[0], number))
    if number in BAD:
        raise ValueError(f"{number} is bad")
    return number


class Plain(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (check(tup),)


class Yields(BasicBolt):
    """Has emitted a row when it raises."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        if tup["number"] in BAD:
            yield (1_000,)
        yield (check(tup),)


class Refuses(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] in BAD:
            raise FailTuple(f"{tup['number']} is bad")
        return (tup["number"],)


class Waits(BasicBolt):
    output_fields = "number"
    concurrency = 4

    async def execute(self, tup: Tuple) -> tuple[int]:
        await asyncio.sleep(0.01 * (tup["number"] % 3))
        return (check(tup),)


class WaitsAndYields(BasicBolt):
    output_fields = "number"

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int]]:
        await asyncio.sleep(0.01)
        yield (check(tup),)


class InThreads(BasicBolt):
    output_fields = "number"
    threads = 2

    def execute(self, tup: Tuple) -> tuple[int]:
        return (check(tup),)


class Batch(BatchBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> Any:
        self.collector.emit((check(tup),))

    def finish_batch(self) -> None:
        return None


class AsyncBatch(BatchBolt):
    """Emits at the end of the batch."""

    output_fields = "number"

    def prepare(self) -> None:
        self.numbers: list[int] = []

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        self.numbers.append(check(tup))

    async def finish_batch(self) -> None:
        await asyncio.sleep(0.01)
        self.collector.emit_each(self.numbers)


class Bursts(BurstBolt):
    output_fields = "number"
    burst_rows = 4

    def execute_many(self, burst: Any) -> Any:
        for tup in burst:
            self.collector.emit((check(tup),))

    def finish_batch(self) -> None:
        return None


class AsyncBursts(BurstBolt):
    output_fields = "number"
    burst_rows = 3

    async def execute_many(self, burst: Any) -> None:
        await asyncio.sleep(0.01)
        for tup in burst:
            self.collector.emit((check(tup),))

    async def finish_batch(self) -> None:
        await asyncio.sleep(0.01)


class FailsOneOfABurst(BurstBolt):
    output_fields = "number"

    def execute_many(self, burst: Any) -> Any:
        for tup in burst:
            if tup["number"] in BAD:
                burst.fail(tup, f"{tup['number']} is bad")
            self.collector.emit((tup["number"],))

    def finish_batch(self) -> None:
        return None


FORMS = [Plain, Yields, Refuses, Waits, WaitsAndYields, InThreads, Batch, AsyncBatch, Bursts, AsyncBursts, FailsOneOfABurst]


class Stored:
    """What the committer has stored, by txid. A later commit of a txid replaces the one before."""

    def __init__(self) -> None:
        self.by_txid: dict[int, list[int]] = {}
        self.attempts: list[TransactionAttempt] = []

    @property
    def numbers(self) -> Counter[int]:
        return Counter(number for numbers in self.by_txid.values() for number in numbers)


class Keeps(Committer):
    """Stores the numbers of each batch."""

    def __init__(self, stored: Stored, read: Callable[[Tuple], int] = lambda tup: tup["number"]) -> None:
        self.stored, self.read = stored, read
        self.numbers: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.numbers.append(self.read(tup))

    def finish_batch(self) -> None:
        self.stored.by_txid[self.attempt.txid] = [*self.stored.by_txid.get(self.attempt.txid, []), *self.numbers]
        self.stored.attempts.append(self.attempt)


class AwaitsRows(Keeps):
    """A committer with awaited calls."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().execute(tup)


class KeepsBursts(BurstBolt):
    """A committer that gets bursts, the last one at the end of the processing phase."""

    is_committer = True

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.numbers: list[int] = []

    def execute_many(self, burst: Any) -> Any:
        numbers = [check(tup) for tup in burst]
        self.numbers += numbers

    def finish_batch(self) -> None:
        self.stored.by_txid[self.attempt.txid] = self.numbers
        self.stored.attempts.append(self.attempt)


def rows(count: int) -> MemoryTransactionalSpout:
    """Numbers in batches of ten."""
    return MemoryTransactionalSpout([(number,) for number in range(count)], "number", 10)


def through(bolt: Any, stored: Stored, *, tasks: int = 2, spout: Any = None, committer: Any = None) -> Any:
    """Numbers through a bolt into a committer."""
    builder = TransactionalTopologyBuilder("rows", "numbers", spout or rows(30))
    builder.set_bolt("bolt", bolt, tasks).shuffle_grouping("numbers")
    builder.set_committer("keeps", committer or (lambda: Keeps(stored))).shuffle_grouping("bolt")
    return builder.build()


def letters_at(path: Path) -> list[DeadLetter]:
    """Return the stored letters of a topology."""

    async def read() -> list[DeadLetter]:
        async with provider_of(f"sqlite:///{path}").inventory().look("rows") as stored:
            return list(letters_in(await stored.entries(LEDGER)).values())

    return asyncio.run(read())


def play(topology: Any, path: Path, **config: Any) -> Finished:
    """Run a topology to its end in virtual time."""
    return run_topology(topology, Config(state_provider=f"sqlite:///{path}", **config), until=600.0)


def values_of(letters: list[DeadLetter]) -> list[Any]:
    """Return the values of letters."""
    return [MessagePack().decode(letter.row.encoded) for letter in letters if letter.row.encoded is not None]
