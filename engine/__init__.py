"""Stormcell: a stream engine with Storm's guarantees, for Python programs.

What stands here is the face; everything else is how it is done.
"""

from engine.cluster.local_cluster import Run, run
from engine.cluster.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot
from engine.config import Config
from engine.errors import (
    ComponentError,
    ConfigError,
    EngineBug,
    EngineError,
    Failure,
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

__all__ = [
    "BasicBolt",
    "BasicCollector",
    "Bolt",
    "BoltCollector",
    "ComponentError",
    "ComponentSnapshot",
    "Config",
    "ConfigError",
    "CustomGrouping",
    "EngineBug",
    "EngineError",
    "FailTuple",
    "Failure",
    "Fields",
    "Inlet",
    "InletClosed",
    "InletHandle",
    "OutputCollector",
    "Run",
    "Snapshot",
    "Spout",
    "SpoutCollector",
    "SpoutExhausted",
    "TaskContext",
    "TaskSnapshot",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "TopologyFileError",
    "Tuple",
    "TupleFailed",
    "UsageError",
    "__version__",
    "bolt",
    "run",
    "spout",
]
