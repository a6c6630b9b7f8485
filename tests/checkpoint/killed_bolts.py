"""Bolts of the `killing` topology, in a module that a child process can import. Each of them also takes bursts, or is in processes."""

import os
import signal
from dataclasses import dataclass
from typing import Any, Final

from engine import BasicBolt, Burst, BurstBolt, Fields, StatefulBasicBolt, StatefulBurstBolt, Tuple


class Death:
    """Kills the process of the run when a step is reached for the n-th time. In a child, it counts the steps of this child."""

    def __init__(self, step: str | None, number: int) -> None:
        self.step, self.number = step, number
        self._left = number
        self._pid = os.getpid()

    def arm(self, number: int, flight_secs: float) -> None:
        """Do nothing: topology and provider have their deaths from the start."""

    def at(self, step: str) -> None:
        if step == self.step:
            self._left -= 1
            if self._left <= 0:
                os.kill(self._pid, signal.SIGKILL)


class PassOn(BasicBolt):
    """Passes on a number: a stateless bolt between source and state."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        return tup.values


class PassOnMany(BurstBolt):
    """Does the same in bursts."""

    output_fields = Fields("number")

    def execute_many(self, burst: Burst) -> None:
        for tup in burst:
            self.collector.emit(tup.values, anchors=tup)


class DiesInHooks:
    """Hooks of a stateful bolt with a death."""

    death: Death

    def pre_prepare(self, txid: int) -> None:
        self.death.at("before pre_prepare")
        self.death.at("after pre_prepare")

    def pre_commit(self, txid: int) -> None:
        self.death.at("before pre_commit")
        self.death.at("after pre_commit")


class CountNumbers(DiesInHooks, StatefulBasicBolt):
    """Counts how often each number came."""

    output_fields = Fields("number")

    def __init__(self, death: Death) -> None:
        self.death = death

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        self.state.put(tup["number"], self.state.get(tup["number"], 0) + 1)
        return tup.values


class CountManyNumbers(DiesInHooks, StatefulBurstBolt):
    """Does the same in bursts."""

    output_fields = Fields("number")

    def __init__(self, death: Death) -> None:
        self.death = death

    def execute_many(self, burst: Burst) -> None:
        for tup, number in burst.items("number"):
            self.state.put(number, self.state.get(number, 0) + 1)
            self.collector.emit((number,), anchors=tup)


@dataclass(frozen=True)
class Variant:
    """Classes of the bolts, and those in processes."""

    passes: type[PassOn] | type[PassOnMany] = PassOn
    counts: type[CountNumbers] | type[CountManyNumbers] = CountNumbers
    processes: frozenset[str] = frozenset()


VARIANTS: Final = {
    "plain": Variant(),
    "bursts": Variant(PassOnMany, CountManyNumbers),
    "processes": Variant(processes=frozenset({"pass", "first"})),
    "bursts in processes": Variant(PassOnMany, CountManyNumbers, frozenset({"first", "second"})),
}
"""Variants of the topology by name."""
