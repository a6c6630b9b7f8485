"""With which transaction a micro-batch ends, by the log that Spark writes before it runs one. Needs no engine: it may run on a server."""

import json
from collections.abc import Callable
from typing import Any

from spark_bridge.handover import HandoverError, storage_at


def txid_of_batch(checkpoint: str, batch_id: int) -> int:
    """Return the last txid of a micro-batch; the same one whenever it is asked for, before and after a crash."""
    name = f"offsets/{batch_id}"
    content = storage_at(checkpoint).read(name)
    if content is None:
        raise HandoverError(
            f"{checkpoint}: the query's log has no {name!r}",
            hint="Spark writes it before it runs a batch: was the folder changed meanwhile?",
        )
    txid = txid_in_log(content.decode())
    if txid is None:
        raise HandoverError(f"{checkpoint}: {name!r} has no txid", hint="The checkpoint is of a query that reads something else.")
    return txid


def txid_in_log(text: str) -> int | None:
    """Return the txid of an entry of the log: a line for its version, one for its settings, one for each source.

    >>> txid_in_log('v1\\n{"batchTimestampMs": 1}\\n{"txid": 7}')
    7
    """
    found = map(txid_of, reversed(text.splitlines()[2:]))
    return next((txid for txid in found if txid is not None), None)


def txid_of(offset: object) -> int | None:
    """Return the txid of an offset of ours, whether Spark gives it as text or not; None for that of another source.

    >>> txid_of('{"txid": 7}'), txid_of({"txid": 7}), txid_of("12"), txid_of("-")
    (7, 7, None, None)
    """
    found = _json(offset) if isinstance(offset, str) else offset
    txid = found.get("txid") if isinstance(found, dict) else None
    return txid if type(txid) is int else None


def with_txid(function: Callable[[Any, int], object], checkpoint: str, batch: Any, batch_id: int) -> None:
    """Call a per-batch function as Spark calls one for a micro-batch."""
    function(batch, txid_of_batch(checkpoint, batch_id))


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
