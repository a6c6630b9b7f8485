"""Whether a micro-batch follows what its consumer has planned. Where it does not, batches would be skipped, or deleted unread."""

from spark_bridge.handover import Handover, HandoverError, Position
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.starting import first_offset


def check_follows(handover: Handover, options: SourceOptions, position: Position, begin: int, end: int | None, *, is_new: bool) -> None:
    """Raise HandoverError unless it follows what is planned, or is that once more, or begins where a new checkpoint is told to.

    `end`: None where it is not chosen yet. `is_new`: the checkpoint has no micro-batch that is done.
    """
    is_again = end == position.planned and position.began in (None, begin)
    if begin == position.planned or is_again:
        return
    is_told = position.planned == 0 or options.starting is not None
    if is_told and (is_new or begin > position.planned) and begin == first_offset(handover, options, position):
        return
    raise _misfit(handover, options, position, begin)


def _misfit(handover: Handover, options: SourceOptions, position: Position, begin: int) -> HandoverError:
    text = (
        f"{handover.storage.url}: this query goes on behind txid {begin}, and its consumer {options.consumer!r} has planned up to txid "
        f"{position.planned}: a checkpoint, its folder and its consumer belong together, and these do not"
    )
    hint = (
        "(1) If another query uses this consumer, or this one joins the stream with itself, have each read a stream and a consumer of its "
        "own. (2) If one of them was restored from a copy, removed or begun anew, put back those that belong together. "
    )
    if begin > position.planned:
        hint += f'(3) To go on all the same, and never have what is between: .option("startingTxid", "{begin + 1}").'
    else:
        hint += f'(3) Or begin with a new checkpoint and .option("startingTxid", "{position.planned + 1}"), which is what comes next.'
    return HandoverError(text, hint=hint)
