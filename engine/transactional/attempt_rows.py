"""Rows of one attempt at one task that fail, or that are left out because they were given up (TX-13)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from engine.api import Tuple
from engine.dead_letters import EncodedRow, clipped, encode_row
from engine.errors import Failure
from engine.state.codec import Codec

MOST_FAILED_ROWS: Final = 1_000
"""Failed rows that a task tells of one attempt. A batch with more of them is tried more often."""
MOST_ERROR: Final = 2_000


class RowOrders(NamedTuple):
    """What the coordinator tells all bolts before it begins an attempt, if rows of the batch have failed."""

    given_up: Mapping[str, Mapping[bytes, int]]
    """Component -> digest of a row -> copies that are not executed."""
    watched: frozenset[str]
    """Components of which every task tells how many rows have passed."""


class FailedRow(NamedTuple):
    """Copies of one row that failed in an attempt, at one task."""

    copies: int
    error: str


class RowReport(NamedTuple):
    """The answer of a task to the coordinator."""

    component_id: str
    passed: int
    """Rows that the task has processed in the attempt."""
    failed: Mapping[bytes, FailedRow]
    """By the digest of the row."""
    left_out: tuple[EncodedRow, ...]
    """Rows that were given up and not executed."""
    failure: Failure | None
    """The first failure."""
    knew_orders: bool
    """False: the task had no orders. If there were some, an instance that died has taken them along."""


class AttemptRows:
    """The failed and left-out rows of one attempt at one task."""

    def __init__(self, component_id: str, codec: Codec, orders: RowOrders | None = None) -> None:
        self._component_id = component_id
        self._codec = codec
        self._left: Counter[bytes] = Counter({} if orders is None else orders.given_up.get(component_id, {}))
        self._knew_orders = orders is not None
        self._is_watched = orders is not None and component_id in orders.watched
        self._failed: dict[bytes, FailedRow] = {}
        self._left_out: list[EncodedRow] = []
        self._failures = 0
        self.failure: Failure | None = None
        """The first failure of a row."""
        self.spoiled: Failure | None = None
        """Why the attempt must fail although none of its rows does: the rows of a burst that raised were executed again, alone."""

    @property
    def leaves_out(self) -> bool:
        """Whether rows of this task may have been given up."""
        return bool(self._left)

    def note_failed(self, tup: Tuple, failure: Failure) -> None:
        """Note a row whose call has raised."""
        self._failures += 1
        self.failure = self.failure or failure
        if len(self._failed) < MOST_FAILED_ROWS:
            digest = self._encoded(tup).digest
            copies = self._failed[digest].copies if digest in self._failed else 0
            self._failed[digest] = FailedRow(copies + 1, clipped(failure.error or failure.describe(), MOST_ERROR))

    def leave_out(self, tup: Tuple) -> bool:
        """Return whether a row is not to be executed, and note it."""
        if not self._left:
            return False
        row = self._encoded(tup)
        if row.digest not in self._left:
            return False
        self._left[row.digest] -= 1
        if not self._left[row.digest]:
            del self._left[row.digest]
        self._left_out.append(row)
        return True

    def take_report(self, received: int) -> RowReport | None:
        """Return what the coordinator must know. None: nothing. received: tuples of the attempt that have come to the task."""
        if not (self._failed or self._left_out or self._is_watched):
            return None
        passed = received - self._failures - len(self._left_out)
        report = RowReport(self._component_id, passed, self._failed, tuple(self._left_out), self.failure, self._knew_orders)
        self._failed, self._left_out, self._is_watched = {}, [], False
        return report

    def _encoded(self, tup: Tuple) -> EncodedRow:
        values: tuple[Any, ...] = tup.values
        return encode_row(tup.source_component, tup.stream, values[1:], self._codec)
