"""Bolts of a member, in a module that a child process can import. Each of them also takes bursts."""

import asyncio
import random
from typing import Any, Final

import engine
from engine import Bolt, Burst, BurstBolt, StatefulBasicBolt, StatefulBurstBolt, Tuple
from tests.checkpoint.killed_bolts import Death
from tests.kafka.torture.journal import Journal
from tests.kafka.torture.member_spec import MemberSpec

SLOW_SECS: Final = 2.5
STRETCH: Final = 700
"""Length of stretches of numbers. Every second one has slow numbers, so some rebalances can drain and others cannot."""
RAISING_SHARE: Final = 0.5
"""Share of the failures in bursts that raise."""


class Works:
    """The end of each emission, in all forms of the bolt that works."""

    def __init__(self, spec: MemberSpec, journal: Journal, death: Death) -> None:
        self.spec, self.journal, self.death = spec, journal, death
        self.draws = random.Random(spec.seed)

    def is_slow(self, number: int) -> bool:
        """Draw whether this number takes longer than a revoke waits."""
        return number // STRETCH % 2 == 1 and self.draws.random() < self.spec.slow_share

    def has_failed(self, emission: int, number: int) -> bool:
        """Draw whether this emission fails, and write it down."""
        if number != self.spec.poison and self.draws.random() >= self.spec.fail_share:
            return False
        self.journal.write("f", emission)
        return True


class Work(Works, Bolt):
    """Waits for a random time with each record, and fails some."""

    concurrency = 64

    async def execute(self, tup: Tuple) -> None:
        emission, number = tup.values
        await asyncio.sleep(SLOW_SECS if self.is_slow(number) else self.draws.expovariate(100))
        if self.has_failed(emission, number):
            self.collector.fail(tup)
            return
        self.death.at("before done")
        self.journal.write("d", emission)
        self.collector.ack(tup)
        self.death.at("after ack")


class WorkMany(Works, BurstBolt):
    """Waits for a random time with each burst, and settles it in random order. Some bursts raise in the middle."""

    async def execute_many(self, burst: Burst) -> None:
        is_slow = any(self.is_slow(number) for number in burst["number"][:1])  # it takes one burst at a time, so fewer are slow
        await asyncio.sleep(SLOW_SECS if is_slow else self.draws.expovariate(1000))
        for tup in self.draws.sample(list(burst), len(burst)):
            emission, number = tup.values
            if self.has_failed(emission, number):
                if self.draws.random() < RAISING_SHARE:
                    raise engine.FailTuple
                burst.fail(tup)
                continue
            self.death.at("before done")
            self.journal.write("d", emission)
            burst.ack(tup)
            self.death.at("after ack")


class Counts:
    """A stateful bolt that writes a journal."""

    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self.spec, self.journal = spec, journal
        self.draws = random.Random(spec.seed)

    def count(self, state: Any, number: int) -> None:
        """Count a number, or fail it."""
        if self.draws.random() < self.spec.fail_share:
            raise engine.FailTuple
        state.put(number, state.get(number, 0) + 1)


class CountNumbers(Counts, StatefulBasicBolt):
    """Counts how often each number came."""

    def execute(self, tup: Tuple) -> None:
        emission, number = tup.values
        self.count(self.state, number)
        self.journal.write("d", emission)


class CountManyNumbers(Counts, StatefulBurstBolt):
    """Does the same in bursts. A failed number undoes the counts of its burst, and all of them run again."""

    def execute_many(self, burst: Burst) -> None:
        for number in burst["number"]:
            self.count(self.state, number)
        for emission in burst["emission"]:
            self.journal.write("d", emission)
