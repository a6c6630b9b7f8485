"""Finds the oldest inputs that bolt tasks have taken and neither acked nor failed."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import cast

from engine.errors import UsageError
from engine.runtime.bolt_executor import BoltExecutor
from engine.safe_text import safe_repr

LONGEST_TUPLE = 200


@dataclass(frozen=True, slots=True)
class OwedAck:
    """One input that a task has taken, and neither acked nor failed yet."""

    component_id: str
    task_id: int
    tuple_text: str
    age_secs: float


def oldest_owed_acks(bolts: Iterable[BoltExecutor], most: int) -> tuple[OwedAck, ...]:
    """Return the oldest owed acks over all tasks, oldest first.

    Reads at most `most` tuples of each task, so a million taken tuples cost nothing. Ticks and control tuples owe no ack. Raises
    UsageError unless `most` is a whole number of at least 0.
    """
    if not isinstance(cast(object, most), int) or isinstance(most, bool) or most < 0:
        raise UsageError(f"owed_acks() takes a number of inputs of at least 0, not {most!r}", hint="Write owed_acks(10).")
    candidates = []
    for bolt in bolts:
        now = bolt.run_context.clock.now()
        candidates += [(bolt.core.taken_age_ms(tup, now), bolt.info, tup) for tup in bolt.core.oldest_taken(most)]
    oldest = nlargest(most, candidates, key=lambda owed: owed[0])
    return tuple(OwedAck(info.component_id, info.task_id, safe_repr(tup, LONGEST_TUPLE), age_ms / 1000) for age_ms, info, tup in oldest)
