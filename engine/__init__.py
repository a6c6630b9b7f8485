"""Stormcell is a stream engine for Python programs, with Storm's guarantees.

This module exports the public API. Names needed only to run a topology are imported on first use, so that a module which only describes a
topology is imported quickly.
"""

from typing import TYPE_CHECKING

from engine.api import (
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Burst,
    BurstBolt,
    BurstCollector,
    BurstSpout,
    CustomGrouping,
    FailTuple,
    Fields,
    Inlet,
    InletClosed,
    InletHandle,
    OutputCollector,
    Reply,
    RunEnded,
    Spout,
    SpoutCollector,
    SpoutExhausted,
    TaskContext,
    Tuple,
    bolt,
    spout,
)
from engine.config import Config
from engine.errors import (
    ComponentError,
    ConfigError,
    EngineBug,
    EngineError,
    EventTimeError,
    Failure,
    FatalError,
    StateError,
    TopologyError,
    TopologyFileError,
    TupleFailed,
    UsageError,
)
from engine.event_time import EventTime
from engine.lazy_names import lazy_names
from engine.topology import Topology, TopologyBuilder
from engine.topology.features import supply_features
from engine.topology.spec import TopologyFeature
from engine.version import __version__

if TYPE_CHECKING:
    from engine.checkpoint import CheckpointEntry, CheckpointSnapshot, StatefulBasicBolt, StatefulBolt, StatefulBurstBolt, stateful_bolt
    from engine.files import FileSpout
    from engine.flow import FlowControlBolt, FlowControlSpout, FlowEntry, FlowProducer, FlowSettings, FlowSnapshot
    from engine.runtime.run import Run, run
    from engine.runtime.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot
    from engine.state import KeyValueState, StateProvider
    from engine.transactional import (
        BatchBolt,
        Committer,
        FailedBatch,
        OpaquePartitionedTransactionalSpout,
        PartitionedTransactionalSpout,
        TransactionalSpout,
        TransactionalTopologyBuilder,
        TransactionAttempt,
    )
    from engine.transactional.values import OpaqueValue, TransactionalValue
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "engine.checkpoint": "CheckpointEntry CheckpointSnapshot StatefulBasicBolt StatefulBolt StatefulBurstBolt stateful_bolt",
            "engine.files": "FileSpout",
            "engine.flow": "FlowControlBolt FlowControlSpout FlowEntry FlowProducer FlowSettings FlowSnapshot",
            "engine.runtime.run": "Run run",
            "engine.runtime.snapshot": "ComponentSnapshot Snapshot TaskSnapshot",
            "engine.state": "KeyValueState StateProvider",
            "engine.transactional": "BatchBolt Committer FailedBatch OpaquePartitionedTransactionalSpout "
            "PartitionedTransactionalSpout TransactionalSpout TransactionalTopologyBuilder TransactionAttempt",
            "engine.transactional.values": "OpaqueValue TransactionalValue",
        },
        # for names such as `engine.metrics.CONTENT_TYPE`
        submodules=("cli", "flow", "metrics", "runtime", "streams", "testing", "transactional", "web"),
    )

__all__ = [
    "BasicBolt",
    "BasicCollector",
    "BatchBolt",
    "Bolt",
    "BoltCollector",
    "Burst",
    "BurstBolt",
    "BurstCollector",
    "BurstSpout",
    "CheckpointEntry",
    "CheckpointSnapshot",
    "Committer",
    "ComponentError",
    "ComponentSnapshot",
    "Config",
    "ConfigError",
    "CustomGrouping",
    "EngineBug",
    "EngineError",
    "EventTime",
    "EventTimeError",
    "FailTuple",
    "FailedBatch",
    "Failure",
    "FatalError",
    "Fields",
    "FileSpout",
    "FlowControlBolt",
    "FlowControlSpout",
    "FlowEntry",
    "FlowProducer",
    "FlowSettings",
    "FlowSnapshot",
    "Inlet",
    "InletClosed",
    "InletHandle",
    "KeyValueState",
    "OpaquePartitionedTransactionalSpout",
    "OpaqueValue",
    "OutputCollector",
    "PartitionedTransactionalSpout",
    "Reply",
    "Run",
    "RunEnded",
    "Snapshot",
    "Spout",
    "SpoutCollector",
    "SpoutExhausted",
    "StateError",
    "StateProvider",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StatefulBurstBolt",
    "TaskContext",
    "TaskSnapshot",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "TopologyFileError",
    "TransactionAttempt",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "TransactionalValue",
    "Tuple",
    "TupleFailed",
    "UsageError",
    "__version__",
    "bolt",
    "run",
    "spout",
    "stateful_bolt",
]


def _load_features() -> tuple[TopologyFeature, ...]:
    from engine.features import FEATURES

    return FEATURES


supply_features(_load_features)
