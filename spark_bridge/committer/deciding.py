"""Whether the manifest of an attempt is written (SP-2, TX-8): plain, given what is in the folder."""

from enum import Enum

from engine.errors import FatalError
from engine.transactional import TransactionAttempt


class Step(Enum):
    """What is to be done about an attempt that is being committed."""

    WRITE = "write"
    SKIP = "skip"
    """Its txid has a manifest, by a lower attempt, whose commit the coordinator has not heard of."""
    BEGIN = "begin"
    """The folder has no manifest, and earlier batches were committed without it: say so, then write."""


def next_step(where: str, attempt: TransactionAttempt, newest: int, written: int | None) -> Step:
    """Decide. `newest`: the newest txid in the folder, deleted ones counted; `written`: the attempt id of the manifest of this txid.

    Raises FatalError where the folder and the coordinator's state are not of one history.
    """
    txid, attempt_id = attempt
    if newest > txid or (written is not None and written >= attempt_id):
        there = TransactionAttempt(newest, written) if newest == txid and written is not None else newest
        raise state_is_older(where, f"batch {there}", f"batch {attempt}")
    if newest == txid:
        return Step.SKIP
    if newest == 0 and txid > 1:
        return Step.BEGIN
    if newest < txid - 1:
        raise FatalError(
            f"the hand-over {where} has batches up to {newest}, and this is batch {attempt}: those between are missing",
            hint="Was it restored from an older copy, or were manifests removed? Restore the newest copy, or begin with an empty folder.",
        )
    return Step.WRITE


def state_is_older(where: str, there: str, now: str) -> FatalError:
    """Return the error for a folder that is ahead of the coordinator."""
    return FatalError(
        f"the hand-over {where} has {there}, and now comes {now}",
        hint="If another process has taken the topology over, all is well there. Else the topology's state is older than the folder, or of "
        "another run: restore it (state_provider), or begin with an empty folder.",
    )
