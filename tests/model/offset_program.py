"""Random histories of one Kafka partition and its successive owners, compared with the model.

Acks come in any order. Records fail, are compacted or revoked, and owners crash. A program is bytes; three of them are one step, as in
`ledger_program`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from engine.kafka.client.partition import PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kernel import Entry, mark_done
from tests.model.ledger_program import pick
from tests.model.offset_model import OffsetModel

TOPOLOGY = "words"
PARTITION = PartitionId("lines", 3)


@dataclass(frozen=True)
class Record:
    """A record of the log."""

    offset: int


class OffsetProgram:
    """One partition: its log, the commits that the broker has, and one owner after the other."""

    STEPS = (
        *("append", "append", "append", "fetch", "fetch", "fetch", "take", "take", "take", "ack", "ack", "ack", "ack"),
        *("fail", "again", "commit", "commit", "hole", "late", "hand_over", "crash"),
    )

    def __init__(self, seed: int, *, limit: int, most_bytes: int, bulk: int = 1) -> None:
        self.random, self.limit, self.most_bytes, self.bulk = Random(seed), limit, most_bytes, bulk
        self.log: list[int] = []
        self.log_end = self.random.choice([0, 1, 2**20, 2**62])
        self.entries: list[Entry] = []
        """Entries that this owner has emitted."""
        self.late_entries: list[Entry] = []
        """Entries of earlier owners."""
        self.truth: set[int] = set()
        """Offsets that were acked while the acking owner had the partition."""
        self.begin = self.committed = self.log_end
        self.committed_acked: set[int] = set()
        """Model: acked offsets in the metadata of the broker's commit."""
        self.metadata: str | None = None
        self.own()

    def own(self) -> None:
        """Begin a new owner from the broker's commit."""
        note = acked_set.decode(self.metadata)
        runs = () if note is None else note.runs
        assert note is None or note.base == self.committed
        self.manager = OffsetManager(PARTITION, self.committed, limit=self.limit, committed=self.committed, skips=runs)
        self.manager.metadata = self.metadata
        self.model = OffsetModel(self.committed, self.committed_acked)
        self.skips = frozenset(self.committed_acked)
        self.noted = self.committed
        self.late_entries = (self.late_entries + self.entries)[-50:]
        self.entries = []

    def run(self, program: bytes) -> None:
        """Run all steps, then drain everything: all records are done, and the broker has the commit."""
        for step in range(0, len(program) - 2, 3):
            getattr(self, pick(self.STEPS, program[step]))(program[step + 1], program[step + 2])
            self.compare()
        self.finish()

    def finish(self) -> None:
        """Fetch, emit and ack everything."""
        while self.model.position < self.log_end or self.model.open:
            before = (self.model.position, len(self.model.open), self.noted)
            self.fetch(255, 0)
            self.take(255, 0)
            for entry in self.entries:
                self.ack_entry(entry)
            self.commit(0, 0)
            self.compare()
            assert (self.model.position, len(self.model.open), self.noted) != before
        self.commit(0, 0)
        assert self.committed == self.log_end
        assert set(self.log) <= self.truth

    # Steps

    def append(self, first: int, second: int) -> None:
        """Producers write. Markers of transactions follow the records, as offsets without a record."""
        for _ in range((1 + first % 16) * self.bulk):
            self.log.append(self.log_end)
            self.log_end += 1 + (self.random.randrange(4) if second % 2 else 0)

    def hole(self, first: int, second: int) -> None:
        """Compaction removes records that this owner has not fetched."""
        unread = [offset for offset in self.log if offset >= self.model.position]
        taken = set(self.random.sample(unread, min(len(unread), first % 8)))
        self.log = [offset for offset in self.log if offset not in taken]
        self.model.acked -= taken
        self.committed_acked -= taken

    def fetch(self, first: int, second: int) -> None:
        """Poll, unless the partition is full. A poll may repeat known records, and may report a hole behind the new ones."""
        if self.manager.is_full:
            return
        most = (1 + first % 32) * self.bulk
        known = [offset for offset in self.log if offset < self.model.position][-(second % 3) :] if second % 3 else []
        new = [offset for offset in self.log if offset >= self.model.position]
        batch = [*known, *new[:most]]
        assert self.manager.feed([Record(offset) for offset in batch]) == self.model.feed(batch)
        if len(new) <= most or second % 4:
            position = new[most] if len(new) > most else self.log_end
            self.manager.reach(position)
            self.model.reach(position)
        self.manager.reach(self.begin)  # has no effect
        assert self.manager.uncommitted < self.limit + most, "KS-3: at most one poll beyond the limit"

    def take(self, first: int, second: int) -> None:
        """The spout emits."""
        most = (1 + first % 32) * self.bulk
        taken: list[Entry] = []
        while len(taken) < most and (entry := self.manager.take()) is not None:
            taken.append(entry)
        assert [entry.offset for entry in taken] == self.model.take(most)
        assert all(entry.record == Record(entry.offset) and not entry.is_done and not entry.is_lost for entry in taken)
        if len(taken) < most:
            assert self.manager.waiting == 0
        self.entries += taken

    def ack(self, first: int, second: int) -> None:
        """Verdicts come in any order, some of them twice."""
        for entry in self.some((1 + first % 16) * self.bulk):
            self.ack_entry(entry)

    def ack_entry(self, entry: Entry) -> None:
        """Ack one entry on both sides."""
        mark_done(entry)
        self.model.settle(entry.offset)
        self.truth.add(entry.offset)
        assert entry.is_done
        assert entry.record is None

    def fail(self, first: int, second: int) -> None:
        """Tuples fail. A failure of an entry that is done or held is ignored."""
        for entry in self.some(1 + first % 8):
            failures = entry.failures
            failed = self.manager.fail(entry)
            assert failed == self.model.fail(entry.offset)
            assert entry.failures == failures + failed
            assert (entry.record is None) == entry.is_done

    def again(self, first: int, second: int) -> None:
        """Failed records are emitted again."""
        for entry in self.some(1 + first % 8):
            assert self.manager.take_again(entry) == self.model.take_again(entry.offset)

    def some(self, count: int) -> Iterable[Entry]:
        """Choose entries of this owner, mostly open ones."""
        live = [entry for entry in self.entries if not entry.is_done] if self.random.random() < 0.9 else self.entries
        return self.random.sample(live, min(count, len(live)))

    def late(self, first: int, second: int) -> None:
        """Verdicts come for entries of earlier owners (KS-6)."""
        for entry in self.late_entries:
            assert entry.is_lost
            failures = entry.failures
            if first % 3 == 0:
                mark_done(entry)
            assert not entry.manager.fail(entry)
            assert not entry.manager.take_again(entry)
            assert entry.failures == failures

    def commit(self, first: int, second: int) -> None:
        """Commit. The request or its answer may be lost."""
        commit = self.manager.next_commit(TOPOLOGY, self.most_bytes, carries_set=True)
        above = self.model.acked_above
        if commit is None:
            assert (self.committed, self.committed_acked & above) == (self.model.end, self.committed_acked)
            return
        kept = self.judge(commit, above)
        if first % 8 != 1:
            self.committed, self.committed_acked, self.metadata = commit.offset, kept, commit.metadata
            if first % 8 != 2:
                self.manager.note_committed(commit)
                self.noted = commit.offset

    def judge(self, commit: Commit, above: set[int]) -> set[int]:
        """Compare a commit with the model. Return the acked offsets that fit into its metadata."""
        note = acked_set.decode(commit.metadata)
        assert note is not None
        assert len(commit.metadata) <= self.most_bytes
        assert (note.topology, note.base, commit.offset) == (TOPOLOGY, self.model.end, self.model.end)
        runs = list(zip(note.runs[::2], note.runs[1::2], strict=True))
        far_end = note.runs[-1] if runs else commit.offset
        kept = {offset for offset in above if offset < far_end}
        covered = {offset for start, stop in runs for offset in range(start, stop)}
        assert covered & set(self.log) == kept, "the set must have exactly the acked offsets, up to its end"
        assert commit.left_out >= len(above) - len(kept)
        assert commit.left_out == 0 or self.most_bytes < 4096 or self.bulk > 1
        assert kept <= self.truth
        assert {offset for offset in self.log if offset < commit.offset} <= self.truth, "KS-2: an offset below the commit is not acked"
        return kept

    def hand_over(self, first: int, second: int) -> None:
        """A rebalance: acked offsets are committed, then another owner gets the partition (KS-6, KS-7)."""
        self.commit(0, 0)
        self.crash(first, second)

    def crash(self, first: int, second: int) -> None:
        """The owner crashes without a commit."""
        self.manager.close()
        self.model.close()
        assert (self.manager.in_flight, self.manager.held, self.manager.waiting, self.manager.closed) == (0, 0, 0, True)
        assert self.manager.feed([Record(self.log_end)]) == 0
        assert self.manager.take() is None
        assert self.manager.next_commit(TOPOLOGY, self.most_bytes, carries_set=True) is None
        self.own()

    # Manager and model together

    def compare(self) -> None:
        """Compare all public state."""
        manager, model, end = self.manager, self.model, self.model.end
        assert (manager.position, manager.committable) == (model.position, end)
        assert (manager.in_flight, manager.held) == (len(model.in_flight), len(model.held))
        assert manager.skipped == len(model.fetched & self.skips)
        assert len(model.waiting) <= manager.waiting <= len(model.waiting) + manager.skipped
        freed = sum(self.noted <= offset < end for offset in model.fetched)
        assert manager.uncommitted == sum(offset >= self.noted for offset in model.fetched)
        assert manager.unpassed == sum(offset >= end for offset in model.fetched)
        assert manager.passed == len(model.fetched) - manager.unpassed
        assert manager.is_full == (manager.uncommitted >= self.limit)
        assert freed > 0 or not manager.wants_commit
        assert manager.wants_commit or not (freed and manager.is_full)
