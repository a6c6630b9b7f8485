"""With which transaction a micro-batch ends, by the log that Spark writes before it runs one. Needs no engine: it may run on a server."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from spark_bridge.handover import HandoverError, storage_at


def txid_of_batch(checkpoint: str, batch_id: int) -> int:
    """Return the last txid of a micro-batch; the same one whenever it is asked for, before and after a crash."""
    return _txids_of_batch(checkpoint, batch_id)[-1]


class Reached(NamedTuple):
    """How far a checkpoint has come: its newest micro-batch."""

    batch_id: int
    txid: int
    """Its last."""
    is_done: bool
    """False where Spark takes the same transactions again."""


def reached_by(checkpoint: str) -> Reached:
    """Return how far a checkpoint has come. Raises HandoverError where it has no micro-batch, or several streams at different txids."""
    storage = storage_at(checkpoint)
    batches = [int(name) for name in storage.names("offsets") if name.isdecimal()]
    if not batches:
        hint = "Name the folder of one query, below --checkpoints. A query without a micro-batch begins anew: remove and add its consumer."
        raise HandoverError(f"{checkpoint} is no checkpoint that has a micro-batch", hint=hint)
    txids = _txids_of_batch(checkpoint, max(batches))
    if len(set(txids)) > 1:
        text = f"{checkpoint}: micro-batch {max(batches)} reads several streams, up to the txids {', '.join(map(str, txids))}"
        raise HandoverError(
            text, hint="Which of them is this consumer's cannot be told: remove and add it, and begin with a new checkpoint."
        )
    return Reached(max(batches), txids[0], storage.exists(f"commits/{max(batches)}"))


def _txids_of_batch(checkpoint: str, batch_id: int) -> list[int]:
    """Return where each of its streams of ours ends, at least one."""
    name = f"offsets/{batch_id}"
    content = storage_at(checkpoint).read(name)
    if content is None:
        hint = "Spark writes it before it runs a batch: was the folder changed meanwhile?"
        raise HandoverError(f"{checkpoint}: the query's log has no {name!r}", hint=hint)
    txids = txids_in_log(content.decode(errors="replace"))
    if not txids:
        hint = "Either it is damaged (restore it from a copy), or the checkpoint is of a query that reads something else."
        raise HandoverError(f"{checkpoint}: {name!r} has no txid", hint=hint)
    return txids


def txids_in_log(text: str) -> list[int]:
    """Return the txids of an entry of the log: a line for its version, one for its settings, one for each source.

    >>> txids_in_log('v1\\n{"batchTimestampMs": 1}\\n{"txid": 7}')
    [7]
    """
    found = map(txid_of, text.splitlines()[2:])
    return [txid for txid in found if txid is not None]


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
