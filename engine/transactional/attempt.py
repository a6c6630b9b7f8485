"""The attempt, which is the first field of every tuple of a batch (TX-1)."""

from typing import Final, NamedTuple

from engine.kernel import treat_as_atoms

EPOCH_SIZE: Final = 2**32
"""attempt_id = epoch * EPOCH_SIZE + number, with the epoch of the coordinator that made the attempt."""


class TransactionAttempt(NamedTuple):
    """One try of the batch `txid`.

    Txids are 1, 2, 3, … An attempt id is never used twice. A later attempt has a greater id, also after a restart.

    >>> attempt = TransactionAttempt(7, 2 * 2**32 + 5)
    >>> attempt.epoch, attempt.number, str(attempt)
    (2, 5, '7 (attempt 2.5)')
    """

    txid: int
    attempt_id: int

    @property
    def epoch(self) -> int:
        """Number of coordinators opened for this topology, including the one that made this attempt."""
        return self.attempt_id // EPOCH_SIZE

    @property
    def number(self) -> int:
        """Number of the attempt within its epoch: 1, 2, 3, …"""
        return self.attempt_id % EPOCH_SIZE

    def __str__(self) -> str:
        return f"{self.txid} (attempt {self.epoch}.{self.number})"


treat_as_atoms(TransactionAttempt)


def first_attempt_id(epoch: int) -> int:
    """Return the id below all attempts of an epoch. The first attempt has the next id."""
    return epoch * EPOCH_SIZE
