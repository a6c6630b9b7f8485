"""Encodings of keys and values, readable with the database's own tools if the database has a type for them.

Anything else is MessagePack. A decoded value is equal to the encoded one, and has the same type.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import copysign, isfinite
from typing import Any, Final

from engine.api.fields import short_repr
from engine.errors import StateError
from engine.safe_text import safe_str
from engine.state.codec import MessagePack, canonical
from engine.state.values import Raw, ValueRefused

INT64: Final = range(-(2**63), 2**63)
MOST_BITS: Final = 2048
"""Largest int written as digits. Larger ones cost too much to parse."""
MOST_JSON_DEPTH: Final = 32
SEPARATOR: Final = "\x1f"
"""Separator of joined texts, which occurs in no key of a text column and in no JSON. One text costs a client less than a list."""
PACKED: Final = "=~"
"""Prefix of a key in a text column that is MessagePack in hexadecimal digits."""
PACKED_NAME: Final = "$msgpack"
"""The only name in a JSON object that stands for a value in MessagePack."""


class PackedCodec(ABC):
    """Base of the codecs: encodes one by one, and falls back to MessagePack."""

    def __init__(self) -> None:
        self._codec = MessagePack()

    def keys(self, keys: Sequence[object]) -> list[Raw]:
        if set(map(type, keys)) == {str} and self._are_plain(keys):  # type: ignore[arg-type]
            return list(keys)
        return [self._key(key) for key in keys]

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        raws = []
        for value, key in zip(values, keys, strict=True):
            try:
                raws.append(None if value is None else self._value(value))
            except ValueError as error:
                text = f"the value of {short_repr(key)} cannot be stored: {safe_str(error)}"
                raise ValueRefused(text, hint="Fix what combine() returns.") from None
        return raws

    def _key(self, key: object) -> Raw:
        try:
            return self._stored_key(canonical(key))
        except (TypeError, ValueError) as error:
            text = f"{short_repr(key)} cannot be the key of a value: {safe_str(error)}"
            raise ValueRefused(text, hint="Fix what key() returns.") from None

    def _packed(self, value: object) -> bytes:
        return self._codec.encode(value)

    def _unpacked(self, packed: bytes, whose: str = "a value") -> Any:
        try:
            return self._codec.decode(packed)
        except ValueError as error:
            raise StateError(f"{whose} cannot be read: {error}", hint="Another program wrote it, or it is damaged.") from None

    @abstractmethod
    def _are_plain(self, keys: Sequence[str]) -> bool:
        """Return whether all texts are stored unchanged."""

    @abstractmethod
    def _stored_key(self, key: Any) -> Raw:
        """Return the stored form of a key."""

    @abstractmethod
    def _value(self, value: object) -> Raw:
        """Return the stored form of a value."""


class MemoryCodec(PackedCodec):
    """Codec for memory. Keys stay unchanged. Values that may be mutable are MessagePack, so that users cannot change a stored value."""

    def key(self, raw: Raw) -> object:
        return raw

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        return [self._unpacked(raw) if type(raw) is bytes else raw for raw in raws]

    def _are_plain(self, keys: Sequence[str]) -> bool:
        return True

    def _stored_key(self, key: Any) -> Raw:
        return key

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        return list(values) if are_int64(values) else super().values(values, keys)

    def _value(self, value: object) -> Raw:
        return value if type(value) in (int, str, float, bool) else self._packed(value)


class SqliteCodec(PackedCodec):
    """Codec for SQLite. Ints of 64 bits are INTEGER, most floats REAL, and most texts TEXT. A BLOB holds MessagePack."""

    def key(self, raw: Raw) -> object:
        return self._unpacked(raw, "a key") if type(raw) is bytes else raw

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        if bytes not in set(map(type, raws)):
            return list(raws)
        return [self._unpacked(raw) if type(raw) is bytes else raw for raw in raws]

    def _are_plain(self, keys: Sequence[str]) -> bool:
        return is_text("".join(keys))

    def _stored_key(self, key: Any) -> Raw:
        return self._value(key)

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        return list(values) if are_int64(values) else super().values(values, keys)

    def _value(self, value: Any) -> Raw:
        kind = type(value)
        if kind is int:
            return value if value in INT64 else self._packed(value)
        if kind is str:
            return value if is_text(value) else self._packed(value)
        if kind is float:
            return value if isfinite(value) and (value or copysign(1, value) > 0) else self._packed(value)
        return self._packed(value)


class TextCodec(PackedCodec):
    """Codec for PostgreSQL and Redis. Keys are text, and values are JSON.

    >>> codec = TextCodec()
    >>> codec.keys(["storm", 42, "=", ("a", 1)])
    ['storm', '=42', '=~a13d', '=~d60192a16101']
    >>> codec.values([7, "x", [1, None], {1: 2}], "abcd")
    ['7', '"x"', '[1, null]', '{"$msgpack": "810102"}']
    """

    def _are_plain(self, keys: Sequence[str]) -> bool:
        joined = "\n" + "\n".join(keys)
        return "\n=" not in joined and is_plain(joined)

    def key(self, raw: Raw) -> object:
        if not raw.startswith("="):
            return raw
        try:
            return self._unpacked(bytes.fromhex(raw[2:]), "a key") if raw.startswith(PACKED) else int(raw[1:])
        except ValueError:
            raise StateError(f"the key {raw!r} cannot be read", hint="Another program wrote it, or it is damaged.") from None

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        return list(map(str, values)) if are_int64(values) else super().values(values, keys)

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        text = "[" + ",".join(["null" if raw is None else raw for raw in raws]) + "]"
        try:
            found = json.loads(text)
        except ValueError as error:
            raise StateError(f"a value cannot be read: {error}", hint="Another program wrote it, or it is damaged.") from None
        if PACKED_NAME not in text:
            return found  # type: ignore[no-any-return]
        return [self._opened(value) if type(value) is dict else value for value in found]

    def _opened(self, value: dict[str, Any]) -> Any:
        return self._unpacked(bytes.fromhex(value[PACKED_NAME])) if value.keys() == {PACKED_NAME} else value

    def _stored_key(self, key: Any) -> Raw:
        if type(key) is str and not key.startswith("=") and is_plain(key):
            return key
        if type(key) is int and key.bit_length() <= MOST_BITS:
            return f"={key}"
        return PACKED + self._packed(key).hex()

    def _value(self, value: Any) -> Raw:
        plain = value if is_json(value) else {PACKED_NAME: self._packed(value).hex()}
        return json.dumps(plain, ensure_ascii=False)


def are_int64(values: Sequence[Any]) -> bool:
    """Return whether all values are 64-bit ints. Callers check this common case first, because most maps are counts."""
    return set(map(type, values)) == {int} and min(values) in INT64 and max(values) in INT64


def is_plain(text: str) -> bool:
    """Return whether a text can be a stored key. PostgreSQL stores no NUL characters, and SEPARATOR is reserved."""
    return "\0" not in text and SEPARATOR not in text and is_text(text)


def is_text(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8.

    >>> is_text("é"), is_text("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_json(value: Any, depth: int = 0) -> bool:
    """Return whether JSON, also PostgreSQL's jsonb, gives back an equal value of the same types."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return value in INT64
    if kind is str:
        return "\0" not in value and is_text(value)
    if kind is float:
        # jsonb writes 1e+16 as an integer
        return isfinite(value) and "e+" not in repr(value) and bool(value or copysign(1, value) > 0)
    if depth == MOST_JSON_DEPTH:
        return False
    if kind is list:
        return all(is_json(item, depth + 1) for item in value)
    if kind is dict and PACKED_NAME not in value:
        return all(type(name) is str and is_json(name) and is_json(item, depth + 1) for name, item in value.items())
    return False
