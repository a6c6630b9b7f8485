"""`StoredPositions` is the entry of the ledger with the positions of one exact spout, for runs and for tools (EO-2, PO-1 to PO-3)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from engine.checkpoint.machine import settled_at_start
from engine.checkpoint.record_entries import LEDGER, StoredEntries, record_entry
from engine.dead_letters import letters_in, letters_to_retry, retry_name
from engine.errors import FatalError, StateError
from engine.raised import raised_text
from engine.safe_text import safe_repr, safe_str
from engine.state import StateProvider
from engine.state.codec import MessagePack, Unencodable

CODEC: Final = MessagePack()
_PREFIX: Final = "positions:"


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """The stored positions of one spout."""

    component_id: str
    partitioned: bool
    """True if there is a position for each partition, not for each task."""
    tasks: int
    """Number of tasks that wrote them."""
    encoded: dict[str, bytes] = field(default_factory=dict)
    """Encoded positions by encoded partition or by task index, both as text."""

    def entry(self) -> dict[str, object]:
        """Return the entry of the ledger."""
        return {entry_name(self.component_id): [self.partitioned, self.tasks, self.encoded]}

    def changes(self) -> dict[str, object]:
        """Return the changes of the ledger that set these positions.

        The watermarks belonged to other ones. A spout that begins at its beginning owes nothing (EO-6).
        """
        changes = {**self.entry(), times_name(self.component_id): None}
        return changes if self.encoded else {**changes, owed_name(self.component_id): None}

    @property
    def positions(self) -> dict[Any, Any]:
        """The positions by partition or task index."""
        return {partition_named(name, self.partitioned): CODEC.decode(position) for name, position in self.encoded.items()}

    def with_positions(self, changes: Mapping[Any, Any]) -> "StoredPositions":
        """Return these positions with others for some partitions or tasks. Raises Unencodable."""
        changed = {name_of(partition, self.partitioned): bytes(CODEC.encode(position)) for partition, position in changes.items()}
        return StoredPositions(self.component_id, self.partitioned, self.tasks, self.encoded | changed)

    def without_positions(self) -> "StoredPositions":
        """Return the entry of a spout that begins at its beginning."""
        return StoredPositions(self.component_id, self.partitioned, self.tasks)


@dataclass(frozen=True, slots=True)
class SourceLayout:
    """How the positions of a spout are stored."""

    component_id: str
    tasks: int
    partitioned: bool

    def check(self, stored: StoredPositions, topology_name: str) -> None:
        """Raise StateError unless a run with this layout can continue at stored positions."""
        where = f"topology {topology_name!r}: spout {self.component_id!r}"
        if stored.partitioned != self.partitioned:
            was, now = ("by partition", "by task") if stored.partitioned else ("by task", "by partition")
            text = f"{where}: its positions were stored {was}, and it now has them {now}"
            raise StateError(text, hint="Keep `partitioned` of its class, or give the spout another id. It then starts from the beginning.")
        if not stored.partitioned and stored.tasks != self.tasks:
            text = f"{where}: its positions were stored by {stored.tasks} tasks, and it now has {self.tasks}"
            hint = f"Keep parallelism={stored.tasks}. Only a spout with `partitioned = True` can divide its positions anew."
            raise StateError(text, hint=hint)


def encoded_positions(layout: SourceLayout, task_index: int, position: Any, others: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the position of a task, encoded, as in an entry. Raises FatalError for one that cannot be stored.

    others: what other tasks of the spout have reported.
    """
    where = f"spout {layout.component_id!r}: position() returned {safe_repr(position)}"
    try:
        if not layout.partitioned:
            return {str(task_index): bytes(CODEC.encode(position))}
        if not isinstance(position, Mapping):
            raise FatalError(where, hint="A spout with `partitioned = True` returns a dict {partition: position}.")
        encoded: dict[str, bytes] = {}
        for partition, each in position.items():
            name = name_of(partition, True)
            if name in others or name in encoded:
                text = f"spout {layout.component_id!r}: two of its tasks report a position of partition {safe_repr(partition)}"
                raise FatalError(text, hint="Each partition belongs to one task.")
            encoded[name] = bytes(CODEC.encode(each))
        return encoded
    except Unencodable as error:
        hint = "Return numbers, texts, bytes, lists or dicts."
        raise FatalError(f"{where}, which cannot be stored: {safe_str(error)}", hint=hint) from None


