"""Random histories of one Kafka partition in strict order, compared with the model.

Acks and fails come in any order; records are retried or given up. `judge` checks the emitted offsets without the model. A program is
bytes; three of them are one step, as in `ledger_program`.
"""

from random import Random

from engine.kafka.client.partition import PartitionId
from engine.kafka.source.offset_manager import OffsetManager
from engine.kernel import Entry, mark_done
from tests.model.ledger_program import pick
from tests.model.offset_program import Record
from tests.model.strict_order_model import StrictOrderModel


class StrictOrderProgram:
    """One owner of one partition, from its assignment on."""

    STEPS = ("fetch", "take", "take", "take", "ack", "ack", "ack", "fail", "again", "again", "give_up", "twice")

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.start = self.random.choice([0, 1, 2**20, 2**62])
        self.manager = OffsetManager(PartitionId("lines", 0), self.start, limit=10**9, most_waiting=50)
        self.model = StrictOrderModel(self.start)
        self.entries: dict[int, Entry] = {}
        self.emitted: list[int] = []
        self.unretried: set[int] = set()
        """Offsets that failed, and were neither emitted again nor given up."""

    def run(self, program: bytes) -> None:
        """Run all steps, then drain everything: all records are emitted and acked."""
        for step in range(0, len(program) - 2, 3):
            getattr(self, pick(self.STEPS, program[step]))(program[step + 1], program[step + 2])
            self.compare()
        self.finish()

    def finish(self) -> None:
        """Emit and ack everything in a bounded number of rounds."""
        for _ in range(2 * len(self.model.fetched) + 2):
            for offset in sorted(self.model.held):
                self.again_of(offset)
            self.take(255, 0)
            for offset in sorted(self.model.in_flight, key=lambda _: self.random.random()):
                self.ack_of(offset)
            self.compare()
        assert self.manager.committable == self.model.position == self.manager.position
        assert self.manager.waiting == self.manager.unpassed == 0
        last = {offset: at for at, offset in enumerate(self.emitted)}
        kept = [offset for offset in self.model.fetched if offset not in self.model.gone]
        assert sorted(last, key=last.__getitem__) == sorted(last) or self.model.gone
        assert sorted(kept, key=last.__getitem__) == kept, "the last emits must be in the order of the partition"

    # Steps

    def fetch(self, first: int, second: int) -> None:
        """Poll records, with holes between them."""
        at, found = self.model.position, []
        for _ in range(1 + first % 16):
            at += self.random.choice([0, 0, 0, 1, 5])
            found.append(at)
            at += 1
        self.manager.feed([Record(offset) for offset in found])
        self.model.feed(found)

    def take(self, first: int, second: int) -> None:
        """The spout emits."""
        for _ in range(1 + first % 8):
            entry, offset = self.manager.take(), self.model.take()
            assert (None if entry is None else entry.offset) == offset
            if entry is None or offset is None:
                return
            assert entry.record == Record(offset)
            self.judge(offset)
            self.entries[offset] = entry

    def judge(self, offset: int) -> None:
        """No record is emitted before an earlier record that waits for its retry or was never emitted."""
        self.unretried.discard(offset)
        assert not [one for one in self.unretried if one < offset]
        below = {one for one in self.model.fetched if one < offset}
        assert below <= {*self.emitted, *self.model.gone}
        self.emitted.append(offset)

    def ack(self, first: int, second: int) -> None:
        """Trees are acked in any order."""
        for offset in self.some(self.model.in_flight, 1 + first % 8):
            self.ack_of(offset)

    def ack_of(self, offset: int) -> None:
        mark_done(self.entries[offset])
        self.model.ack(offset)

    def fail(self, first: int, second: int) -> None:
        """Trees fail."""
        for offset in self.some(self.model.in_flight, 1 + first % 3):
            assert self.manager.fail(self.entries[offset])
            assert self.model.fail(offset)
            self.unretried.add(offset)

    def again(self, first: int, second: int) -> None:
        """Backoffs end."""
        for offset in self.some(self.model.held, 1 + first % 3):
            self.again_of(offset)

    def again_of(self, offset: int) -> None:
        assert not self.manager.take_again(self.entries[offset]), "a retry must wait for its turn"
        self.model.again(offset)

    def give_up(self, first: int, second: int) -> None:
        """Dead letters were written."""
        if first % 3 == 0:
            for offset in self.some(self.model.held, 1):
                mark_done(self.entries[offset])
                self.model.give_up(offset)
                self.unretried.discard(offset)

    def twice(self, first: int, second: int) -> None:
        """Verdicts without effect: for entries that are neither in flight nor held."""
        done = set(self.entries) - self.model.in_flight - self.model.held
        for offset in self.some(done, 1 + first % 4):
            entry = self.entries[offset]
            mark_done(entry)
            assert not self.manager.fail(entry)
            assert not self.manager.take_again(entry)

    def some(self, offsets: set[int], count: int) -> list[int]:
        """Choose some of the offsets."""
        return self.random.sample(sorted(offsets), min(count, len(offsets)))

    # Manager and model together

    def compare(self) -> None:
        """Compare all public state."""
        manager, model = self.manager, self.model
        assert (manager.position, manager.committable) == (model.position, model.end)
        assert (manager.in_flight, manager.held) == (len(model.in_flight), len(model.held))
        assert manager.unpassed == sum(offset >= model.end for offset in model.fetched)
        assert manager.stopped == bool(model.held or model.ghosts or len(model.in_flight) >= model.room)
        commit = manager.next_commit("words", 4096, carries_set=False)
        assert commit is not None
        assert commit.offset == model.end
