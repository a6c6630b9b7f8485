"""`StoredLetters`: the dead letters of a topology, as entries of the ledger that has the record of its commits (DL-1, DL-2).

A ledger writes several entries in one atomic step. So the letters of a transaction, or of a checkpoint, become durable with the record that
decides it, and nothing has to be folded or dropped later. An entry is named by its txid. When another attempt of the txid begins to commit,
its letters replace those of the attempt before in the same step, so only the attempt that commits counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from engine.dead_letters.letter import SLIM_TEXT, SLIM_VALUES_BYTES, DeadLetter, letter_of
from engine.errors import StateError

MOST_LETTERS: Final = 10_000
"""Dead letters of one topology (DL-3)."""
BYTES_OF_ENTRY: Final = 200
"""Bytes of an entry beside its values and texts."""
MOST_SLIM_BYTES: Final = BYTES_OF_ENTRY + SLIM_VALUES_BYTES + 2 * 4 * SLIM_TEXT
_PREFIX: Final = "letter:"
_RETRY: Final = "retry:"


class StoredLetters:
    """Names of the stored letters, and the changes of the ledger that add some. The letters themselves stay in the store."""

    def __init__(self, entries: Mapping[str, object], most_bytes: int | None = None) -> None:
        """entries: of the ledger. most_bytes: bound of the ledger's own size (None: none). Raises StateError for an unreadable letter."""
        self._most_bytes = most_bytes
        self._sizes: dict[str, int] = {}
        self._last: DeadLetter | None = None
        found = letters_in(entries)
        for name, letter in found.items():
            self._note(name, letter)
        newest = max((letter.txid for letter in found.values()), default=0)
        self._undecided = [letter for letter in found.values() if letter.txid == newest]

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def last(self) -> DeadLetter | None:
        """The newest letter that this object has seen."""
        return self._last

    @property
    def room(self) -> int:
        """Number of letters that may be added. A ledger of bounded size has room for slim letters until its bytes are used up."""
        left = MOST_LETTERS - len(self._sizes)
        if self._most_bytes is not None:
            left = min(left, (self._most_bytes - sum(self._sizes.values())) // MOST_SLIM_BYTES)
        return max(left, 0)

    def of_txid(self, txid: int) -> list[DeadLetter]:
        """Return the letters of a txid whose commit had begun when they were read."""
        return [letter for letter in self._undecided if letter.txid == txid]

    def replace(self, txid: int, letters: Iterable[DeadLetter]) -> dict[str, object]:
        """Return the changes of the ledger after which a txid has these letters, and no others. Empty if it has none and had none."""
        old = [name for name in self._sizes if txid_of(name) == txid] if self._sizes else []
        changes: dict[str, object] = dict.fromkeys(old)
        for name in old:
            del self._sizes[name]
        return changes | self.add(txid, letters)

    def add(self, txid: int, letters: Iterable[DeadLetter]) -> dict[str, object]:
        """Return the changes of the ledger that add letters to those of a txid."""
        changes: dict[str, object] = {}
        last = max((_order(name)[1] for name in self._sizes if txid_of(name) == txid), default=0) if self._sizes else 0
        for number, letter in enumerate(letters, last + 1):
            name, kept = name_of(txid, number), letter if self._most_bytes is None else letter.slim()
            changes[name] = kept.entry()
            self._note(name, kept)
        return changes

    def remove(self, names: Iterable[str]) -> dict[str, object]:
        """Return the changes of the ledger that remove letters, by the names of their entries, and the marks of their retries."""
        changes: dict[str, object] = {}
        for name in names:
            self._sizes.pop(name, None)
            changes |= {name: None, retry_name(name): None}
        return changes

    def _note(self, name: str, letter: DeadLetter) -> None:
        self._sizes[name] = size_of(letter)
        if self._last is None or letter.written_at >= self._last.written_at:
            self._last = letter


def size_of(letter: DeadLetter) -> int:
    """Return about the number of bytes of an entry."""
    return BYTES_OF_ENTRY + len(letter.row.encoded or b"") + 4 * (len(letter.row.text) + len(letter.error))


def letters_in(entries: Mapping[str, object]) -> dict[str, DeadLetter]:
    """Return the letters among the entries of a ledger by the names of their entries, the oldest txid first."""
    names = sorted((name for name in entries if name.startswith(_PREFIX)), key=_order)
    return {name: letter_of(entries[name], shown_name(name)) for name in names}


def name_of(txid: int, number: int) -> str:
    """Return the name of an entry. number: counts the letters of the txid from 1.

    >>> name_of(17, 3), shown_name("letter:17.3"), txid_of("letter:17.3")
    ('letter:17.3', '17.3', 17)
    """
    return f"{_PREFIX}{txid}.{number}"


def shown_name(name: str) -> str:
    """Return the name of a letter for users."""
    return name.removeprefix(_PREFIX)


def entry_name(shown: str) -> str:
    """Return the name of the entry of a letter that a user has named."""
    return f"{_PREFIX}{shown}"


def retry_name(name: str) -> str:
    """Return the name of the entry that marks a letter for a retry (DL-6). name: of the letter's entry.

    >>> retry_name("letter:17.3")
    'retry:17.3'
    """
    return f"{_RETRY}{shown_name(name)}"


def letters_to_retry(entries: Mapping[str, object]) -> dict[str, DeadLetter]:
    """Return the letters that are marked for a retry, by the names of their entries."""
    if not any(name.startswith(_RETRY) for name in entries):
        return {}
    return {name: letter for name, letter in letters_in(entries).items() if retry_name(name) in entries}


def txid_of(name: str) -> int:
    """Return the txid of an entry."""
    return _order(name)[0]


def _order(name: str) -> tuple[int, int]:
    txid, _, number = name.removeprefix(_PREFIX).partition(".")
    try:
        return int(txid), int(number)
    except ValueError:
        raise StateError(f"{name!r} names no dead letter", hint="The name of a letter is TXID.NUMBER, such as 17.3.") from None
