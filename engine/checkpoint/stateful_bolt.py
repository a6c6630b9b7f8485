"""Bolts that keep what they know: bases of a user's stateful bolts."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar

from engine.api import BasicBolt, Bolt
from engine.state import KeyValueState


class KeepsState(ABC):
    """What stateful bolts have in common: their state, and hooks around a checkpoint. Each may be `async def`.

    An ack of theirs is kept until the checkpoint that holds its effects is committed (CP-5); so no crash loses what an acked tuple did.
    """

    keeps_state: ClassVar[bool] = True

    @abstractmethod
    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        """Take the state, as of the last commit. Called once per instance, after `prepare` and before the first tuple."""

    def key_of(self, key: Any) -> object:
        """Return the part of a key by which the tuples come here, where that is not the key itself (CP-9)."""
        return key

    def pre_prepare(self, txid: int) -> Awaitable[None] | None:
        """Called before what has changed is set aside for txid; changes made here belong to it."""
        return None

    def pre_commit(self, txid: int) -> Awaitable[None] | None:
        """Called before txid is committed in the state; it is decided, and may be repeated after a crash.

        If it raises, the error is reported, and the commit goes on.
        """
        return None

    def pre_rollback(self) -> Awaitable[None] | None:
        """Called before what is not committed is dropped."""
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
    """A `BasicBolt` with a state, in `self.state`: every emit is anchored, and the input acked when `execute` has returned.

    >>> class Count(StatefulBasicBolt):
    ...     def execute(self, tup):
    ...         self.state.put(tup["word"], self.state.get(tup["word"], 0) + 1)
    """

    state: KeyValueState[Any, Any]
    """Set before the first tuple."""

    def init_state(self, state: KeyValueState[Any, Any]) -> Awaitable[None] | None:
        self.state = state
        return None
