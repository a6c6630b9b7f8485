"""Transactional topologies whose processing phase runs on Spark (CL-1 to CL-4, docs/decisions/0011)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_bridge.topology.cluster_run import on_spark as on_spark
    from spark_bridge.topology.cluster_run import run as run

__all__ = ["on_spark", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use. Executors need only a part of the package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("spark_bridge.topology.cluster_run"), name)
