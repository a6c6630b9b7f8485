"""Stores of the model's committers: values with a fence (TX-8), and files by txid and attempt."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.transactional import TransactionAttempt
from tests.transactional.model.interpreter import Items


class Refused(Exception):
    """A write of an attempt that is superseded."""


@dataclass
class ValueMap:
    """Values of one committer, transactional or opaque, under one fence."""

    kind: Literal["transactional", "opaque"]
    fence: tuple[int, int] = (0, 0)
    written: set[int] = field(default_factory=set)
    """Keys that the txid of the fence has written."""
    entries: dict[int, tuple[int, Items, Items | None]] = field(default_factory=dict)
    """By key: txid, value, and previous value."""

    def write(self, attempt: TransactionAttempt, changes: Mapping[int, Items]) -> None:
        """Apply one task's changes of a batch in one step."""
        if tuple(attempt) < self.fence:
            raise Refused(f"{attempt} is older than {self.fence}")
        if self.kind == "opaque" and attempt.txid == self.fence[0] and attempt.attempt_id > self.fence[1]:
            self._put_back()
        if tuple(attempt) > self.fence:
            self.written = set()
        self.fence = (attempt.txid, attempt.attempt_id)
        for key, items in changes.items():
            self._add(attempt.txid, key, items)

    def _put_back(self) -> None:
        for key in self.written:
            txid, _, previous = self.entries.pop(key)
            if previous is not None:
                self.entries[key] = (txid - 1, previous, None)

    def _add(self, txid: int, key: int, items: Items) -> None:
        found = self.entries.get(key)
        if found is not None and found[0] > txid:
            raise Refused(f"key {key} is of txid {found[0]}, and this is {txid}")
        if found is not None and found[0] == txid:
            if self.kind == "transactional":
                return
            before = found[2]
        else:
            before = None if found is None else found[1]
        self.entries[key] = (txid, (before or Counter()) + items, before)
        self.written.add(key)

    def values(self) -> dict[int, Items]:
        """Current values."""
        return {key: value for key, (_, value, _) in self.entries.items()}


@dataclass
class Files:
    """Files of the tasks of one committer by txid and attempt. Only the highest attempt of a txid counts."""

    files: dict[TransactionAttempt, dict[int, Items]] = field(default_factory=dict)

    def write(self, attempt: TransactionAttempt, task: int, items: Items) -> None:
        """Write a task's file."""
        self.files.setdefault(attempt, {})[task] = Counter(items)

    def read(self, txid: int) -> dict[int, Items]:
        """Return the files that count for a txid, by task."""
        return self.files[max((attempt for attempt in self.files if attempt.txid == txid), default=TransactionAttempt(0, 0))]


@dataclass
class Server:
    """Server of the stores. It outlives the topology's process, so an abandoned write may take effect later."""

    draws: random.Random
    late: list[Callable[[], None]] = field(default_factory=list)
    refused: int = 0
    landed_late: int = 0

    async def write(self, effect: Callable[[], None], pause: Callable[[str], Awaitable[None]], is_dead: Callable[[], bool]) -> None:
        """Apply an effect, with time before and after it."""
        self.land()
        try:
            await pause("before keep")
        except BaseException:
            if self.draws.random() < 0.5:
                self.late.append(effect)
            raise
        if is_dead():
            raise Refused("the process is dead")
        effect()
        await pause("after keep")

    def land(self) -> None:
        """Apply some of the late writes."""
        for effect in [each for each in self.late if self.draws.random() < 0.4]:
            self.late.remove(effect)
            try:
                effect()
                self.landed_late += 1
            except Refused:
                self.refused += 1
