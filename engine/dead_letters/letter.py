"""`DeadLetter`: a row that a topology has given up, with its error (DL-1). Its values are bounded, and are stored as the state is."""

import pickle
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast

from engine.errors import StateError
from engine.safe_text import safe_repr
from engine.state.codec import Codec, Unencodable

MOST_VALUES_BYTES: Final = 64 * 1024
"""Encoded values above this size are stored as a text."""
MOST_TEXT: Final = 4_000
MOST_ERROR: Final = 2_000
"""Characters of a text of values, and of an error."""
SLIM_VALUES_BYTES: Final = 2 * 1024
SLIM_TEXT: Final = 500
"""The same bounds in a ledger of bounded size."""
FORMAT: Final = 1
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


class EncodedRow(NamedTuple):
    """A row as a dead letter keeps it. Two rows with equal values of one stream have the same digest, in every attempt and process."""

    digest: bytes
    source: str
    """Component that emitted the row."""
    stream: str
    codec: str
    encoded: bytes | None
    """The values as a list. None: they cannot be encoded, or are too large."""
    text: str
    """The beginning of the values as a text, if `encoded` is None."""


def encode_row(source: str, stream: str, values: tuple[Any, ...], codec: Codec) -> EncodedRow:
    """Return a row with bounded values.

    >>> from engine.state.codec import MessagePack
    >>> row = encode_row("lines", "default", ("to be", 2), MessagePack())
    >>> MessagePack().decode(row.encoded), row.text
    (['to be', 2], '')
    """
    text, encoded = "", None
    try:
        encoded = identity = codec.encode(list(values))
    except Unencodable:
        identity = _identity(values)
    place = f"{source}\0{stream}\0".encode("utf-8", "surrogatepass")
    digest = blake2b(place + identity, digest_size=16).digest()
    if encoded is None or len(encoded) > MOST_VALUES_BYTES:
        encoded, text = None, clipped(safe_repr(values), MOST_TEXT)
    return EncodedRow(digest, source, stream, codec.name, encoded, text)


def _identity(values: tuple[Any, ...]) -> bytes:
    """Return bytes that equal values share, although the codec cannot encode them."""
    try:
        return pickle.dumps(values, 5)
    except Exception:  # noqa: BLE001 - code of the user's values
        return _ADDRESS.sub("", safe_repr(values)).encode("utf-8", "surrogatepass")


def clipped(text: str, most: int) -> str:
    """Return the text with at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that was given up."""

    txid: int
    """Transaction, or checkpoint, that was committed without the row."""
    attempt_id: int
    """Attempt of the transaction, or round of the checkpoint, that left the row out."""
    component_id: str
    """Component whose call raised."""
    task_id: int
    row: EncodedRow
    error: str
    attempts: int
    """Attempts in which the row has failed."""
    written_at: float
    """Seconds since 1970."""
    is_processed: bool = False
    """True if only the target of a committer lacks the row, and all other effects of it are committed."""

    def entry(self) -> list[object]:
        """Return the entry of a ledger."""
        head = [FORMAT, self.txid, self.attempt_id, self.component_id, self.task_id]
        return [*head, list(self.row), clipped(self.error, MOST_ERROR), self.attempts, self.written_at, *[True] * self.is_processed]

    def slim(self) -> "DeadLetter":
        """Return the letter for a ledger of bounded size."""
        row = self.row
        if row.encoded is not None and len(row.encoded) > SLIM_VALUES_BYTES:
            row = row._replace(encoded=None, text=f"values of {len(row.encoded):,} bytes")
        return replace(self, row=row._replace(text=clipped(row.text, SLIM_TEXT)), error=clipped(self.error, SLIM_TEXT))


def letter_of(entry: object, name: str) -> DeadLetter:
    """Return the letter in an entry. Raises StateError if it is damaged, or written by a newer version."""
    try:
        written, txid, attempt_id, component_id, task_id, row, error, attempts, written_at, *processed = cast(Any, entry)
        if written != FORMAT:
            raise ValueError(f"format {written}")
        if type(txid) is not int or type(component_id) is not str:
            raise ValueError("its parts are of other types")
        return DeadLetter(txid, attempt_id, component_id, task_id, EncodedRow(*row), error, attempts, written_at, bool(processed))
    except (TypeError, ValueError) as fault:
        raise StateError(
            f"the dead letter {name} cannot be read: {fault}", hint="It is damaged, or a newer version of the engine wrote it."
        ) from None


def copies_by_row(letters: Iterable[DeadLetter]) -> Counter[tuple[str, bytes]]:
    """Return how many letters there are of each row, which is known by its component and its digest."""
    return Counter((letter.component_id, letter.row.digest) for letter in letters)
