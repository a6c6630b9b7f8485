"""Stored values that count each transaction once (TX-8): where they are kept, and the committer that reduces a batch into them."""

from engine.transactional.values.open_values import OpenValues, ValuesReader
from engine.transactional.values.reduce import ReduceInto, ReducingCommitter
from engine.transactional.values.stored_value import OpaqueValue, TransactionalValue, ValueKind, ValuesMismatch
from engine.transactional.values.value_maps import MemoryValues, PostgresValues, RedisValues, SqliteValues, ValueMap, values_at

__all__ = [
    "MemoryValues",
    "OpaqueValue",
    "OpenValues",
    "PostgresValues",
    "RedisValues",
    "ReduceInto",
    "ReducingCommitter",
    "SqliteValues",
    "TransactionalValue",
    "ValueKind",
    "ValueMap",
    "ValuesMismatch",
    "ValuesReader",
    "values_at",
]
