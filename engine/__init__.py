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

if TYPE_CHECKING:
    from engine.cluster.local_cluster import Run, run
    from engine.cluster.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot

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

_LOADED_WHEN_USED = {
    "ComponentSnapshot": "engine.cluster.snapshot",
    "Run": "engine.cluster.local_cluster",
    "Snapshot": "engine.cluster.snapshot",
    "TaskSnapshot": "engine.cluster.snapshot",
    "run": "engine.cluster.local_cluster",
}


def __getattr__(name: str) -> object:
    """Load what runs a topology."""
    module = _LOADED_WHEN_USED.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """All names of the face."""
    return sorted({*globals(), *__all__})
