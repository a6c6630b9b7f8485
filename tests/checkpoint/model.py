"""Simple model of barriers, which computes the contents of each state with dicts, without layers and deltas.

Each task's live values are its restored values with its changes. PREPARE(t) copies them into the cut of t. The record
COMMITTING(t) commits this cut in all tasks. A recovery and a new process restore the committed cut. COMMITTED(t) may
follow only when `pre_commit(t)` has succeeded in all tasks of one process.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from engine.checkpoint.machine import Record
from engine.kernel import key_group
from engine.state.codec import DELETED, MessagePack
from engine.state.delta import decode_blob, row_value
from tests.checkpoint.slow_store import Disk

Task: TypeAlias = tuple[str, int]
"""Component and task index."""
Values: TypeAlias = dict[Any, Any]
WITHOUT_CHECKSUM = slice(1, -4)
"""Part of each stored row value, and of each blob."""


class Witness:
    """Receives the events of stateful bolts. This one only keeps their states, for checks at the end."""

    def __init__(self) -> None:
        self.states: dict[Task, Any] = {}

    def initialised(self, task: Task, state: Any) -> None:
        self.states[task] = state

    def touches(self, task: Task) -> None:
        """Called before each input."""

    def changed(self, task: Task, key: Any, value: Any) -> None:
        """Called for each change; a value of None is a deletion."""

    def prepares(self, task: Task, txid: int) -> None:
        """Called at the end of `pre_prepare`."""

    def commits(self, task: Task, txid: int) -> None:
        """Called at the beginning of `pre_commit`."""

    def has_committed(self, task: Task, txid: int) -> None:
        """Called at the end of `pre_commit`."""

    def rolls_back(self, task: Task) -> None:
        """Called in `pre_rollback`."""

    def counted(self, component_id: str) -> Counter[str]:
        """Return how often a component has counted each message, in all its tasks."""
        return sum((messages_in(dict(state.items())) for (owner, _), state in self.states.items() if owner == component_id), Counter())


def messages_in(values: Mapping[Any, Any]) -> Counter[str]:
    """All messages in the values of a state, as often as they were counted."""
    return Counter(message for messages in values.values() if isinstance(messages, list) for message in messages)


@dataclass(frozen=True)
class Layout:
    """Layout of a stateful component in one process."""

    tasks: int
    keyed: bool
    key_groups: int
    key_of: Callable[[Any], Any]

    def owner(self, key: Any) -> int:
        """Index of the task that owns a key (GRP-2)."""
        return key_group(self.key_of(key), self.key_groups) * self.tasks // self.key_groups

    def owns(self, task_index: int, slot: int) -> bool:
        """Whether a task owns the rows of this slot (CP-9)."""
        return (slot * self.tasks // self.key_groups if self.keyed else slot) == task_index


@dataclass(frozen=True)
class Cut:
    """A committed cut: how often each component has counted each message."""

    txid: int = -1
    counted: Mapping[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def cut_of(txid: int, values_of: Mapping[Task, Values]) -> Cut:
    """Make a cut from the values of all tasks."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (component_id, _), values in values_of.items():
        counted[component_id].update(messages_in(values))
    return Cut(txid, counted)


