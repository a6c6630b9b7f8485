"""`RowKey`: how a row of an exact source is known again in another pass or process (EO-6)."""

from contextlib import suppress
from typing import Any, Final, TypeAlias

from engine.api import Values
from engine.checkpoint.stored_positions import CODEC
from engine.safe_text import safe_repr
from engine.state.codec import Unencodable, codec_named
from engine.topology.task_port import SEVERAL_ROWS

PICKLE: Final = codec_named("pickle")
RowKey: TypeAlias = tuple[str, Any]
"""(stream, identity). A row of a task is known again by its message id, or else by its stream and values. SEVERAL_ROWS: not yet.

Its place among the others would not do, because another pass may interleave the rows of several partitions in another way.
"""


def key_of(values: Values, stream: str, message_id: Any) -> RowKey:
    """Return the key of a row. message_id: None, the id of the row, or SEVERAL_ROWS."""
    if message_id is SEVERAL_ROWS:
        return "", SEVERAL_ROWS
    if message_id is not None:
        with suppress(Unencodable, TypeError):  # no code of the id is called, which might raise here
            return "", bytes(CODEC.encode(message_id))  # no stream has this name
    with suppress(Unencodable, TypeError):
        return stream, bytes(CODEC.encode(list(values)))
    with suppress(Unencodable):
        return stream, PICKLE.encode(values)  # the repr of most objects has their address, which another row has in the next pass
    return stream, safe_repr(values)
