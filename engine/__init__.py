"""Stormcell: a stream engine with Storm's guarantees, for Python programs.

What stands here is the face; everything else is how it is done. What runs a topology is loaded when it is first used, so that
a module which only describes one is imported quickly.
"""

from typing import TYPE_CHECKING

from engine.config import Config
from engine.errors import (
    ComponentError,
    ConfigError,
    EngineBug,
    EngineError,
    Failure,
    FatalError,
    StateError,
    TopologyError,
    TopologyFileError,
    TupleFailed,
    UsageError,
)
from engine.topology import (
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    CustomGrouping,
    FailTuple,
    Fields,
    Inlet,
    InletClosed,
    InletHandle,
    OutputCollector,
    RunEnded,
    Spout,
    SpoutCollector,
    SpoutExhausted,
    TaskContext,
    Topology,
    TopologyBuilder,
    Tuple,
    bolt,
    spout,
)
from engine.version import __version__

if TYPE_CHECKING:
    from engine.checkpoint import CheckpointSnapshot, StatefulBasicBolt, StatefulBolt, stateful_bolt
    from engine.cluster.local_cluster import Run, run
    from engine.cluster.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot
    from engine.flow import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, FlowSnapshot
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

__all__ = [
    "BasicBolt",
    "BasicCollector",
    "BatchBolt",
    "Bolt",
    "BoltCollector",
    "CheckpointSnapshot",
    "Committer",
    "ComponentError",
    "ComponentSnapshot",
    "Config",
    "ConfigError",
    "CustomGrouping",
    "EngineBug",
    "EngineError",
    "FailTuple",
    "FailedBatch",
    "Failure",
    "FatalError",
    "Fields",
    "FlowControlBolt",
    "FlowControlSpout",
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

_LOADED_WHEN_USED = {
    "BatchBolt": "engine.transactional",
    "CheckpointSnapshot": "engine.checkpoint",
    "Committer": "engine.transactional",
    "ComponentSnapshot": "engine.cluster.snapshot",
    "FailedBatch": "engine.transactional",
    "FlowControlBolt": "engine.flow",
    "FlowControlSpout": "engine.flow",
    "FlowProducer": "engine.flow",
    "FlowSettings": "engine.flow",
    "FlowSnapshot": "engine.flow",
    "KeyValueState": "engine.state",
    "OpaquePartitionedTransactionalSpout": "engine.transactional",
    "OpaqueValue": "engine.transactional.values",
    "PartitionedTransactionalSpout": "engine.transactional",
    "Run": "engine.cluster.local_cluster",
    "Snapshot": "engine.cluster.snapshot",
    "StateProvider": "engine.state",
    "StatefulBasicBolt": "engine.checkpoint",
    "StatefulBolt": "engine.checkpoint",
    "TaskSnapshot": "engine.cluster.snapshot",
    "TransactionAttempt": "engine.transactional",
    "TransactionalSpout": "engine.transactional",
    "TransactionalTopologyBuilder": "engine.transactional",
    "TransactionalValue": "engine.transactional.values",
    "run": "engine.cluster.local_cluster",
    "stateful_bolt": "engine.checkpoint",
}


_PARTS = ("cli", "cluster", "flow", "metrics", "testing", "transactional")
"""Modules that `engine.metrics.CONTENT_TYPE` and its like mean without an import of their own."""


def __getattr__(name: str) -> object:
    """Load what runs a topology."""
    from importlib import import_module

    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    module = _LOADED_WHEN_USED.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """All names of the face."""
    return sorted({*globals(), *__all__, *_PARTS})
