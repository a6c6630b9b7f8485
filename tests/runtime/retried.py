"""Every form of bolt, with calls that raise between two emits, for the tests of retries."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from engine import (
    BasicBolt,
    Bolt,
    Burst,
    BurstBolt,
    Config,
    Fields,
    StatefulBasicBolt,
    StatefulBolt,
    StatefulBurstBolt,
    TopologyBuilder,
    Tuple,
    bolt,
    stateful_bolt,
)
from engine.testing import Capture, Feeder, run_topology

FIELDS = Fields("number", "part")


class Plan:
    """Says how often the calls with a number raise, and notes them."""

    def __init__(self, fails: dict[int, int], error: Callable[[int], BaseException] = ValueError) -> None:
        self.fails = Counter(fails)
        self.error = error
        self.calls: list[int] = []

    def hit(self, number: int) -> None:
        """Raise if this call has to."""
        self.calls.append(number)
        if self.fails[number] > 0:
            self.fails[number] -= 1
            raise self.error(number)


def generator(plan: Plan) -> Any:
    class Basic(BasicBolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> Iterator[Any]:
            yield tup[0], "begin"
            plan.hit(tup[0])
            yield tup[0], "end"

    return Basic


def basic_collector(plan: Plan) -> Any:
    class Basic(BasicBolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> Any:
            self.collector.emit((tup[0], "begin"))
            plan.hit(tup[0])
            return tup[0], "end"

    return Basic


def explicit(plan: Plan) -> Any:
    class Explicit(Bolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0], "begin"), anchors=tup)
            self.collector.emit((tup[0], "end"), anchors=[tup])
            self.collector.ack(tup)
            plan.hit(tup[0])

    return Explicit


def function(plan: Plan) -> Any:
    @bolt(FIELDS)
    def work(tup: Tuple) -> Iterator[Any]:
        yield tup[0], "begin"
        plan.hit(tup[0])
        yield tup[0], "end"

    return work


def async_generator(plan: Plan) -> Any:
    class Waits(BasicBolt):
        output_fields = FIELDS

        async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
            yield tup[0], "begin"
            await asyncio.sleep(0.01)
            plan.hit(tup[0])
            yield tup[0], "end"

    return Waits


def async_explicit(plan: Plan) -> Any:
    class Waits(Bolt):
        output_fields = FIELDS

        async def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0], "begin"), anchors=tup)
            await asyncio.sleep(0.01)
            plan.hit(tup[0])
            self.collector.emit((tup[0], "end"), anchors=tup)
            self.collector.ack(tup)

    return Waits


def burst(plan: Plan) -> Any:
    class Many(BurstBolt):
        output_fields = FIELDS

        def execute_many(self, burst: Burst) -> None:
            for tup in burst:
                self.collector.emit((tup[0], "begin"), tup)
                plan.hit(tup[0])
                self.collector.emit_many([(tup[0], "end")], tup)

    return Many


def async_burst(plan: Plan) -> Any:
    class Many(BurstBolt):
        output_fields = FIELDS

        async def execute_many(self, burst: Burst) -> None:
            for tup in burst:
                self.collector.emit((tup[0], "begin"), tup)
                await asyncio.sleep(0.001)
                plan.hit(tup[0])
                self.collector.emit((tup[0], "end"), tup)

    return Many


def function_burst(plan: Plan) -> Any:
    @bolt(FIELDS, burst=True)
    def work(burst: Burst) -> Iterator[Any]:
        for tup in burst:
            yield tup, (tup[0], "begin")
            plan.hit(tup[0])
            yield tup, (tup[0], "end")

    return work


def counted(state: Any, number: int) -> str:
    """Count a number in the state. A change of a call that raised would make the result differ from "begin"."""
    count = state.get(number, 0) + 1
    state.put(number, count)
    return "begin" if count == 1 else f"counted {count} times"


def stateful(plan: Plan) -> Any:
    class Keeps(StatefulBasicBolt):
        output_fields = FIELDS

        def execute(self, tup: Tuple) -> Iterator[Any]:
            yield tup[0], counted(self.state, tup[0])
            plan.hit(tup[0])
            yield tup[0], "end"

    return Keeps


def stateful_explicit(plan: Plan) -> Any:
    class Keeps(StatefulBolt):
        output_fields = FIELDS

        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0], counted(self.state, tup[0])), tup)
            self.collector.emit((tup[0], "end"), tup)
            self.collector.ack(tup)
            plan.hit(tup[0])

    return Keeps


def stateful_async(plan: Plan) -> Any:
    class Keeps(StatefulBasicBolt):
        output_fields = FIELDS

        async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
            yield tup[0], counted(self.state, tup[0])
            await asyncio.sleep(0.01)
            plan.hit(tup[0])
            yield tup[0], "end"

    return Keeps


def stateful_burst(plan: Plan) -> Any:
    class Keeps(StatefulBurstBolt):
        output_fields = FIELDS

        def execute_many(self, burst: Burst) -> None:
            for tup in burst:
                self.collector.emit((tup[0], counted(self.state, tup[0])), tup)
                plan.hit(tup[0])
                self.collector.emit((tup[0], "end"), tup)

    return Keeps


def stateful_function(plan: Plan) -> Any:
    @stateful_bolt(FIELDS)
    def work(tup: Tuple, state: Any) -> Iterator[Any]:
        yield tup[0], counted(state, tup[0])
        plan.hit(tup[0])
        yield tup[0], "end"

    return work


IN_ORDER: dict[str, tuple[Callable[[Plan], Any], dict[str, Any]]] = {
    "generator": (generator, {}),
    "basic collector": (basic_collector, {}),
    "explicit": (explicit, {}),
    "function": (function, {}),
    "async generator": (async_generator, {}),
    "async explicit": (async_explicit, {}),
    "one thread": (basic_collector, {"threads": 1}),
    "burst": (burst, {}),
    "async burst": (async_burst, {}),
    "function burst": (function_burst, {}),
    "stateful": (stateful, {}),
    "stateful explicit": (stateful_explicit, {}),
    "stateful async": (stateful_async, {}),
    "stateful burst": (stateful_burst, {}),
    "stateful function": (stateful_function, {}),
}
"""Forms that process their inputs in order, with their settings."""
AT_ONCE: dict[str, tuple[Callable[[Plan], Any], dict[str, Any]]] = {
    "concurrency": (async_generator, {"concurrency": 3}),
    "explicit concurrency": (async_explicit, {"concurrency": 3}),
    "threads": (basic_collector, {"threads": 3}),
}
"""Forms that go on with other inputs while one waits to run again."""
FORMS = {**IN_ORDER, **AT_ONCE}


class Trial:
    """A run of the numbers from 0 to `count` - 1 through one form of bolt.

    It is at least once, so that the source gets the verdict of each input, also in front of a state.
    """

    def __init__(
        self, form: str, fails: dict[int, int], *, count: int = 5, error: Any = ValueError, config: Any = None, **settings: Any
    ) -> None:
        make, own = FORMS[form]
        self.plan = Plan(fails, error)
        self.feeder, self.out, self.diverted = Feeder("number"), Capture(), Capture()
        builder = TopologyBuilder("trial")
        builder.set_spout("numbers", self.feeder)
        builder.set_bolt("work", make(self.plan), **own, **settings).shuffle_grouping("numbers")
        builder.set_bolt("out", self.out).shuffle_grouping("work")
        if settings.get("on_error") == "divert":
            builder.set_bolt("diverted", self.diverted).shuffle_grouping("work", stream="failed")
        self.feeder.feed_all((number,) for number in range(count))
        self.feeder.close()
        self.finished = run_topology(builder.build(), (config or Config()).replace(processing_guarantee="at_least_once"))
        self.work = self.finished.snapshot.components["work"]

    @property
    def acked(self) -> list[int]:
        """Numbers of the inputs that were acked at the source."""
        return [message_id - 1 for message_id in self.feeder.acked]

    @property
    def failed(self) -> list[int]:
        """Numbers of the inputs that failed at the source."""
        return [message_id - 1 for message_id, _ in self.feeder.failed]
