"""What of one partition of a dead-letter topic was sent back, and how the replay's group notes it. Decides; does nothing.

The form is that of a spout's commits: an offset below which all is sent, and in the metadata what is sent above it. So letters that were
not chosen stay where they are for another time, and nothing is sent twice.
"""

from bisect import bisect_right
from copy import deepcopy
from typing import Final, Self

from engine.kafka.client.admin_client import MOST_METADATA_BYTES
from engine.kafka.client.partition import CommittedOffset
from engine.kafka.source import acked_set

NAME: Final = "replay"
"""What stands in the metadata in place of a topology."""


class ReplayProgress:
    """Told of every record of a partition in ascending order, from `start` on; `runs` is what an earlier replay has sent above it.

    >>> progress = ReplayProgress(10, (12, 13))
    >>> progress.is_sent(12)
    True
    >>> for offset in (10, 11, 12, 13): progress.note(offset, is_sent=offset != 11)
    >>> progress.offset, progress.runs
    (11, [12, 14])
    """

    def __init__(self, start: int, runs: tuple[int, ...] = ()) -> None:
        self.offset = self._start = start
        """The first that is not sent, as far as is known."""
        self._earlier = runs
        self._later: list[int] = []
        self._next = start
        self._has_open = False
        self._joins = False

    @classmethod
    def of(cls, commit: CommittedOffset | None, beginning: int) -> Self:
        """Return the progress that a commit tells of; what another program wrote beside it is not read."""
        if commit is None:
            return cls(beginning)
        note = acked_set.decode(commit.metadata)
        is_ours = note is not None and note.topology == NAME and note.base == commit.offset
        runs = note.runs if note is not None and is_ours else ()
        return cls(max(commit.offset, beginning), tuple(max(bound, beginning) for bound in runs))

    def is_sent(self, offset: int) -> bool:
        """Tell whether an earlier replay has sent it."""
        return bisect_right(self._earlier, offset) % 2 == 1

    def is_sent_before(self, offset: int) -> bool:
        """Tell whether an earlier replay has sent it, or has passed what lay there."""
        return offset < self._start or self.is_sent(offset)

    def note(self, offset: int, *, is_sent: bool) -> None:
        """Note what is with the next record; offsets between it and the one before have none."""
        self._next = offset + 1
        if not is_sent:
            self.offset = self.offset if self._has_open else offset
            self._has_open, self._joins = True, False
        elif not self._has_open:
            self.offset = offset + 1
        elif self._joins:
            self._later[-1] = offset + 1
        else:
            self._later += [offset, offset + 1]
            self._joins = True

    @property
    def runs(self) -> list[int]:
        """What is sent above `offset`: start, stop, start, stop…"""
        ahead = [max(bound, self._next) for bound in self._earlier]
        pairs = [(ahead[at], ahead[at + 1]) for at in range(0, len(ahead), 2) if ahead[at] < ahead[at + 1]]
        return [*self._later, *(bound for pair in pairs for bound in pair)]

    def commit(self) -> CommittedOffset | None:
        """Return what the group commits; None where it would not hold all that is sent."""
        metadata, left_out = acked_set.encode(NAME, self.offset, self.runs, MOST_METADATA_BYTES)
        return None if left_out else CommittedOffset(self.offset, metadata)

    def copy(self) -> "ReplayProgress":
        """Return another one in the same state."""
        return deepcopy(self)
