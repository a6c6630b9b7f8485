"""Rows that a topology has given up, kept with their errors in its state provider (DL-1 to DL-4)."""

from engine.dead_letters.letter import SLIM_TEXT, DeadLetter, EncodedRow, clipped, copies_by_row, encode_row
from engine.dead_letters.status import ENTRY, ERROR_IN_VIEWS, DeadLettersEntry, DeadLettersSnapshot
from engine.dead_letters.stored_letters import (
    MOST_LETTERS,
    StoredLetters,
    entry_name,
    letters_in,
    letters_to_retry,
    retry_name,
    shown_name,
    txid_of,
)

__all__ = [
    "ENTRY",
    "ERROR_IN_VIEWS",
    "MOST_LETTERS",
    "SLIM_TEXT",
    "DeadLetter",
    "DeadLettersEntry",
    "DeadLettersSnapshot",
    "EncodedRow",
    "StoredLetters",
    "clipped",
    "copies_by_row",
    "encode_row",
    "entry_name",
    "letters_in",
    "letters_to_retry",
    "retry_name",
    "shown_name",
    "txid_of",
]
