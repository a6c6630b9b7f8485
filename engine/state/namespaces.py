"""Names of state namespaces, and the prefixes of their keys in stored rows (CP-12, docs/decisions/0002, "Namespaces").

A row of a namespace has the key `prefix + key`, in the slot of the key alone. No prefix begins another one, and no MessagePack begins with
the first byte of a prefix, so rows of the plain state are as they always were.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from engine.errors import StateError
from engine.safe_text import safe_repr

Name: TypeAlias = int | str
"""Name of a namespace: an int of 64 bits, or a text that is not empty."""

FIRST_BYTE: Final = b"\xc1"
"""MessagePack never uses this byte."""
_INT, _STR = b"\xc1i", b"\xc1s"
_HEAD: Final = len(_INT)
_INT_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_LEAST, _MOST = -(2**63), 2**63 - 1


def checked_name(name: object) -> Name:
    """Return a name. Raises StateError for anything else."""
    if (type(name) is int and _LEAST <= name <= _MOST) or (type(name) is str and name):
        return name
    raise StateError(
        f"{safe_repr(name)} cannot be the name of a namespace", hint="Use an int of at most 64 bits, or a str that is not empty."
    )


def prefix_of(name: Name | None) -> bytes:
    """Return the prefix of the keys of a namespace. None: the plain state, whose keys have no prefix.

    >>> prefix_of("ab"), prefix_of(7) < prefix_of(8)
    (b'\\xc1s\\x00\\x00\\x00\\x02ab', True)
    """
    if name is None:
        return b""
    if isinstance(name, int):
        return _INT + (name - _LEAST).to_bytes(_INT_BYTES, "big")
    text = name.encode("utf-8", "surrogatepass")
    return _STR + len(text).to_bytes(_LENGTH_BYTES, "big") + text


def name_of(prefix: bytes) -> Name | None:
    """Return the name of a prefix.

    >>> name_of(prefix_of(-7)), name_of(prefix_of("ü")), name_of(b"")
    (-7, 'ü', None)
    """
    if not prefix:
        return None
    if prefix[:_HEAD] == _INT:
        return int.from_bytes(prefix[_HEAD:], "big") + _LEAST
    return prefix[_HEAD + _LENGTH_BYTES :].decode("utf-8", "surrogatepass")


def stored_prefix(key: bytes) -> bytes:
    """Return the prefix of a stored key, empty for a key of the plain state. Raises ValueError for bytes that the engine never wrote.

    >>> stored_prefix(prefix_of("ab") + b"key"), stored_prefix(b"key")
    (b'\\xc1s\\x00\\x00\\x00\\x02ab', b'')
    """
    if key[:1] != FIRST_BYTE:
        return b""
    kind, end = key[:_HEAD], 0
    if kind == _INT:
        end = _HEAD + _INT_BYTES
    elif kind == _STR and len(key) > _HEAD + _LENGTH_BYTES:
        length = int.from_bytes(key[_HEAD : _HEAD + _LENGTH_BYTES], "big")
        end = _HEAD + _LENGTH_BYTES + length if length else 0
    if not _HEAD < end < len(key):
        raise ValueError("this is not a key of a namespace")
    return key[:end]


def end_of(prefix: bytes) -> bytes:
    """Return the least bytes that are greater than all keys with this prefix, which is not empty.

    >>> end_of(b"a"), end_of(b"a\\xff")
    (b'b', b'b')
    """
    kept = prefix.rstrip(b"\xff")  # the first byte of a prefix is less
    return kept[:-1] + bytes([kept[-1] + 1])


class DropMarks:
    """Dropped namespaces above stored rows, each for the slots of the tasks that dropped it."""

    def __init__(self) -> None:
        self._slots_by_prefix: dict[bytes, list[range]] = {}

    def __bool__(self) -> bool:
        return bool(self._slots_by_prefix)

    def add(self, prefixes: Iterable[bytes], slots: range) -> None:
        """Add namespaces that a task with these slots has dropped."""
        for prefix in prefixes:
            self._slots_by_prefix.setdefault(prefix, []).append(slots)

    def mask(self, slot: int, key: bytes) -> bool:
        """Tell whether a stored row belongs to a dropped namespace."""
        return key[:1] == FIRST_BYTE and any(slot in slots for slots in self._slots_by_prefix.get(stored_prefix(key), ()))
