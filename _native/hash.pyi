from collections.abc import Sequence

def stable_hash(value: object) -> int:
    """Return the 64-bit hash of a value. Raises TypeError if its type has no stable hash."""

def stable_hash_fields(values: tuple[object, ...], positions: Sequence[int]) -> int:
    """Return the hash of the tuple of the values at `positions`, as a fields grouping on them computes it."""

def key_group(value: object, key_groups: int) -> int:
    """Return the group of a value, 0 to key_groups - 1. State and fields groupings agree on it."""
