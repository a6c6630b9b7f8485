"""The works as plain asyncio actors, written by hand without an engine.

Each task has a bounded `asyncio.Queue` and a coroutine. Tracked works have a dict from root id to (XOR of edge ids, message id). There
are no timeouts, no metrics and no error handling.
"""

import asyncio
import random
import time
from collections import Counter
from typing import NamedTuple

from bench.measuring import rate_figures
from bench.texts import SENTENCE, units_of

QUEUE_TUPLES = 1024
MAX_PENDING = 1000


class Message(NamedTuple):
    """One delivery: values, and the ids of its tree (0 in untracked works)."""

    values: tuple[str, ...]
    root: int
    edge: int


Mailbox = asyncio.Queue[Message]


class Ledger:
    """Open trees, as a dict from root id to the XOR of the edge ids. A tree is done at 0."""

    def __init__(self) -> None:
        self.draw = random.Random().getrandbits
        self.open: dict[int, tuple[int, int]] = {}
        self.progress = asyncio.Event()

    def begin(self, message_id: int) -> tuple[int, int]:
        """Open a tree and return (root, edge)."""
        root, edge = self.draw(64), self.draw(64)
        self.open[root] = (edge, message_id)
        return root, edge

    def fold(self, root: int, value: int) -> None:
        """XOR a value into a tree. Close the tree at 0."""
        current, message_id = self.open[root]
        current ^= value
        if current:
            self.open[root] = (current, message_id)
            return
        del self.open[root]
        self.progress.set()


async def spout(values: tuple[str, ...], tuples: int, targets: list[Mailbox], ledger: Ledger) -> None:
    """Emit tracked tuples to the targets in turn, with at most MAX_PENDING open trees."""
    for number in range(tuples):
        while len(ledger.open) >= MAX_PENDING:
            ledger.progress.clear()
            await ledger.progress.wait()
        root, edge = ledger.begin(number)
        await targets[number % len(targets)].put(Message(values, root, edge))
    while ledger.open:
        ledger.progress.clear()
        await ledger.progress.wait()


async def null(mailbox: Mailbox, ledger: Ledger) -> None:
    """Ack each tuple."""
    while True:
        message = await mailbox.get()
        ledger.fold(message.root, message.edge)


async def identity(mailbox: Mailbox, target: Mailbox, ledger: Ledger) -> None:
    """Emit each tuple again, anchored."""
    while True:
        message = await mailbox.get()
        edge = ledger.draw(64)
        await target.put(Message(message.values, message.root, edge))
        ledger.fold(message.root, message.edge ^ edge)


async def split(mailbox: Mailbox, targets: list[Mailbox], ledger: Ledger) -> None:
    """Emit each word, anchored, to the counter of its hash."""
    while True:
        message = await mailbox.get()
        value = message.edge
        for word in message.values[0].split():
            edge = ledger.draw(64)
            value ^= edge
            await targets[hash(word) % len(targets)].put(Message((word,), message.root, edge))
        ledger.fold(message.root, value)


async def count(mailbox: Mailbox, counts: Counter[str], ledger: Ledger) -> None:
    """Count each word and ack it."""
    while True:
        message = await mailbox.get()
        counts[message.values[0]] += 1
        ledger.fold(message.root, message.edge)


async def untracked_spout(values: tuple[str, ...], tuples: int, target: Mailbox) -> None:
    """Emit untracked tuples, then wait until the target has handled them."""
    for _ in range(tuples):
        await target.put(Message(values, 0, 0))
    await target.join()


async def untracked_null(mailbox: Mailbox) -> None:
    """Take each tuple."""
    while True:
        await mailbox.get()
        mailbox.task_done()


async def run(work: str, tuples: int) -> dict[str, float]:
    """Handle `tuples` tuples, from the first emit until all are done."""
    ledger, first = Ledger(), [Mailbox(QUEUE_TUPLES)]
    match work:
        case "const-null":
            bolts = [null(first[0], ledger)]
        case "const-id-null":
            last = Mailbox(QUEUE_TUPLES)
            bolts = [identity(first[0], last, ledger), null(last, ledger)]
        case "word-count":
            first, counters = [Mailbox(QUEUE_TUPLES) for _ in range(2)], [Mailbox(QUEUE_TUPLES) for _ in range(4)]
            bolts = [split(mailbox, counters, ledger) for mailbox in first]
            bolts += [count(mailbox, Counter(), ledger) for mailbox in counters]
        case _:
            bolts = [untracked_null(first[0])]
    actors = [asyncio.create_task(bolt) for bolt in bolts]
    values = (SENTENCE,) if work == "word-count" else ("hello",)
    start = time.perf_counter()
    if work == "un-acked":
        await untracked_spout(values, tuples, first[0])
    else:
        await spout(values, tuples, first, ledger)
    secs = time.perf_counter() - start
    for actor in actors:
        actor.cancel()
    return rate_figures(units_of(work, tuples), secs)
