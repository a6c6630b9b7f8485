"""Blocks of one partition that Spark has not taken yet."""

from typing import Final

from spark_bridge.topology.blocks import NOTICE, Block, pack
from spark_bridge.topology.job_plan import JobPlan
from spark_bridge.topology.level_status import LevelStatus

OUT_BYTES: Final = 1 << 20
"""Payload of the blocks that are passed to Spark together."""


class Outbox:
    """Blocks of one partition that Spark has not taken yet."""

    def __init__(self, plan: JobPlan, level: int, partition: int, number: int) -> None:
        """number: of the try of this partition."""
        self._plan = plan
        self._partitions = plan.partitions
        self._level = level
        self._partition = partition
        self._number = number
        self._sequence = 0
        self._bytes = 0
        self.blocks: list[Block] = []
        self.sent_blocks = self.sent_rows = self.sent_bytes = 0

    @property
    def is_full(self) -> bool:
        """True if there are enough blocks to pass to Spark."""
        return self._bytes + 64 * len(self.blocks) >= OUT_BYTES

    def pass_on(self, block: Block) -> None:
        """Add a block for a later level, which another partition has sent."""
        self._bytes += len(block.payload)
        self.blocks.append(block)

    def send(self, source: int, target: int, payload: bytes, rows: int) -> None:
        """Add a block for a task of a later level, or for the end of the job."""
        level, partition = self._plan.places.get(target, (len(self._partitions), self._partition))
        self._sequence += 1
        self._bytes += len(payload)
        self.sent_blocks += 1
        self.sent_rows += rows
        self.sent_bytes += len(payload)
        self.blocks.append(Block(level, partition, source, self._sequence, target, self._number, payload))

    def note_sent(self, status: LevelStatus) -> None:
        """Store the numbers of sent blocks, rows and bytes in a status."""
        status.blocks, status.rows, status.bytes = self.sent_blocks, self.sent_rows, self.sent_bytes

    def send_notice(self, status: LevelStatus) -> None:
        """Add the outcome of this partition. If it has failed, tell the partitions of all later levels."""
        depth = len(self._partitions)
        self.blocks.append(Block(depth, self._partition, NOTICE, 0, 0, self._number, pack(status)))
        if status.has_failed:
            for level in range(self._level + 1, depth):
                for partition in range(self._partitions[level]):
                    self.blocks.append(Block(level, partition, NOTICE, 0, 0, self._number, b""))

    def take(self) -> list[Block]:
        """Return all blocks, and forget them."""
        taken, self.blocks, self._bytes = self.blocks, [], 0
        return taken
