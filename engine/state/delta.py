"""A delta as blobs: lists of keys, of values and, where a bolt has its own `key_of`, of slots, encoded by one call each."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from engine.state.codec import DELETED, Codec, Deleted, Encoded

Layer = dict[Any, Any]
"""Canonical key: its value, the value `Encoded`, or DELETED."""

KEYS_PER_BLOB: Final = 1000
BYTES_PER_BLOB: Final = 256 * 1024
"""A blob ends at so many keys, or soon behind so many bytes of values: it is made in one turn of the loop."""
ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes, Encoded, Deleted})
"""Types whose values nobody can change: handed out and kept as they are."""
_SMALL: Final = frozenset({type(None), bool, int, float, Deleted})


class Change(NamedTuple):
    """What a delta says of a key: its value as a layer has it, and its slot where that was stored."""

    key: Any
    value: Any
    slot: int | None


def slices(layer: Layer, size: int) -> Iterator[list[Any]]:
    """The keys of a layer that gets no more keys, size at a time; values may be replaced meanwhile."""
    keys = iter(layer)
    while chunk := list(islice(keys, size)):
        yield chunk


def blobs_of(layer: Layer, codec: Codec, seal: Callable[[Any, Any], Encoded], slot_of: Callable[[Any], int] | None) -> Iterator[bytes]:
    """Encode a layer that gets no more keys; values of other types than ATOMS are sealed in it first."""
    for keys in slices(layer, KEYS_PER_BLOB):
        for part in _light_parts(layer, keys, seal):
            values = [layer[key] for key in part]
            yield codec.encode([part, values] if slot_of is None else [part, values, [slot_of(key) for key in part]])


def _light_parts(layer: Layer, keys: list[Any], seal: Callable[[Any, Any], Encoded]) -> Iterator[list[Any]]:
    """Cut keys where their values get heavy."""
    if _SMALL.issuperset([type(layer[key]) for key in keys]):
        yield keys
        return
    part: list[Any] = []
    weight = 0
    for key in keys:
        value = layer[key]
        if type(value) not in ATOMS:
            value = layer[key] = seal(key, value)
        part.append(key)
        weight += len(value) if isinstance(value, str | bytes) else 0
        if weight > BYTES_PER_BLOB:
            yield part
            part, weight = [], 0
    if part:
        yield part


def changes_in(blob: bytes, codec: Codec) -> list[Change]:
    """Decode a blob; raise ValueError where it is none."""
    try:
        keys, values, *slots = codec.decode(blob)
        return [Change(*each) for each in zip(keys, values, slots[0] if slots else [None] * len(keys), strict=True)]
    except TypeError as error:
        raise ValueError(f"this is no delta: {error}") from None


def stored_value(value: Any, codec: Codec) -> bytes | None:
    """The value of a row: what a layer has, as bytes; None where it is deleted."""
    if value is DELETED:
        return None
    return bytes(value) if type(value) is Encoded else codec.encode(value)
