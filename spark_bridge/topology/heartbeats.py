"""Heartbeats of the tasks of a job. They show Spark's process that the Python processes of the executors run (CL-3).

A frozen process cannot notice this itself, so another one must. It has got SIGSTOP, its container is paused, or a call in C never releases
Python's lock. Heartbeats are datagrams, because these need no common folder, and nobody waits for them.
"""

import functools
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from engine.randomness import RunRandom

MOST_TASKS: Final = 100_000
"""Tasks that a receiver remembers."""
MOST_BYTES: Final = 256
"""Longest datagram."""


class Pulse(NamedTuple):
    """Where and how often a task sends heartbeats."""

    host: str
    port: int
    key: str
    """Begins each heartbeat, so that no other datagram is taken for one."""
    secs: float


class Heard(NamedTuple):
    """What a receiver knows of a task."""

    beats: int
    pid: int
    """Of its Python process."""


class WithHeartbeats:
    """A function for `mapPartitionsWithIndex` that sends heartbeats while it runs. Runs on executors."""

    def __init__(self, function: Callable[[int, Iterable[Any]], Iterable[Any]], pulse: Pulse) -> None:
        self._function = function
        self._pulse = pulse

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Any]:
        """Run the function for the running task of Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with sending(self._pulse, context.taskAttemptId()):
            yield from self._function(partition, rows)


@contextmanager
def sending(pulse: Pulse, task: int) -> Iterator[None]:
    """Send heartbeats of a task in the `with` block, from a thread. task: Spark's number of this try."""
    over = threading.Event()
    threading.Thread(target=_send, args=(pulse, task, over), name="stormcell heartbeats", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _send(pulse: Pulse, task: int, over: threading.Event) -> None:
    beat = f"{pulse.key} {task} {os.getpid()}".encode()
    with suppress(OSError):  # the receiver cannot be reached from here. Then it has not heard the task, and does not judge it
        family, kind, protocol, _, address = socket.getaddrinfo(pulse.host, pulse.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sender:
            sender.sendto(beat, address)
            while not over.wait(pulse.secs):
                sender.sendto(beat, address)


class HeartbeatReceiver:
    """Counts the heartbeats of tasks. Lives as long as its process."""

    def __init__(self, host: str, bind: str) -> None:
        """host: this machine, for executors. bind: its own address of this host. Spark writes both as in a URL: `[::1]`."""
        family, kind, protocol, _, address = socket.getaddrinfo(bind.strip("[]"), 0, type=socket.SOCK_DGRAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.bind(address)
        self._host = host.strip("[]")
        self._key = f"{RunRandom().seed:x}"
        self._heard: dict[int, Heard] = {}
        threading.Thread(target=self._receive, name="stormcell heartbeats", daemon=True).start()

    def pulse(self, secs: float) -> Pulse:
        """Return the pulse of tasks that send to this receiver."""
        return Pulse(self._host, self._socket.getsockname()[1], self._key, secs)

    def heard(self, task: int) -> Heard | None:
        """Return what is known of a task. None if it has sent no heartbeat."""
        return self._heard.get(task)

    def _receive(self) -> None:
        while True:
            try:
                key, task, pid = self._socket.recv(MOST_BYTES).decode().split()
                if key == self._key:
                    self._count(int(task), int(pid))
            except ValueError:  # a datagram of somebody else
                continue

    def _count(self, task: int, pid: int) -> None:
        before = self._heard.pop(task, None)
        self._heard[task] = Heard(1 if before is None else before.beats + 1, pid)
        if len(self._heard) > MOST_TASKS:
            del self._heard[next(iter(self._heard))]  # the one that was silent for the longest time


@functools.lru_cache(maxsize=1)
def receiver_of(context: Any) -> HeartbeatReceiver:
    """Return the receiver in this process. context: the SparkContext, whose executors reach the address of its driver."""
    conf = context.getConf()
    host = conf.get("spark.driver.host")
    return HeartbeatReceiver(host, conf.get("spark.driver.bindAddress") or host)
