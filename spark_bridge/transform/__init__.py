"""Spark within a transaction: a batch bolt that sends its batch through `DataFrame -> DataFrame`, and emits what comes (SP-4)."""

import importlib
from typing import TYPE_CHECKING, Any

from spark_bridge import handover  # noqa: F401 - before all: without pyarrow it says what to install

if TYPE_CHECKING:
    from spark_bridge.transform.spark_transform import SparkTransform as SparkTransform

__all__ = ["SparkTransform"]


def __getattr__(name: str) -> Any:
    """Return the engine's side on first use: Spark's process imports this package too, for `job`, and has no need of an engine."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("spark_bridge.transform.spark_transform"), name)
