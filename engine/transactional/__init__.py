"""Transactions: batches that commit in order, exactly once (TX-1 to TX-10)."""

from engine.transactional.admission import Admission, Admitted, OpenAdmission
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchBolt, BatchCollector, BurstBolt, Committer, FailedBatch, Resource, Resources
from engine.transactional.builder import TransactionalTopologyBuilder
from engine.transactional.files import (
    FileCommitter,
    FileOpaqueSpout,
    FileTransactionalSpout,
    as_json,
    as_text,
    committed_files,
    committed_lines,
)
from engine.transactional.memory_spout import MemoryOpaqueSpout, MemoryTransactionalSpout
from engine.transactional.spouts import (
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    Partition,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    Positions,
    SpoutCoordinator,
    SpoutEmitter,
    TransactionalSpout,
)

__all__ = [
    "Admission",
    "Admitted",
    "BatchBolt",
    "BatchCollector",
    "BurstBolt",
    "Committer",
    "FailedBatch",
    "FileCommitter",
    "FileOpaqueSpout",
    "FileTransactionalSpout",
    "MemoryOpaqueSpout",
    "MemoryTransactionalSpout",
    "OpaqueEmitter",
    "OpaquePartitionedTransactionalSpout",
    "OpenAdmission",
    "Partition",
    "PartitionedCoordinator",
    "PartitionedEmitter",
    "PartitionedTransactionalSpout",
    "Positions",
    "Resource",
    "Resources",
    "SpoutCoordinator",
    "SpoutEmitter",
    "TransactionAttempt",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "as_json",
    "as_text",
    "committed_files",
    "committed_lines",
]
