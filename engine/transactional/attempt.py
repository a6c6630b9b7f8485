"""Which try of which transaction: the first field of every tuple of a batch (TX-1)."""

from typing import Final, NamedTuple

EPOCH_SIZE: Final = 2**32
"""An attempt id is the epoch of the coordinator that made it, times this, and a number that grows."""


class TransactionAttempt(NamedTuple):
    """One try of the batch `txid`: 1, 2, 3, … An attempt id never comes twice, and a later try has a greater one, restarts included.

    >>> attempt = TransactionAttempt(7, 2 * 2**32 + 5)
    >>> attempt.epoch, attempt.number, str(attempt)
    (2, 5, '7 (attempt 2.5)')
    """

    txid: int
    attempt_id: int

    @property
    def epoch(self) -> int:
        """How many coordinators have been opened for this topology, this one included."""
        return self.attempt_id // EPOCH_SIZE

    @property
    def number(self) -> int:
        """Which attempt of its coordinator it is: 1, 2, 3, …"""
        return self.attempt_id % EPOCH_SIZE

    def __str__(self) -> str:
        return f"{self.txid} (attempt {self.epoch}.{self.number})"


def first_attempt_id(epoch: int) -> int:
    """Return the attempt id before the first of an epoch; the first is one more."""
    return epoch * EPOCH_SIZE
