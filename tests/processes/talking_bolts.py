"""Bolts that print and log."""

import logging
import os
import sys
import threading
import time
from typing import Any

from engine import BasicBolt, Tuple
from tests.processes.bolts import LOGGER


class Prints(BasicBolt):
    """Prints each number in two writes, and a line without an end."""

    output_fields = "pid"

    def execute(self, tup: Tuple) -> tuple[int]:
        number = tup["number"]
        print("number", "\udcff" if number == 1 else number)
        print(f"error {number}", file=sys.stderr)
        return (os.getpid(),)

    def cleanup(self) -> None:
        print("no end", end="", flush=True)


class PrintsInThreads(BasicBolt):
    """Prints a line word by word, in several threads at once."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(4)

    def __reduce__(self) -> tuple[Any, ...]:
        return PrintsInThreads, ()

    def execute(self, tup: Tuple) -> None:
        self.barrier.wait(10)
        for word in ("one", "two", "three"):
            print(word, tup["number"], end=" ")
            self.barrier.wait(10)
        print()


class PrintsInAFork(BasicBolt):
    """Prints and logs in a process that it forks."""

    def execute(self, tup: Tuple) -> None:
        forked = os.fork()
        if forked == 0:
            print("printed by a fork", flush=True)
            LOGGER.warning("logged by a fork")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(forked, 0)


class UsesItsStream(BasicBolt):
    """Uses more of its standard output than `write`."""

    def prepare(self) -> None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        sys.stdout.writelines([f"{sys.stdout.encoding} {sys.stdout.isatty()} {sys.stdout.fileno()} {sys.stdout.errors}\n"])

    def execute(self, tup: Tuple) -> None:
        return None


class LogsToItsOwnFile(BasicBolt):
    """Adds a handler of its own in `prepare`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        LOGGER.addHandler(logging.FileHandler(self.path, "w"))

    def execute(self, tup: Tuple) -> None:
        LOGGER.warning("number %s", tup["number"])


class LogsATraceback(BasicBolt):
    """Logs an exception and the stack."""

    def execute(self, tup: Tuple) -> None:
        try:
            raise ValueError("no such customer")
        except ValueError:
            LOGGER.exception("order %s", tup["number"], stack_info=True)


class Hangs(BasicBolt):
    """Notes its process, and never returns. It may print meanwhile."""

    def __init__(self, path: str, *, prints: bool = False) -> None:
        self.path = path
        self.prints = prints

    def execute(self, tup: Tuple) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        while True:
            time.sleep(0.1)
            if self.prints:
                print("still here")
