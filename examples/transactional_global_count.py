"""A global count: tasks count parts of a batch in parallel. The sums go into the database in order, each exactly once.

    python examples/transactional_global_count.py
    python -m engine run examples/transactional_global_count.py

One batch in three fails after its count is stored, and is replayed. The count stays right, because its txid is stored with it.
"""

import atexit
import sys
from dataclasses import dataclass, field

from engine import BatchBolt, Committer, FailedBatch, Topology, TransactionalTopologyBuilder, Tuple
from engine.cli import run_in_terminal
from engine.transactional import MemoryTransactionalSpout

PARTITIONS = {
    0: [(word,) for word in ["cat", "dog", "chicken", "cat", "dog", "apple"] * 500],
    1: [(word,) for word in ["cat", "dog", "apple", "banana"] * 500],
    2: [(word,) for word in ["cat", "cat", "cat", "cat", "cat", "dog", "dog", "dog", "dog"] * 500],
}
TAKE = 300
"""Number of tuples that each partition adds to a batch."""


class PartialCount(BatchBolt):
    """Counts the tuples of a batch that come to its task."""

    output_fields = "count"

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit((self.count,))


@dataclass
class Database:
    """Stores the count, and the txid that changed it last."""

    count: int = 0
    txid: int = 0
    skipped: int = 0
    """Number of replayed batches whose count was already stored."""
    failed: set[int] = field(default_factory=set)


class UpdateGlobalCount(Committer):
    """Adds the count of a batch in one step, unless the same txid is stored already (TX-8)."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup["count"]

    def finish_batch(self) -> None:
        database, txid = self.database, self.attempt.txid
        if database.txid == txid:
            database.skipped += 1
        else:
            database.count, database.txid = database.count + self.sum, txid
        if txid % 3 == 0 and txid not in database.failed:
            database.failed.add(txid)
            raise FailedBatch("the connection broke when the count was stored")


def build(database: Database) -> Topology:
    spout = MemoryTransactionalSpout(PARTITIONS, "word", TAKE)
    builder = TransactionalTopologyBuilder("global-count", "words", spout, 3, max_spout_pending=4)
    builder.set_bolt("partial-count", PartialCount, 5).shuffle_grouping("words")
    builder.set_bolt("sum", lambda: UpdateGlobalCount(database)).global_grouping("partial-count")
    return builder.build()


def topology() -> Topology:
    """Return the topology for `python -m engine run`. The process shows the count at its end."""
    database = Database()
    atexit.register(show, database)
    return build(database)


def show(database: Database) -> None:
    if not database.txid:
        return  # it did not run
    print(
        f"{database.count:,} words in {database.txid} batches; {database.skipped} were replayed when their count was stored, and skipped."
    )


def main() -> int:
    database = Database()
    outcome = run_in_terminal(build(database))
    show(database)
    plain = sum(len(words) for words in PARTITIONS.values())
    if outcome.exit_status or database.count != plain:
        print(f"The result DIFFERS from a plain count, {plain:,}." if not outcome.exit_status else "The run was not finished.")
        return 1
    print("The result equals a plain count.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