def current_position(spout: Any, component_id: str) -> Any:
    """Return a copy of the position of a spout, which may be an object that it changes. What cannot be stored is returned as it is."""
    try:
        position = spout.position()
    except Exception as error:
        text = f"spout {component_id!r}: position() raised {raised_text(error)}"
        raise FatalError(text, hint="It returns the position behind the last emitted row, and may not raise.") from error
    try:
        return CODEC.decode(CODEC.encode(position))
    except Unencodable:
        return position


def has_moved(position: Any, copy: Any) -> bool:
    """Tell whether a position is another one than that of which `copy` was made. A NaN is equal to its copy only in its bytes."""
    return bool(position != copy) and CODEC.encode(position) != CODEC.encode(copy)


def entry_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the positions of a spout."""
    return f"{_PREFIX}{component_id}"


def times_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the watermarks of a spout."""
    return f"times:{component_id}"


def owed_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the owed rows of a spout."""
    return f"owed:{component_id}"


def letters_of(entries: Mapping[str, object], component_id: str, *, only_marked: bool = False) -> list[str]:
    """Return the names of the entries of dead letters whose rows a spout has emitted. only_marked: of those to be retried."""
    letters = letters_to_retry(entries) if only_marked else letters_in(entries)
    return [name for name, letter in letters.items() if letter.row.source == component_id and not letter.is_processed]


def name_of(partition: Any, partitioned: bool) -> str:
    """Return the name of a partition, or of a task index, in an entry. Raises Unencodable."""
    return bytes(CODEC.encode(partition)).hex() if partitioned else str(partition)


def partition_named(name: str, partitioned: bool) -> Any:
    """Return the partition or task index of a name."""
    return CODEC.decode(bytes.fromhex(name)) if partitioned else int(name)


def positions_of(entries: Mapping[str, object], component_id: str, topology_name: str) -> StoredPositions | None:
    """Return the positions of a spout from the entries of the ledger, None if nothing is stored. Raises StateError for a damaged entry."""
    entry = entries.get(entry_name(component_id))
    if entry is None:
        return None
    try:
        partitioned, tasks, encoded = cast(tuple[bool, int, dict[str, bytes]], entry)
        stored = StoredPositions(component_id, bool(partitioned), int(tasks), {str(name): bytes(each) for name, each in encoded.items()})
        _ = stored.positions
    except (TypeError, ValueError, AttributeError):
        text = f"the positions of {component_id!r} of topology {topology_name!r} cannot be read: {safe_repr(entry)}"
        raise StateError(text, hint="They are damaged, or of a newer version of the engine.") from None
    return stored


def positions_in(entries: Mapping[str, object], topology_name: str) -> dict[str, StoredPositions]:
    """Return the positions of all spouts, by component id."""
    ids = sorted(name.removeprefix(_PREFIX) for name in entries if name.startswith(_PREFIX))
    return {each: stored for each in ids if (stored := positions_of(entries, each, topology_name)) is not None}


async def change_positions(
    provider: StateProvider, topology_name: str, change: Callable[[dict[str, StoredPositions]], Iterable[StoredPositions]]
) -> None:
    """Open a provider, write what `change` makes of the stored positions in one atomic write, and close it.

    A checkpoint that was only being prepared is undone in the same write. Raises StateError if a process runs the topology.
    """
    await provider.open(topology_name)
    try:
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        entries = await ledger.read()
        stored = StoredEntries(entries, topology_name)
        stored.check_whole()
        changes = record_entry(settled_at_start(stored.record))
        for each in change(positions_in(entries, topology_name)):
            changes |= each.changes()
            if not each.encoded:  # it emits the rows of its letters again
                changes |= dict.fromkeys(map(retry_name, letters_of(entries, each.component_id, only_marked=True)))
        await ledger.write(changes)
    finally:
        await provider.close()
