"""Bolts of the tests, in a module that a child process can import."""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from engine import (
    BasicBolt,
    Bolt,
    Burst,
    BurstBolt,
    FailTuple,
    Fields,
    FlowControlBolt,
    Tuple,
    bolt,
)

LOGGER = logging.getLogger("users.module")


class Unpicklable:
    """A value that pickle refuses."""

    def __reduce__(self) -> str:
        raise TypeError("it holds a socket")


class Unreadable:
    """A value that pickle stores, and cannot load."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _raise, ()


def _raise() -> None:
    raise ValueError("it was made by another version")


class Twice(BasicBolt):
    """Emits the double of each number, and the process."""

    output_fields = Fields("number", "pid")

    def execute(self, tup: Tuple) -> tuple[int, int]:
        return tup["number"] * 2, os.getpid()


class Echo(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> tuple[Any]:
        return (tup["number"],)


class Scaled(BasicBolt):
    output_fields = Fields("number")

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"] * self.factor,)


@bolt("number")
def squares(tup: Tuple) -> Iterator[tuple[int]]:
    yield (tup["number"] ** 2,)


@bolt("number", burst=True)
def cubes(burst: Burst) -> Iterator[tuple[Tuple, tuple[int]]]:
    for tup, number in burst.items("number"):
        yield tup, (number**3,)


class Pairs(Bolt):
    """Joins two inputs, and acks them later, from a background task."""

    output_fields = Fields("pair")

    def prepare(self) -> None:
        self.waiting: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.waiting.append(tup)
        if len(self.waiting) == 2:
            pair, self.waiting = self.waiting, []
            self.context.create_task(self.finish(pair))

    async def finish(self, pair: list[Tuple]) -> None:
        await asyncio.sleep(0.01)
        self.collector.emit((tuple(each["number"] for each in pair),), anchors=pair)
        for each in pair:
            self.collector.ack(each)


class Judge(Bolt):
    """Acks 0, fails 1, drops 2, raises at 3, and settles 4 twice. It resets the timeout of 5."""

    def execute(self, tup: Tuple) -> None:
        match tup["number"] % 6:
            case 0:
                self.collector.ack(tup)
            case 1:
                self.collector.fail(tup, "it is odd")
            case 3:
                raise KeyError("three")
            case 4:
                self.collector.ack(tup)
                self.collector.ack(tup)
            case 5:
                self.collector.reset_timeout(tup)
                self.collector.ack(tup)


class Refuses(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        if tup["number"] % 2:
            raise FailTuple("odd numbers are not taken")


class Streams(Bolt):
    """Emits to a stream of two fields, and to a direct stream."""

    output_fields = {"even": Fields("number", "kind"), "direct": Fields("number", direct=True)}

    def execute(self, tup: Tuple) -> None:
        number = tup["number"]
        targets = self.context.targets("direct")
        self.collector.emit_direct(targets[number % len(targets)], (number,), anchors=tup, stream="direct")
        if number % 2 == 0:
            self.collector.emit((number, "even"), anchors=tup, stream="even")
        self.collector.ack(tup)


class WrongTarget(Bolt):
    output_fields = {"direct": Fields("number", direct=True)}

    def execute(self, tup: Tuple) -> None:
        self.collector.emit_direct(9999, (1,), anchors=tup, stream="direct")


class Waits(BasicBolt):
    """Awaits, several inputs at once."""

    output_fields = Fields("number", "most")
    concurrency = 8

    def prepare(self) -> None:
        self.running = self.most = 0

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int, int]]:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.005)
        yield tup["number"], self.most
        self.running -= 1


class InThreads(BasicBolt):
    output_fields = Fields("number", "thread")
    threads = 3

    def execute(self, tup: Tuple) -> tuple[int, bool]:
        time.sleep(0.002)
        return tup["number"], threading.current_thread() is threading.main_thread()


class Ticked(BasicBolt):
    output_fields = Fields("ticks", "is_tick")
    tick_tuple_freq_secs = 0.02

    def prepare(self) -> None:
        self.ticks = 0

    def execute(self, tup: Tuple) -> tuple[int, bool] | None:
        if tup.is_tick:
            self.ticks += 1
            return None
        return self.ticks, tup.is_tick


class Observed(BasicBolt):
    """Uses metrics, the log and the context."""

    output_fields = Fields("facts")

    def prepare(self) -> None:
        self.seen = self.context.counter("seen")
        LOGGER.info("prepared")

    def execute(self, tup: Tuple) -> tuple[Any]:
        self.seen.add()
        self.context.gauge("latest", kind="number").set(tup["number"])
        self.context.histogram("size").record(tup["number"])
        LOGGER.warning("got %s", tup["number"], extra={"odd": object()})
        context = self.context
        facts = {
            "component": context.component_id,
            "task": context.task_id,
            "index": context.task_index,
            "tasks": context.tasks,
            "sources": tuple(context.sources()),
            "targets": tuple(context.targets()),
            "ids": tuple(context.task_ids("numbers")),
            "topology": context.topology_name,
            "seed": context.config.seed,
            "from": (tup.source_component, tup.source_task, tup.stream, tuple(tup.fields)),
            "random": context.random.random(),
        }
        return (facts,)


class DropsMetric(BasicBolt):
    def execute(self, tup: Tuple) -> None:
        self.context.gauge("lag", part=str(tup["number"])).set(1)
        if tup["number"] == 3:
            self.context.drop_metric("lag", part="1")


class Crashes(BasicBolt):
    """Ends or stops its own process at a number, if a file does not exist. So a retry of this number succeeds."""

    output_fields = Fields("number", "pid")

    def __init__(self, path: str, at: int, how: str) -> None:
        self.path = path
        self.at = at
        self.how = how

    def execute(self, tup: Tuple) -> tuple[int, int]:
        if tup["number"] == self.at and not os.path.exists(self.path):
            with open(self.path, "w") as file:
                file.write(str(os.getpid()))
            HOW[self.how]()
        return tup["number"], os.getpid()


HOW = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(3600),
    "raise": lambda: json.loads("{"),
    "end": lambda: sys.exit(4),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "close": lambda: os.closerange(3, 100),
}


class FailsAtPrepare(BasicBolt):
    def prepare(self) -> None:
        raise ConnectionError("the database is away")

    def execute(self, tup: Tuple) -> None:
        pass


class DiesAtPrepare(BasicBolt):
    def prepare(self) -> None:
        os._exit(7)

    def execute(self, tup: Tuple) -> None:
        pass


class Emits(BasicBolt):
    """Emits a value that pickle refuses or cannot load, for odd numbers."""

    output_fields = Fields("value")

    def __init__(self, odd: type[Any]) -> None:
        self.odd = odd

    def execute(self, tup: Tuple) -> tuple[Any]:
        return (self.odd() if tup["number"] % 2 else tup["number"],)


class Floods(BasicBolt):
    """Emits many tuples for each input."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        for number in range(5_000):
            yield (number,)


