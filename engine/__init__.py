"""Stormcell: a stream engine with Storm's guarantees, for Python programs.

This module exports the public API. Names needed only to run a topology are imported on first use, so that a module which only
describes a topology imports quickly.
"""

from typing import TYPE_CHECKING

from engine.api import (
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
    Failure,
    FatalError,
    StateError,
    TopologyError,
    TopologyFileError,
    TupleFailed,
    UsageError,
)
from engine.topology import Topology, TopologyBuilder
from engine.topology.features import supply_features
from engine.topology.spec import TopologyFeature
from engine.version import __version__

if TYPE_CHECKING:
    from engine.checkpoint import CheckpointSnapshot, StatefulBasicBolt, StatefulBolt, stateful_bolt
    from engine.flow import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, FlowSnapshot
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

_LAZY_NAMES = {
    "BatchBolt": "engine.transactional",
    "CheckpointSnapshot": "engine.checkpoint",
    "Committer": "engine.transactional",
    "ComponentSnapshot": "engine.runtime.snapshot",
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
    "Run": "engine.runtime.run",
    "Snapshot": "engine.runtime.snapshot",
    "StateProvider": "engine.state",
    "StatefulBasicBolt": "engine.checkpoint",
    "StatefulBolt": "engine.checkpoint",
    "TaskSnapshot": "engine.runtime.snapshot",
    "TransactionAttempt": "engine.transactional",
    "TransactionalSpout": "engine.transactional",
    "TransactionalTopologyBuilder": "engine.transactional",
    "TransactionalValue": "engine.transactional.values",
    "run": "engine.runtime.run",
    "stateful_bolt": "engine.checkpoint",
}


_PACKAGES = ("cli", "flow", "metrics", "runtime", "testing", "transactional")
"""Packages that are available after `import engine`, as in `engine.metrics.CONTENT_TYPE`."""


def _load_features() -> tuple[TopologyFeature, ...]:
    from engine.features import FEATURES

    return FEATURES


supply_features(_load_features)


def __getattr__(name: str) -> object:
    """Import a public name or a package on first use."""
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    module = _LAZY_NAMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """List all public names."""
    return sorted({*globals(), *__all__, *_PACKAGES})
