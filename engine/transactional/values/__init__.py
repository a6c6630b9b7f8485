"""Stored values that count each transaction once (TX-8): where they are kept, and the committer that reduces a batch into them."""

from engine.transactional.values.opened import OpenValues, ValuesReader
from engine.transactional.values.places import MemoryValues, PostgresValues, RedisValues, SqliteValues, ValueMap, values_at
from engine.transactional.values.reduce import ReduceInto, ReducingCommitter
from engine.transactional.values.values import OpaqueValue, TransactionalValue, ValueKind, ValuesMismatch

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
