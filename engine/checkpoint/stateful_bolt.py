"""Bases of stateful bolts."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar

from engine.api import BasicBolt, Bolt
from engine.state import KeyValueState


class KeepsState(ABC):
    """State and hooks that stateful bolts share. Each method may be `async def`.

    The engine keeps each ack until the checkpoint with its effects is committed (CP-5). No crash loses the effects of an acked tuple.
    """

    keeps_state: ClassVar[bool] = True

    @abstractmethod
    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        """Take the state of the last commit. Called once per instance, after `prepare` and before the first tuple."""

    def key_of(self, key: Any) -> object:
        """Return the value by which the fields grouping chooses the task of a key. Override it if it is not the key itself (CP-9)."""
        return key

    def pre_prepare(self, txid: int) -> Awaitable[None] | None:
        """Called before the changes of txid are frozen. Changes made here belong to it."""
        return None

    def pre_commit(self, txid: int) -> Awaitable[None] | None:
        """Called before txid is committed in the state. The commit is decided already, and may be repeated after a crash.

        If this raises, the error is reported, and the commit continues.
        """
        return None

    def pre_rollback(self) -> Awaitable[None] | None:
        """Called before uncommitted changes are dropped."""
        return None


class StatefulBolt(KeepsState, Bolt):
    """A `Bolt` with a state.

    >>> from engine.api import Fields
    >>> class Count(StatefulBolt):
    ...     output_fields = Fields("word", "count")
    ...     def init_state(self, state):
    ...         self.counts = state
    ...     def execute(self, tup):
    ...         count = self.counts.get(tup["word"], 0) + 1
    ...         self.counts.put(tup["word"], count)
    ...         self.collector.emit((tup["word"], count), anchors=tup)
    ...         self.collector.ack(tup)
    """


class StatefulBasicBolt(KeepsState, BasicBolt):
    """A `BasicBolt` with its state in `self.state`. Every emit is anchored, and the input is acked when `execute` has returned.

    >>> class Count(StatefulBasicBolt):
    ...     def execute(self, tup):
    ...         self.state.put(tup["word"], self.state.get(tup["word"], 0) + 1)
    """

    state: KeyValueState[Any, Any]
    """Set before the first tuple."""

    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        self.state = state
        return None
