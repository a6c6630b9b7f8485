"""Witness and chance of the bolts in one child process of a topology with state. The log brings the events to the model in the run."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.checkpoint.model import BarrierModel, Task, Witness
from tests.checkpoint.world import Chance

EVENTS: Final = logging.getLogger("tests.checkpoint.child")
"""Logger for the events of children. The log of a child arrives in its run (PR-1), in order with its emits, changes and results."""
LONGEST_SECS: Final = 0.005
"""A child waits in real time."""


class ChildError(Exception):
    """Error of a bolt in a child. The package `engine.testing` would take each child longer to import than to run."""


class ChildChance(Chance):
    """Chance of the bolts in one process."""

    def __init__(self, chance: Chance, crash: float) -> None:
        """crash: chance that a step of an instance kills its process, and chance that the step raises."""
        super().__init__(chance.draws, chance.fails, chance.waits, LONGEST_SECS)
        self.crash = crash

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin in the child. The next process of the task draws other numbers, or it would die at the same step."""
        self.__dict__ |= state
        self.draws.seed(f"{self.draws.random()} {os.getpid()}")

    def strike(self, *, raises: bool) -> None:
        """Kill this process by chance, or raise."""
        if self.draws.random() < self.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if raises and self.draws.random() < self.crash:
            raise ChildError("by chance")


class ChildWitness(Witness):
    """Sends the events of a stateful bolt to the model, with the contents of the state if these matter."""

    def __init__(self, chance: ChildChance) -> None:
        super().__init__()
        self.chance = chance
        self.is_back = False
        """A ROLLBACK has begun, so the next contents matter."""

    def initialised(self, task: Task, state: Any) -> None:
        self.chance.strike(raises=True)
        super().initialised(task, state)
        self._send("initialised", task, compares=True)

    def touches(self, task: Task) -> None:
        if self.is_back:
            self._send("touches", task, compares=True)
        self.is_back = False
        self.chance.strike(raises=True)

    def changed(self, task: Task, key: Any, value: Any) -> None:
        self._send("changed", task, key, value)
        self.chance.strike(raises=False)

    def prepares(self, task: Task, txid: int) -> None:
        self.chance.strike(raises=True)
        self._send("prepares", task, txid, compares=True)
        self.is_back = False

    def commits(self, task: Task, txid: int) -> None:
        self._send("commits", task, txid)
        self.chance.strike(raises=True)

    def has_committed(self, task: Task, txid: int) -> None:
        self._send("has_committed", task, txid)

    def rolls_back(self, task: Task) -> None:
        self._send("rolls_back", task)
        self.is_back = True
        self.chance.strike(raises=True)

    def _send(self, event: str, task: Task, *arguments: Any, compares: bool = False) -> None:
        items = list(self.states[task].items()) if compares else None
        EVENTS.warning("%s of %s", event, task, extra={"witnessed": (event, task, arguments, items)})


class _Contents:
    """Contents of a state in a child at one moment. The model asks it as it asks a state."""

    def __init__(self, items: list[tuple[Any, Any]]) -> None:
        self._items = items

    def items(self) -> list[tuple[Any, Any]]:
        """Pairs of key and value."""
        return self._items


class _ToModel(logging.Handler):
    def __init__(self, model: BarrierModel) -> None:
        super().__init__()
        self.model = model

    def emit(self, record: logging.LogRecord) -> None:
        event, task, arguments, items = record.witnessed  # type: ignore[attr-defined]
        if items is not None:
            self.model.states[task] = _Contents(items)
        if event == "initialised":
            arguments = (self.model.states[task],)
        getattr(self.model, event)(task, *arguments)


@contextmanager
def events_to(model: BarrierModel) -> Iterator[None]:
    """Pass the events of all children to the model, and to nobody else."""
    handler = _ToModel(model)
    EVENTS.addHandler(handler)
    EVENTS.propagate = False
    try:
        yield
    finally:
        EVENTS.removeHandler(handler)
        EVENTS.propagate = True
