"""The position of a flow-control spout in a topology with state, and the records that go alone in the next pass (EO-1, EO-6)."""

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from engine.state.codec import MessagePack
from engine.topology.task_port import SpoutPort

CODEC: Final = MessagePack()


class ExactPosition:
    """Behind the last record that was sent. The engine's checkpoints store it."""

    def __init__(self, port: SpoutPort) -> None:
        self._port = port
        self._emitted = port.emitted
        self._position: Any = None
        self._given: deque[tuple[Any, int]] = deque()
        """Positions that a checkpoint may store, with the number of records up to them. One for each checkpoint or look, until a commit."""
        self._suspects: set[bytes] = set()
        """Encoded positions of records that may be to blame for a failure."""
        self.recorded_position: Any = None
        """The committed position."""
        self.recorded = 0
        """Records of this pass up to the committed position."""

    def seek(self, position: Any) -> None:
        """Begin a pass."""
        self._position = self.recorded_position = position
        self.recorded = 0
        self._given.clear()
        self._emitted = self._port.emitted

    def note_sent(self, position: Any) -> bool:
        """Note that a pack was emitted, the last record of which has this position. Return False if the engine has left it out."""
        self._position = position
        before, self._emitted = self._emitted, self._port.emitted
        return self._emitted != before

    def position(self, sent_records: int) -> Any:
        """Return the position. sent_records: number of records of this pass up to it."""
        if sent_records and (not self._given or self._given[-1][1] != sent_records):
            self._given.append((self._position, sent_records))
        return self._position

    def note_committed(self, position: Any) -> bool:
        """Note that a position is stored. Return True if it is a new one, which ends the search for the records that have failed."""
        if position == self.recorded_position:
            return False
        self.recorded_position = position
        self._suspects.clear()
        while self._given:
            given, self.recorded = self._given.popleft()
            if given == position:
                break
        return True

    def suspect(self, positions: Iterable[Any]) -> None:
        """Send the records at these positions alone in the next pass."""
        self._suspects.update(bytes(CODEC.encode(position)) for position in positions)

    def is_suspect(self, position: Any) -> bool:
        """Tell whether the record at a position goes alone."""
        return bytes(CODEC.encode(position)) in self._suspects
