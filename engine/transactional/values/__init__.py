"""Maps of values that count each transaction once, and the committer that reduces batches into them (TX-8)."""

from engine.state.values import ValueKind, ValuesMismatch
from engine.transactional.values.open_values import OpenValues, ValuesReader
from engine.transactional.values.reduce import ReduceInto, ReducingCommitter
from engine.transactional.values.stored_value import OpaqueValue, TransactionalValue
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
