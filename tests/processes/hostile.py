"""Bolts that do what users do, in a module that a child process can import."""

import asyncio
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from ctypes import PyDLL
from typing import Any

from engine import BasicBolt, Bolt, Burst, BurstBolt, Fields, Tuple

LOGGER = logging.getLogger("users.hostile")


class Keyed(BasicBolt):
    """Emits a key that the fields grouping behind it cannot hash, for each number of `bad`."""

    output_fields = "key"

    def __init__(self, bad: tuple[int, ...]) -> None:
        self.bad = bad

    def execute(self, tup: Tuple) -> tuple[Any]:
        return ({} if tup["number"] in self.bad else tup["number"],)


class SendsDirectly(BurstBolt):
    """Sends each number to a direct stream and to the default one. A call with several tuples raises at its end."""

    output_fields = {"default": Fields("number"), "direct": Fields("number", direct=True)}

    def execute_many(self, burst: Burst) -> None:
        [target] = self.context.targets("direct")
        for tup in burst:
            self.collector.emit_direct(target, tup.values, tup, "direct")
            self.collector.emit(tup.values, tup)
        if len(burst) > 1:
            raise ValueError("too many")


class SettlesAndWaits(BurstBolt):
    """Fails the second half of a burst, and raises. A tuple alone takes long."""

    output_fields = "number"

    async def execute_many(self, burst: Burst) -> None:
        if len(burst) > 1:
            for tup in burst[len(burst) // 2 :]:
                burst.fail(tup, "second half")
            raise ValueError("too many")
        await asyncio.sleep(0.6)
        self.collector.emit(burst[0].values, burst[0])


class Forks(BasicBolt):
    """Starts a process that lives on, then kills its own process at 7 once."""

    output_fields = "number"

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 7 and not os.path.exists(self.path):
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            with open(self.path, "w") as file:
                file.write(f"{os.getpid()} {child}")
            os.kill(os.getpid(), signal.SIGKILL)
        return (tup["number"],)


class HasForked(BasicBolt):
    """Starts a process in `prepare` that lives on, and writes its number into a file. It is a worker of a pool, or forked by C code."""

    def __init__(self, path: str, how: str) -> None:
        self.path = path
        self.how = how

    def prepare(self) -> None:
        if self.how == "pool":
            self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
            forked = self.pool.submit(os.getpid).result()
        else:
            forked = PyDLL(None).fork()  # Python calls no function of `os.register_at_fork`
            if forked == 0:
                time.sleep(60)
                os._exit(0)
        with open(self.path, "w") as file:
            file.write(str(forked))

    def execute(self, tup: Tuple) -> None:
        pass


POOLS: list[ProcessPoolExecutor] = []


class KeepsAPool(BasicBolt):
    """Lets a pool of its module work, which nobody shuts down. Emits the process of its worker."""

    output_fields = "pid"

    def execute(self, tup: Tuple) -> tuple[int]:
        if not POOLS:
            POOLS.append(ProcessPoolExecutor(1, multiprocessing.get_context("fork")))
        return (POOLS[0].submit(os.getpid).result(),)


class EndsItsLoop(BasicBolt):
    """Ends the event loop of its process at 7, if the file is new. It appends its process to the file."""

    output_fields = "number"

    def __init__(self, path: str, how: str) -> None:
        self.path = path
        self.how = how

    def prepare(self) -> None:
        self.is_first = not os.path.exists(self.path)
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # some libraries do so

    async def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 7 and self.is_first:
            loop = asyncio.get_running_loop()
            match self.how:
                case "callback":
                    loop.call_soon(sys.exit, 4)
                case "stop":
                    loop.stop()
                case "cancel":
                    for each in asyncio.all_tasks():
                        each.cancel()
                case "task":
                    self.exiting = loop.create_task(self.exit())
            await asyncio.sleep(20)
        return (tup["number"],)

    async def exit(self) -> None:
        """End the process, as a library may do."""
        sys.exit(0)


def double(number: int) -> int:
    return 2 * number


class Pooled(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            yield from ((each,) for each in pool.map(double, [tup["number"]]))


class RunsPrograms(BasicBolt):
    output_fields = "text"

    def execute(self, tup: Tuple) -> tuple[str]:
        return (subprocess.run(["echo", str(tup["number"])], capture_output=True, text=True, check=True).stdout.strip(),)


class Background(Bolt):
    """Emits all the time, as fast as it may, and acks its inputs."""

    output_fields = "number"

    def prepare(self) -> None:
        self.context.create_task(self.flood())

    async def flood(self) -> None:
        number = 0
        while True:
            await self.collector.ready()
            for _ in range(1500):
                number += 1
                self.collector.emit((-number,))
            await asyncio.sleep(0)

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class NeverAcks(Bolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"],))


class Raises(BasicBolt):
    output_fields = "number"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 3:
            raise self.error
        return (tup["number"],)


class HardToPickle(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("hard")
        self.lock = threading.Lock()


class RaisesHard(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 3:
            raise HardToPickle(1, 2)
        return (tup["number"],)


class Logs(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        for number in range(10_000):
            LOGGER.warning("record %s", number)
        threads = [threading.Thread(target=lambda: [LOGGER.warning("thread %s", number) for number in range(500)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("x" * 100_000)
        return (tup["number"],)


class EndlessThread(BasicBolt):
    """Starts a thread that never ends, and is no daemon."""

    output_fields = "number"

    def prepare(self) -> None:
        threading.Thread(target=lambda: time.sleep(3600)).start()

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


class EmitsInPrepare(Bolt):
    output_fields = "number"

    def prepare(self) -> None:
        self.collector.emit((-1,))

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"],), anchors=tup)
        self.collector.ack(tup)

    def cleanup(self) -> None:
        self.collector.emit((-2,))


class Echo(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[Any]:
        return (tup["number"],)


class CountsCalls(BasicBolt):
    """Appends each number to a file."""

    output_fields = "number"

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, tup: Tuple) -> tuple[Any]:
        with open(self.path, "a") as file:
            file.write(f"{tup['number']}\n")
        return (tup["number"],)
