"""Durable state of a topology's transactions (TX-9): one entry of one ledger in the state provider."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from engine.dead_letters import StoredLetters
from engine.errors import FatalError, StateError, StateFenced
from engine.raised import headline
from engine.safe_text import safe_repr, safe_str
from engine.state import StateProvider, StoreRetry
from engine.state.codec import MessagePack, Unencodable
from engine.transactional.open_batches import PartitionOutput, Record
from engine.transactional.spouts import Partition

LEDGER: Final = "transactions"
ENTRY: Final = "transactions"
FORMAT: Final = 1


class TransactionalState:
    """The state provider of a transactional run, and the ledger in it. Outlives the instances of the coordinator."""

    def __init__(self, topology_name: str, provider: StateProvider, *, partitioned: bool, timeout_secs: float) -> None:
        """provider: the opened store. partitioned: whether the spout has partitions. The answer must be the same in all runs."""
        self._topology_name = topology_name
        self._provider = provider
        self._partitioned = partitioned
        self._patience = StoreRetry(timeout_secs, store="the store of the transactions")

    async def claim(self) -> tuple[int, Record, StoredLetters]:
        """Return a new epoch, the stored record and the dead letters. Only the owner of the newest epoch can save.

        Raises FatalError if the record or a letter cannot be read.
        """
        ledger = self._provider.ledger(LEDGER)
        try:
            epoch = await self._patience.call_with_retries(ledger.claim)
            entries = await self._patience.call_with_retries(ledger.read)
            record = record_of(entries, self._topology_name, partitioned=self._partitioned)
            return epoch, record, StoredLetters(entries, ledger.most_bytes)
        except StateError as error:
            raise FatalError(error.message, hint=error.hint) from error

    async def save(self, record: Record, written_at: float | None = None, letters: Mapping[str, object] = MappingProxyType({})) -> None:
        """Store a record durably, with the time of its write. letters: changes of the dead letters, which belong to the same atomic step.

        Raises FatalError if another process has taken the topology over, or if the store stays unavailable.
        """
        ledger = self._provider.ledger(LEDGER)
        entries = {**entries_of(record, partitioned=self._partitioned, written_at=written_at), **letters}
        try:
            await self._patience.call_with_retries(lambda: ledger.write(entries))
        except StateFenced as error:
            raise FatalError(
                f"topology {self._topology_name!r} has been taken over by another process, so this one ends: {error.message}",
                hint="Nothing is lost, because the other process continues. With -c standby=true a second process waits.",
            ) from error
        except StateError as error:
            raise FatalError(error.message, hint=error.hint) from error
        except Exception as error:  # under on_error="fail" the transaction would wait forever for a write that is never repeated
            raise FatalError(
                f"topology {self._topology_name!r}: its transactions cannot be stored: {headline(error)}",
                hint="A state provider raises StateUnavailable for temporary errors, and StateError for all others.",
            ) from error


class StoredRecord(NamedTuple):
    """The decoded entry of a ledger."""

    record: Record
    partitioned: bool
    """Whether the spout has partitions."""
    written_at: float | None
    """Time of the write, in seconds since 1970, by the clock of the writer."""


def entries_of(record: Record, *, partitioned: bool, written_at: float | None = None) -> dict[str, object]:
    """Return the ledger entries of a record."""
    following = None if record.next_output is None else [record.next_metadata, {p: list(share) for p, share in record.next_output.items()}]
    return {ENTRY: [FORMAT, partitioned, record.committed, record.metadata, dict(record.positions), following, written_at]}


def record_of(entries: Mapping[str, object], topology_name: str, *, partitioned: bool) -> Record:
    """Return the record in the entries of a ledger. Raises StateError if it is damaged, or belongs to the other kind of spout."""
    if ENTRY not in entries:
        return Record()
    stored = read_record(entries[ENTRY], topology_name)
    if stored.partitioned != partitioned:
        was, now = ("with", "without") if stored.partitioned else ("without", "with")
        raise StateError(
            f"topology {topology_name!r}: its stored transactions are of a spout {was} partitions, and the spout is now {now} partitions",
            hint="Give the topology another id, or use the old kind of spout.",
        )
    return stored.record


def read_record(entry: object, topology_name: str) -> StoredRecord:
    """Return the decoded entry. Raises StateError if it is damaged, or not written by this version of the engine."""
    try:
        written, *fields = cast(Any, entry)
        if written != FORMAT:
            raise ValueError(f"format {written}")
        partitioned, committed, metadata, positions, following, written_at = fields
        shares = None if following is None else {partition: PartitionOutput(*share) for partition, share in following[1].items()}
        if type(committed) is not int or type(positions) is not dict or not isinstance(written_at, int | float | None):
            raise ValueError("its parts are of other types")
        record = Record(committed, metadata, positions, None if following is None else following[0], shares)
        return StoredRecord(record, bool(partitioned), written_at)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        raise StateError(
            f"topology {topology_name!r}: the record of its transactions cannot be read: {error}",
            hint="It is damaged, or a newer version of the engine or another program wrote it.",
        ) from None


_CODEC: Final = MessagePack()
_CONSTANT: Final = frozenset({type(None), bool, int, float, str, bytes})


def checked_metadata(metadata: object, what: str) -> Any:
    """Return metadata as a later run will read it. Raises FatalError if it cannot be stored. what: the method that returned it."""
    try:
        return _CODEC.decode(_CODEC.encode(metadata))
    except Unencodable as error:
        raise FatalError(
            f"{what} returned metadata that cannot be stored: {safe_str(error)}",
            hint="Metadata is None, bool, int, float, str, bytes, or lists and dicts of these.",
        ) from None


def copied_metadata(metadata: Any) -> Any:
    """Return a copy of metadata for the user, who may change it."""
    return metadata if type(metadata) in _CONSTANT else _CODEC.decode(_CODEC.encode(metadata))


def checked_partitions(given: object, what: str) -> list[Partition]:
    """Return the names of partitions as a list. Raises FatalError unless they are distinct ints or strings."""
    named = list(given) if isinstance(given, (list, tuple, range, set, frozenset, dict)) else None
    if named is None or not all(isinstance(each, (int, str)) and not isinstance(each, bool) for each in named):
        raise FatalError(
            f"{what} returned {safe_repr(given)}, which is not a list of partition names", hint="Return a list of ints or strings."
        )
    if len(set(named)) != len(named) or "" in named:
        raise FatalError(
            f"{what} returned {safe_repr(given)}: the names must differ, and must not be empty", hint="Return each partition once."
        )
    return named