class Slow(BasicBolt):
    output_fields = Fields("number")

    def __init__(self, secs: float) -> None:
        self.secs = secs

    def execute(self, tup: Tuple) -> tuple[int]:
        time.sleep(self.secs)
        return (tup["number"],)


class SlowBurst(BurstBolt):
    output_fields = Fields("number")

    def execute_many(self, burst: Burst) -> None:
        if len(burst) > 1 and 3 in burst["number"]:
            raise ValueError("three")
        for tup, number in burst.items("number"):
            if number == 3:
                burst.fail(tup, "three")
            else:
                self.collector.emit((number,), anchors=tup)


class Cleans(Bolt):
    """Writes its total when it is closed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        self.total = 0

    def execute(self, tup: Tuple) -> None:
        self.total += tup["number"]
        self.collector.ack(tup)

    def cleanup(self) -> None:
        with open(self.path, "a") as file:
            file.write(f"closed with {self.total}\n")


class Pid(BasicBolt):
    """Writes its process into a file."""

    output_fields = Fields("number")

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")

    def execute(self, tup: Tuple) -> tuple[int]:
        time.sleep(0.001)
        return (tup["number"],)


class Records(FlowControlBolt):
    """Emits each record, and raises for records that end with 7."""

    output_fields = Fields("number", "pid")

    def process(self, record: int) -> tuple[int, int]:
        if record % 10 == 7:
            raise ValueError(f"bad record {record}")
        return record, os.getpid()


class AsyncRecords(FlowControlBolt):
    """Does the same, and awaits."""

    output_fields = Fields("number", "pid")

    async def process(self, record: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        if record % 10 == 7:
            raise ValueError(f"bad record {record}")
        return record, os.getpid()


class StopsAtPrepare(Echo):
    """Stops its process in the first `prepare`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        if not os.path.exists(self.path):
            open(self.path, "w").close()
            HOW["stop"]()
