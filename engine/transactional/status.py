"""Snapshot of the transactions of a run, and its entry in the run's snapshot."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.control import SnapshotEntry

ENTRY: Final = "transactions"
"""Entry of the snapshot."""


@dataclass(frozen=True, slots=True)
class TransactionsSnapshot:
    """The transactions of a run at one moment."""

    component_id: str
    """The coordinator."""
    committed_txid: int
    """Newest committed txid. 0: none."""
    committed: int
    """Transactions that this run has committed."""
    failed: int
    """Failed attempts."""
    open_txids: Mapping[str, tuple[int, ...]]
    """Open txids, ascending, by the phase: processing, processed, saving, committing. Phases without txids are left out."""


class TransactionsEntry(SnapshotEntry):
    """Transactions in a snapshot. `snapshot.entry(TransactionsEntry).value` is None before the coordinator is open."""

    name = ENTRY
    value: TransactionsSnapshot | None

    def __init__(self, value: TransactionsSnapshot | None) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return the fields of the value."""
        return None if self.value is None else {**asdict(self.value), "open_txids": {k: list(v) for k, v in self.value.open_txids.items()}}

    @classmethod
    def from_json(cls, value: Any) -> "TransactionsEntry":
        """Return the entry of a result of `to_json`."""
        if value is None:
            return cls(None)
        open_txids = {phase: tuple(txids) for phase, txids in value["open_txids"].items()}
        return cls(TransactionsSnapshot(**{**value, "open_txids": open_txids}))
