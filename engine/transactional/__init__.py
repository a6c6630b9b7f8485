"""Commits batches in order and exactly once, as transactions (TX-1 to TX-10)."""

from typing import TYPE_CHECKING

from engine.lazy_names import lazy_names

if TYPE_CHECKING:
    from engine.errors import BadRows
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
    from engine.transactional.sql import PostgresDatabase, SqlCommitter, SqliteDatabase
    from engine.transactional.status import TransactionsEntry, TransactionsSnapshot
else:  # the first `build()` of each program loads the feature, and only the feature
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.errors": "BadRows",
            "engine.transactional.admission": "Admission Admitted OpenAdmission",
            "engine.transactional.attempt": "TransactionAttempt",
            "engine.transactional.batch_bolt": "BatchBolt BatchCollector BurstBolt Committer FailedBatch Resource Resources",
            "engine.transactional.builder": "TransactionalTopologyBuilder",
            "engine.transactional.files": "FileCommitter FileOpaqueSpout FileTransactionalSpout "
            "as_json as_text committed_files committed_lines",
            "engine.transactional.memory_spout": "MemoryOpaqueSpout MemoryTransactionalSpout",
            "engine.transactional.spouts": "OpaqueEmitter OpaquePartitionedTransactionalSpout Partition PartitionedCoordinator "
            "PartitionedEmitter PartitionedTransactionalSpout Positions SpoutCoordinator SpoutEmitter TransactionalSpout",
            "engine.transactional.sql": "PostgresDatabase SqlCommitter SqliteDatabase",
            "engine.transactional.status": "TransactionsEntry TransactionsSnapshot",
        },
    )

__all__ = [
    "Admission",
    "Admitted",
    "BadRows",
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
    "PostgresDatabase",
    "Resource",
    "Resources",
    "SpoutCoordinator",
    "SpoutEmitter",
    "SqlCommitter",
    "SqliteDatabase",
    "TransactionAttempt",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "TransactionsEntry",
    "TransactionsSnapshot",
    "as_json",
    "as_text",
    "committed_files",
    "committed_lines",
]
