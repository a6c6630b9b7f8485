"""Judges a topology while it runs: order of commits, calls of finish_batch, saved records (TX-2 to TX-9)."""

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from engine.transactional import TransactionAttempt
from tests.transactional.model.interpreter import Items
from tests.transactional.model.shape import Item, Shape, item_of

Task: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class Saved:
    """Record of a txid in its commit phase."""

    metadata: Any
    shares: Mapping[str, tuple[Any, int, Any]]


class Witness:
    """Receives the events of bolts, emitters and disk of one topology, through all its processes."""

    def __init__(self, shape: Shape) -> None:
        self.shape: Final = shape
        self.violations: list[str] = []
        self.is_deaf = False
        """The process is dead, so events of its components are ignored."""
        self.committed = 0
        self.in_commit: int | None = None
        """Txid whose commit phase is durable."""
        self.saved: dict[int, Saved] = {}
        self.final: dict[int, TransactionAttempt] = {}
        """Committed attempt by txid."""
        self.came: defaultdict[TransactionAttempt, defaultdict[str, Items]] = defaultdict(lambda: defaultdict(Counter))
        """Executed items by attempt and bolt."""
        self.finished: defaultdict[TransactionAttempt, set[Task]] = defaultdict(set)
        """Tasks whose finish_batch has returned, by attempt."""
        self.asked: Counter[tuple[TransactionAttempt, Task]] = Counter()
        """Calls of finish_batch by attempt and task."""
        self.newest: dict[int, TransactionAttempt] = {}
        """Newest emitted attempt by txid."""
        self._running: defaultdict[Task, list[TransactionAttempt]] = defaultdict(list)
        """Running finish_batch calls of each committer."""
        self._lock = threading.Lock()
        self._told: dict[Task, int] = {}
        """Latest attempt id of each emitter."""
        self.replayed = 0

    def add_violation(self, text: str) -> None:
        """Add a violation."""
        if not self.is_deaf:
            self.violations.append(text)

    def begins_process(self) -> None:
        """Begin a process: no call of the one before is running."""
        self.is_deaf = False
        self._running.clear()
        self._told.clear()

    # Events of the emitters

    def emits(self, task: Task, attempt: TransactionAttempt) -> None:
        """An emitter begins to emit its part of an attempt."""
        if self.is_deaf:
            return
        if attempt.attempt_id <= self._told.get(task, 0):
            self.add_violation(f"{task} is to emit {attempt} after {self._told[task]}")
        self._told[task] = attempt.attempt_id
        if attempt.txid <= self.committed:
            self.add_violation(f"{attempt} is emitted, and txid {self.committed} is committed")
        self.sees(attempt)

    def sees(self, attempt: TransactionAttempt) -> None:
        """An attempt has begun."""
        newest = self.newest.setdefault(attempt.txid, attempt)
        if newest < attempt:
            self.newest[attempt.txid] = attempt
            self.replayed += 1

    def takes_part(self, attempt: TransactionAttempt) -> None:
        """An emitter's `commit` was called."""
        self._in_commit_phase(f"an emitter takes part in {attempt}", attempt)

    # Events of the bolts

    def takes(self, task: Task, attempt: TransactionAttempt, item: Item) -> None:
        """A tuple of an attempt is executed."""
        if self.is_deaf:
            return
        if self.final.get(attempt.txid) == attempt:
            self.add_violation(f"{item} of {attempt} comes to {task} after its commit")
        with self._lock:  # threads of a pool call this too
            self.came[attempt][task[0]][item] += 1

    def asks(self, task: Task, attempt: TransactionAttempt) -> None:
        """A task's finish_batch is called."""
        if self.is_deaf:
            return
        self.sees(attempt)
        self.asked[attempt, task] += 1
        if self.asked[attempt, task] > 1:
            self.add_violation(f"finish_batch of {attempt} is called {self.asked[attempt, task]} times in {task}")
        self.check_sources(task, attempt, self.sources_of(task) - self.finished[attempt])
        if task[0] in self.shape.late:
            self._in_commit_phase(f"finish_batch of {attempt} is called in {task}", attempt)

    def sources_of(self, task: Task) -> set[Task]:
        """Tasks that send to this one, and call finish_batch."""
        before = {each.source for each in self.shape.by_name[task[0]].inputs}
        return {each for each in self.shape.batch_tasks if each[0] in before}

    def check_sources(self, task: Task, attempt: TransactionAttempt, missing: set[Task]) -> None:
        """All sources of a task must have finished before its finish_batch is called."""
        if missing:
            self.add_violation(f"finish_batch of {attempt} is called in {task}, and {sorted(missing)} have not finished")

    def loses(self, run: Any, task_id: int, tup: Any) -> None:
        """A tuple is lost."""
        run.lose_tuple(task_id, tup)

    def begins_finish(self, task: Task, attempt: TransactionAttempt) -> None:
        """A committer's finish_batch begins."""
        if self.is_deaf:
            return
        if self._running[task]:
            self.add_violation(f"finish_batch of {attempt} begins in {task} while that of {self._running[task]} goes on")
        for other, attempts in self._running.items():
            for each in attempts:
                if each.txid != attempt.txid:  # an old attempt of the same txid may end or begin before the new one is known
                    self.add_violation(f"finish_batch of {attempt} begins in {task} while that of {each} goes on in {other}")
        self._running[task].append(attempt)

    def ends_finish(self, task: Task, attempt: TransactionAttempt) -> None:
        """A committer's finish_batch has returned, raised or been cancelled."""
        if attempt in self._running[task]:
            self._running[task].remove(attempt)

    def has_finished(self, task: Task, attempt: TransactionAttempt) -> None:
        """A task's finish_batch has returned."""
        if not self.is_deaf:
            self.finished[attempt].add(task)

    def _in_commit_phase(self, what: str, attempt: TransactionAttempt) -> None:
        if not self.is_deaf and attempt.txid != self.in_commit:
            self.add_violation(
                f"{what}, and what is saved is that txid {self.committed} is committed, and {self.in_commit} in its commit phase"
            )

    # Events of the disk

    def on_written(self, entries: dict[str, object]) -> None:
        """A record took effect."""
        _, _, committed, metadata, positions, following, *_ = cast(Any, entries["transactions"])
        if committed not in (self.committed, self.committed + 1):
            self.add_violation(f"txid {committed} is saved as committed after {self.committed}")
        if committed > self.committed:
            self._commit(committed, metadata, positions)
        self.in_commit = None if following is None else committed + 1
        if following is None and self.saved.pop(committed + 1, None) is not None:
            self._forget(committed + 1)
        if following is not None:
            self._save(committed + 1, Saved(following[0], {name: tuple(share) for name, share in following[1].items()}))

    def _commit(self, txid: int, metadata: Any, positions: Mapping[str, Any]) -> None:
        self.committed = txid
        attempt = self.newest.get(txid)
        if attempt is None or txid not in self.saved:
            self.add_violation(f"txid {txid} is committed, and was never emitted, or never saved")
            return
        self.final[txid] = attempt
        if missing := self.shape.batch_tasks - self.finished[attempt]:
            self.add_violation(f"{attempt} is committed, and {sorted(missing)} have not finished it")
        saved = self.saved[txid]
        if metadata != saved.metadata:
            self.add_violation(f"txid {txid} is committed with the metadata {metadata}, and was saved with {saved.metadata}")
        ends = {name: share[0] for name, share in saved.shares.items() if name}
        if not ends.items() <= dict(positions).items():
            self.add_violation(f"txid {txid} is committed with the positions {positions}, and ended at {ends}")

    def _forget(self, txid: int) -> None:
        """A record of a txid is deleted, so its commit phase cannot have begun."""
        if begun := [attempt for attempt, (name, _) in self.asked if attempt.txid == txid and name in self.shape.late]:
            self.add_violation(f"txid {txid} is forgotten, and {begun} was about to be committed")

    def _save(self, txid: int, saved: Saved) -> None:
        before = self.saved.get(txid)
        if before is not None and self.shape.kind != "opaque" and before != saved:
            self.add_violation(f"txid {txid} was {before} when it was saved first, and now is {saved}")
        self.saved[txid] = saved

    # Committed batches

    def batches(self) -> dict[int, list[Item]]:
        """Items of each committed txid, according to its saved record."""
        return {txid: self._items(self.saved[txid]) for txid in self.final if txid in self.saved}

    def _items(self, saved: Saved) -> list[Item]:
        if self.shape.kind == "whole":
            return items_between("w", saved.metadata)
        return [item for name, (metadata, tuples, _) in saved.shares.items() if tuples for item in items_between(name, metadata)]


def items_between(partition: str, metadata: Any) -> list[Item]:
    """Items of a partition, from the first number of the metadata up to the second."""
    return [] if metadata is None else [item_of(partition, number) for number in range(*metadata)]