class BarrierModel(Witness):
    """Checks the states of a topology in all its processes, on one disk."""

    def __init__(self, disk: Disk, ledger: str) -> None:
        super().__init__()
        self.violations: list[str] = []
        self.cuts: list[Cut] = []
        """Committed cuts, in order."""
        self.layouts: Mapping[str, Layout] = {}
        self.rolled_back = 0
        self._disk, self._ledger = disk, ledger
        self._record = Record()
        self._live: dict[Task, Values] = {}
        self._set_aside: dict[tuple[int, int], dict[Task, Values]] = {}
        """Prepared values by txid and round of the PREPARE, and by task."""
        self._committed: dict[Task, Values] = {}
        self._told: set[tuple[Task, int]] = set()
        """Tasks of this process whose `pre_commit` has succeeded, and its txid."""
        self._back: set[Task] = set()
        """Tasks whose ROLLBACK has begun. Their next values must be the committed ones."""
        self.on_rollback: Callable[[], object] = lambda: None
        """Called when a task goes back."""
        disk.on_written = self._on_written

    def add_violation(self, text: str) -> None:
        """Add a violation."""
        self.violations.append(text)

    @property
    def record(self) -> Record:
        """The saved record."""
        return self._record

    @property
    def last_cut(self) -> Cut:
        """The cut that is committed now."""
        return self.cuts[-1] if self.cuts else Cut()

    def begins(self, layouts: Mapping[str, Layout]) -> None:
        """Begin a process, whose layout distributes the keys."""
        before, self._committed = self._committed, {}
        for component_id, layout in layouts.items():
            for index in range(layout.tasks):
                self._committed[component_id, index] = {}
            for (owner, index), values in before.items():
                for key, value in values.items() if owner == component_id else ():
                    self._committed[component_id, layout.owner(key) if layout.keyed else index][key] = value
        self.layouts = layouts
        self.states.clear()
        self._live.clear()
        self._back.clear()
        self._told.clear()

    # Events of the tasks

    def initialised(self, task: Task, state: Any) -> None:
        super().initialised(task, state)
        self.on_rollback()
        if self._record.phase == "preparing":
            self.add_violation(f"init_state of {task} while the saved record is {self._record}")
        self._falls_back(task, "INITSTATE")

    def touches(self, task: Task) -> None:
        if task in self._back:
            self._falls_back(task, "ROLLBACK")

    def changed(self, task: Task, key: Any, value: Any) -> None:
        if value is None:
            self._live[task].pop(key, None)
        else:
            self._live[task][key] = deepcopy(value)

    def prepares(self, task: Task, txid: int) -> None:
        self.touches(task)
        if self._record.phase == "committed" and txid == self._record.txid + 1:
            return  # another task has failed this PREPARE meanwhile, and the recovery will cancel the hook
        self._expect_phase(f"PREPARE({txid}) of {task}", "preparing", txid)
        self._compare(task, self._live[task], f"PREPARE({txid})")
        cut = self._set_aside.setdefault((txid, self._record.prepared_round), {})
        if task in cut:
            self.add_violation(f"{task} prepared {txid} twice in round {self._record.prepared_round}")
        cut[task] = deepcopy(self._live[task])

    def commits(self, task: Task, txid: int) -> None:
        self._expect_phase(f"COMMIT({txid}) of {task}", "committing", txid)

    def has_committed(self, task: Task, txid: int) -> None:
        self._told.add((task, txid))

    def rolls_back(self, task: Task) -> None:
        self.on_rollback()
        if self._record.phase == "preparing":
            self.add_violation(f"pre_rollback of {task} while the saved record is {self._record}")
        self._back.add(task)

    def _falls_back(self, task: Task, why: str) -> None:
        self._back.discard(task)
        self.rolled_back += why == "ROLLBACK"
        self._live[task] = deepcopy(self._committed[task])
        self._compare(task, self._live[task], why)

    def _compare(self, task: Task, expected: Values, when: str) -> None:
        found = list(self.states[task].items())
        if len(found) != len({key for key, _ in found}):
            self.add_violation(f"at {when} items() of {task} gave a key twice: {found}")
        if dict(found) != expected:
            self.add_violation(f"at {when} {task} holds {dict(found)}, not {expected}")

    def _expect_phase(self, what: str, phase: str, txid: int | None = None) -> None:
        if self._record.phase != phase or (txid is not None and self._record.txid != txid):
            self.add_violation(f"{what} while the saved record is {self._record}")

    # Events of the disk

    def _on_written(self, entries: dict[str, object]) -> None:
        if "record" not in entries:
            return
        phase, txid, round_, prepared_round, counted = cast(tuple[Any, int, int, int, list[list[int]]], entries["record"])
        before, self._record = self._record, Record(phase, txid, round_, prepared_round, tuple((each[0], each[1]) for each in counted))
        if phase == "committing" and before.phase != "committing":
            self._commit()
        if phase == "committed" and before.phase == "committing":
            untold = sorted(task for task in self._committed if (task, txid) not in self._told)
            if untold:
                self.add_violation(f"txid {txid} is done, and pre_commit({txid}) has not succeeded in {untold}")

    def _commit(self) -> None:
        record = self._record
        last = self.last_cut.txid
        if record.txid != last + 1:
            self.add_violation(f"txid {record.txid} is committed after {last}")
        cut = self._set_aside.pop((record.txid, record.prepared_round), {})
        missing = self._committed.keys() - cut.keys()
        if missing:
            self.add_violation(f"txid {record.txid} is committed, and {sorted(missing)} had not prepared it")
            return
        for task, values in cut.items():
            if not messages_in(self._committed[task]) <= messages_in(values):
                self.add_violation(f"{task} has lost messages between the cuts {last} and {record.txid}")
            if (durable := self._durable(task)) != values:
                self.add_violation(f"txid {record.txid} is committed, and the disk holds {durable} of {task}, not {values}")
        self._committed = dict(cut)
        self.cuts.append(cut_of(record.txid, cut))

    def check_disk(self) -> None:
        """Check that the disk holds the committed values, which a new process would restore."""
        for task, values in self._committed.items():
            if (durable := self._durable(task)) != values:
                self.add_violation(f"at the end the disk holds {durable} of {task}, not {values}")

    def _durable(self, task: Task) -> Values:
        """Values of a task on disk: its rows, and the committed deltas above them, decoded without the engine."""
        component_id, index = task
        layout, codec = self.layouts[component_id], MessagePack()
        values = {
            codec.decode(key): codec.decode(value[WITHOUT_CHECKSUM])
            for (owner, slot, key), value in self._disk.rows.items()
            if owner == component_id and layout.owns(index, slot)
        }
        for (owner, writer, txid, round_), blobs in sorted(self._disk.deltas.items()):
            if (owner, writer) == task and self._record.is_committed(txid, round_):
                for part in (part for blob in blobs for part in decode_blob(blob[WITHOUT_CHECKSUM], codec)):
                    for key, value in zip(part.keys, part.values, strict=True):
                        if value is DELETED:
                            values.pop(key, None)
                        else:
                            values[key] = codec.decode(row_value(value, codec) or b"")
        return values
