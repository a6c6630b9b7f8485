"""What a run ends with whose row does not fit the declared schema."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.errors import FatalError
from engine.transactional import TransactionAttempt
from spark_bridge.committer.columns import BadRow, Row


def misfit(attempt: TransactionAttempt, schema: pa.Schema, names: Sequence[str], row: Row, bad: BadRow, hint: str) -> FatalError:
    """Return the error for a row of these fields; `bad.row` counts from the first of its attempt."""
    field = schema.field(bad.column)
    value: Any = row[list(names).index(bad.column)]
    wanted = f"{field.type}{'' if field.nullable else ' not null'}"
    text = f"row {bad.row} of batch {attempt} does not fit the schema: column {bad.column!r} is {wanted}"
    shown = dict(zip(names[1:], row[1:], strict=True))
    return FatalError(f"{text}, and the value is {value!r} ({type(value).__name__}): {bad.error}. The row: {shown!r}", hint=hint)
