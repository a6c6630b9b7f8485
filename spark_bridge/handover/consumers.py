"""Positions of consumers. A position has the txids that the query has planned and committed (SP-3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from spark_bridge.handover.checked_json import decode, encode, torn_file
from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.names import CONSUMERS, attempt_text, consumer_file, consumer_of
from spark_bridge.handover.storage import Storage

KIND: Final = "consumer"
REPAIR: Final = (
    "Do not restore it from a copy: the query rewrites it with each micro-batch, so a copy is too old. Set it from the checkpoint of the "
    "query: {command} repair {name} --checkpoint PATH. Without a checkpoint, begin anew: {command} remove {name}, then add {name}."
)
"""Hint for a damaged file of a consumer."""
NO_ATTEMPTS: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a consumer. `committed` is never above `planned`, and both only grow.

    Only a new checkpoint with an earlier start txid lowers both.

    >>> Position().plan(3, {2: 7, 3: 8}).commit(2)
    Position(planned=3, committed=2, attempts={3: 8})
    """

    planned: int = 0
    """Newest txid that the query has begun to read. Backpressure uses it."""
    committed: int = 0
    """Newest txid that the query will never read again. Deletion uses it."""
    attempts: Mapping[int, int] = field(default_factory=dict)
    """Planned attempt of each txid above `committed`. Empty unless manifests are named by attempt."""
    began: int | None = field(default=None, compare=False, repr=False)
    """Txid before the first one of the newest plan. Spark may request this plan again. None: no plan yet."""

    def plan(self, end: int, attempts: Mapping[int, int] = NO_ATTEMPTS, *, begin: int | None = None) -> "Position":
        """Return the position with `planned` at `end`. Raises HandoverError if another attempt of a txid is already planned.

        `begin`: the txid before the first one of this plan. Without `begin` the plan follows `planned`, and a lower `end` changes nothing.
        """
        for txid, attempt_id in attempts.items():
            planned = self.attempts.get(txid, attempt_id)
            if planned != attempt_id:
                text = f"{attempt_text(txid, planned)} is already planned, but {attempt_text(txid, attempt_id)} is requested"
                raise HandoverError(text, hint="Read the manifest of the planned attempt. Check whether another query uses this consumer.")
        if begin is None:
            began = self.planned if end > self.planned else self.began
            return self._with(max(self.planned, end), self.committed, {**self.attempts, **attempts}, began)
        return self._with(end, min(self.committed, begin), {**self.attempts, **attempts}, begin)

    def commit(self, end: int) -> "Position":
        """Return the position with `committed` raised to `end`. A lower `planned` is raised too."""
        return self._with(max(self.planned, end), max(self.committed, end), self.attempts, self.began)

    def _with(self, planned: int, committed: int, attempts: Mapping[int, int], began: int | None) -> "Position":
        return Position(planned, committed, {txid: attempts[txid] for txid in sorted(attempts) if committed < txid <= planned}, began)


class Consumer:
    """File of one consumer. Only the reader of its query writes the file, and replaces it as a whole."""

    def __init__(self, storage: Storage, name: str) -> None:
        """Raise HandoverError if the name is not valid. Nothing is written before `add`, `plan` or `commit`."""
        self.name: Final = name
        self._file: Final = consumer_file(name)
        self._storage = storage

    def read(self) -> Position:
        """Return the position of the consumer, which is 0 without a file."""
        return self.find() or Position()

    def find(self) -> Position | None:
        """Return the position of the consumer. None if it has no file."""
        content = self._storage.read(self._file)
        return None if content is None else read_position(content, self._storage.url, self.name)

    def plan(self, end: int, attempts: Mapping[int, int] = NO_ATTEMPTS, *, begin: int | None = None) -> Position:
        """Durably record that the query begins to read the txids after `begin` up to `end`. Return the new position.

        `attempts`: for each txid the attempt whose manifest the query read, if manifests are named by attempt. Raises HandoverError if
        another attempt of a txid is already planned. Then read `handover.manifest(txid, position.attempts[txid])`.
        """
        position = self.read()
        return self._write(position, position.plan(end, attempts, begin=begin))

    def commit(self, end: int) -> Position:
        """Durably record that the query never reads txids up to `end` again. Return the new position."""
        position = self.read()
        return self._write(position, position.commit(end))

    def add(self) -> Position:
        """Create the consumer's file, so that no batch is deleted before this consumer commits it. Return the position."""
        self._storage.make_folder(CONSUMERS)
        self._storage.create(self._file, encode_position(self.name, Position()))
        return self.read()

    def put(self, position: Position) -> None:
        """Overwrite the consumer's position, even in a damaged file. Only for commands that a person runs."""
        self._storage.replace(self._file, encode_position(self.name, position))

    def remove(self) -> None:
        """Remove the consumer's file, so that deletion and backpressure ignore the consumer. Only for commands that a person runs."""
        self._storage.remove(self._file)

    def _write(self, old: Position, new: Position) -> Position:
        # Also write position 0, because a query that has not read yet must have a file.
        if new != old or new.began != old.began or new == Position():
            self._storage.replace(self._file, encode_position(self.name, new))
        return new


def read_positions(storage: Storage) -> dict[str, Position]:
    """Return the position of each consumer that has a file. Raises TornFile with the name of a damaged file."""
    found = {name: Consumer(storage, name).find() for name in consumer_names(storage)}
    return {name: position for name, position in found.items() if position is not None}


def consumer_names(storage: Storage) -> list[str]:
    """Return the sorted names of the consumers that have a file, damaged or not."""
    found = map(consumer_of, sorted(storage.names(CONSUMERS)))
    return [name for name in found if name is not None]


def encode_position(name: str, position: Position) -> bytes:
    """Return the content of a consumer's file."""
    attempts = {str(txid): attempt_id for txid, attempt_id in position.attempts.items()}
    fields = {"name": name, "planned": position.planned, "committed": position.committed, "began": position.began, "attempts": attempts}
    return encode(KIND, fields)


def read_position(content: bytes, folder: str, name: str) -> Position:
    """Parse the file of a consumer. Raises TornFile, with the commands that repair it, if it is damaged."""
    where = f"{folder}: {consumer_file(name)!r}"
    repair = REPAIR.format(command=f"python -m spark_bridge consumers {folder}", name=name)
    fields = decode(content, KIND, where, repair)
    try:
        attempts = {int(txid): attempt_id for txid, attempt_id in fields["attempts"].items()}
        position = Position(fields["planned"], fields["committed"], attempts, fields.get("began"))
    except (KeyError, ValueError, AttributeError) as error:
        raise torn_file(where, f"a field of the consumer is missing or wrong: {error}", repair) from error
    numbers = [position.planned, position.committed, *position.attempts.values()]
    if fields.get("name") != name or not all(map(_is_txid, numbers)) or not (position.began is None or _is_txid(position.began)):
        raise torn_file(where, f"it belongs to consumer {fields.get('name')!r}, with {position}", repair)
    return position


def _is_txid(found: object) -> bool:
    return type(found) is int and 0 <= found < 2**63
