"""How far each consumer is: what it has planned, and what it has committed (SP-3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from spark_bridge.handover.checked_json import decode, encode, torn
from spark_bridge.handover.errors import HandoverError
from spark_bridge.handover.names import CONSUMERS, attempt_text, consumer_file, consumer_of
from spark_bridge.handover.storage import Storage

KIND: Final = "consumer"
REPAIR: Final = (
    "A copy is older than the query, which writes the file with each micro-batch. Have it go on where its checkpoint is: "
    "{command} repair {name} --checkpoint PATH. Without a checkpoint, begin anew: {command} remove {name}, then add {name}."
)
"""Of a damaged file."""
NO_ATTEMPTS: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Position:
    """Both txids grow, unless a new checkpoint is told to begin before them, and `committed` is never above `planned`.

    >>> Position().plan(3, {2: 7, 3: 8}).commit(2)
    Position(planned=3, committed=2, attempts={3: 8})
    """

    planned: int = 0
    """Up to which txid it has begun to read: admission counts from here."""
    committed: int = 0
    """Up to which txid it is done, for ever: deletion counts from here."""
    attempts: Mapping[int, int] = field(default_factory=dict)
    """Which attempt of each txid it planned, for those above `committed`; empty where manifests are not named by attempt."""
    began: int | None = field(default=None, compare=False, repr=False)
    """Behind which txid the newest plan begins: the same plan may come again. None: nothing is planned."""

    def plan(self, end: int, attempts: Mapping[int, int] = NO_ATTEMPTS, *, begin: int | None = None) -> "Position":
        """Return it with `planned` at `end`. Raises HandoverError where it has planned another attempt of a txid.

        `begin`: behind which txid; without it it follows what is planned, and what is below that changes nothing.
        """
        for txid, attempt_id in attempts.items():
            noted = self.attempts.get(txid, attempt_id)
            if noted != attempt_id:
                text = f"{attempt_text(txid, noted)} is planned already, and now {attempt_text(txid, attempt_id)} is to be"
                raise HandoverError(text, hint="Ask for the manifest of the attempt that is planned. Does another query use this consumer?")
        if begin is None:
            began = self.planned if end > self.planned else self.began
            return self._with(max(self.planned, end), self.committed, {**self.attempts, **attempts}, began)
        return self._with(end, min(self.committed, begin), {**self.attempts, **attempts}, begin)

    def commit(self, end: int) -> "Position":
        """Return it with `committed` raised to `end`, and with it `planned`: what is committed was planned."""
        return self._with(max(self.planned, end), max(self.committed, end), self.attempts, self.began)

    def _with(self, planned: int, committed: int, attempts: Mapping[int, int], began: int | None) -> "Position":
        return Position(planned, committed, {txid: attempts[txid] for txid in sorted(attempts) if committed < txid <= planned}, began)


class Consumer:
    """The file of one consumer. Once it is there, only the reader of its one query writes it, and always whole."""

    def __init__(self, storage: Storage, name: str) -> None:
        """Take where it is; raise HandoverError for what can be no name of one. Nothing is written before `add`, `plan` or `commit`."""
        self.name: Final = name
        self._file: Final = consumer_file(name)
        self._storage = storage

    def read(self) -> Position:
        """Return where it stands: at 0 before it has planned anything."""
        return self.find() or Position()

    def find(self) -> Position | None:
        """Return where it stands; None where it has no file."""
        content = self._storage.read(self._file)
        return None if content is None else read_position(content, self._storage.url, self.name)

    def plan(self, end: int, attempts: Mapping[int, int] = NO_ATTEMPTS, *, begin: int | None = None) -> Position:
        """Note, durably, that it begins to read what is behind `begin` up to `end`; return where it stands.

        `attempts`: by txid, whose manifests it took, where manifests are named by attempt. Raises HandoverError where another one of a
        txid is planned already: then the manifest to read is `handover.manifest(txid, position.attempts[txid])`.
        """
        position = self.read()
        return self._write(position, position.plan(end, attempts, begin=begin))

    def commit(self, end: int) -> Position:
        """Note, durably, that it never asks again for what is up to `end`; return where it stands."""
        position = self.read()
        return self._write(position, position.commit(end))

    def add(self) -> Position:
        """Have its file be there, so that nothing is deleted before it has committed it; return where it stands."""
        self._storage.make_folder(CONSUMERS)
        self._storage.create(self._file, encode_position(self.name, Position()))
        return self.read()

    def put(self, position: Position) -> None:
        """Have it stand there, whatever its file has said. For a command of a person only."""
        self._storage.replace(self._file, encode_position(self.name, position))

    def remove(self) -> None:
        """Forget it: nothing waits for it any more. For a command of a person only."""
        self._storage.remove(self._file)

    def _write(self, old: Position, new: Position) -> Position:
        if new != old or new.began != old.began or new == Position():
            self._storage.replace(self._file, encode_position(self.name, new))
        return new


def positions(storage: Storage) -> dict[str, Position]:
    """Return where each consumer stands that has a file. Raises TornFile, which names it, where one of the files is damaged."""
    found = {name: Consumer(storage, name).find() for name in names_of_consumers(storage)}
    return {name: position for name, position in found.items() if position is not None}


def names_of_consumers(storage: Storage) -> list[str]:
    """Return the consumers that have a file, whatever stands in it."""
    found = map(consumer_of, sorted(storage.names(CONSUMERS)))
    return [name for name in found if name is not None]


def encode_position(name: str, position: Position) -> bytes:
    """Return the file of a consumer."""
    attempts = {str(txid): attempt_id for txid, attempt_id in position.attempts.items()}
    fields = {"name": name, "planned": position.planned, "committed": position.committed, "began": position.began, "attempts": attempts}
    return encode(KIND, fields)


def read_position(content: bytes, folder: str, name: str) -> Position:
    """Return what the file of a consumer says. Raises TornFile, which names the commands that repair it."""
    where = f"{folder}: {consumer_file(name)!r}"
    repair = REPAIR.format(command=f"python -m spark_bridge consumers {folder}", name=name)
    fields = decode(content, KIND, where, repair)
    try:
        attempts = {int(txid): attempt_id for txid, attempt_id in fields["attempts"].items()}
        position = Position(fields["planned"], fields["committed"], attempts, fields.get("began"))
    except (KeyError, ValueError, AttributeError) as error:
        raise torn(where, f"it lacks what a consumer's file has: {error}", repair) from error
    numbers = [position.planned, position.committed, *position.attempts.values()]
    if fields.get("name") != name or not all(map(_is_txid, numbers)) or not (position.began is None or _is_txid(position.began)):
        raise torn(where, f"it is of {fields.get('name')!r}, at {position}", repair)
    return position


def _is_txid(found: object) -> bool:
    return type(found) is int and 0 <= found < 2**63
