"""Reads the last txid of a micro-batch from the offset log of a query.

Imports no engine, because a Spark Connect server may run this module.

Spark writes the entry before it runs the micro-batch. So a micro-batch that is repeated after a crash has the same txid.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from spark_bridge.handover import HandoverError, storage_at


def txid_of_batch(checkpoint: str, batch_id: int) -> int:
    """Return the last txid of a micro-batch."""
    return _txids_of_batch(checkpoint, batch_id)[-1]


class CheckpointPosition(NamedTuple):
    """Newest micro-batch of a checkpoint."""

    batch_id: int
    txid: int
    """Its last txid."""
    is_done: bool
    """False if Spark will run the micro-batch again."""


def checkpoint_position(checkpoint: str) -> CheckpointPosition:
    """Return the newest micro-batch. Raise HandoverError if there is none, or if it reads several streams up to different txids."""
    storage = storage_at(checkpoint)
    batches = [int(name) for name in storage.names("offsets") if name.isdecimal()]
    if not batches:
        hint = (
            "Name the folder of one query below --checkpoints. If the query has run no micro-batch, remove its consumer and add it again."
        )
        raise HandoverError(f"{checkpoint} is not a checkpoint with a micro-batch", hint=hint)
    txids = _txids_of_batch(checkpoint, max(batches))
    if len(set(txids)) > 1:
        text = f"{checkpoint}: micro-batch {max(batches)} reads several streams, up to the txids {', '.join(map(str, txids))}"
        hint = "The log does not say which stream is this consumer's. Remove the consumer, add it again, and start with a new checkpoint."
        raise HandoverError(text, hint=hint)
    return CheckpointPosition(max(batches), txids[0], storage.exists(f"commits/{max(batches)}"))


def _txids_of_batch(checkpoint: str, batch_id: int) -> list[int]:
    """Return the last txid of each of our streams in a micro-batch. Raise HandoverError if there is none."""
    name = f"offsets/{batch_id}"
    content = storage_at(checkpoint).read(name)
    if content is None:
        hint = "Spark writes it before it runs a batch. Check whether the folder was changed."
        raise HandoverError(f"{checkpoint}: the log of the query has no {name!r}", hint=hint)
    txids = txids_in_log(content.decode(errors="replace"))
    if not txids:
        hint = "Either the file is damaged: restore it from a copy. Or the checkpoint is of a query with another source."
        raise HandoverError(f"{checkpoint}: {name!r} has no txid", hint=hint)
    return txids


def txids_in_log(text: str) -> list[int]:
    """Return the txids of an entry of the log. The entry has a line for its version, one for settings, and one per source.

    >>> txids_in_log('v1\\n{"batchTimestampMs": 1}\\n{"txid": 7}')
    [7]
    """
    found = map(txid_of, text.splitlines()[2:])
    return [txid for txid in found if txid is not None]


def txid_of(offset: object) -> int | None:
    """Return the txid of an offset, as a dict or as JSON. None for an offset of another source.

    >>> txid_of('{"txid": 7}'), txid_of({"txid": 7}), txid_of("12"), txid_of("-")
    (7, 7, None, None)
    """
    found = _parse_json(offset) if isinstance(offset, str) else offset
    txid = found.get("txid") if isinstance(found, dict) else None
    return txid if type(txid) is int else None


def with_txid(function: Callable[[Any, int], object], checkpoint: str, batch: Any, batch_id: int) -> None:
    """Call a per-batch function with the last txid of its batch. Spark calls this for each micro-batch."""
    function(batch, txid_of_batch(checkpoint, batch_id))


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
