"""`SparkTransform` is a batch bolt that runs a function of DataFrames on Spark, and emits the result (SP-4)."""

import importlib
from typing import TYPE_CHECKING, Any

from spark_bridge import handover  # noqa: F401 - first, because without pyarrow it raises an error with the package to install

if TYPE_CHECKING:
    from spark_bridge.transform.spark_transform import SparkTransform as SparkTransform

__all__ = ["SparkTransform"]


def __getattr__(name: str) -> Any:
    """Import the bolt on first use. Spark's process imports this package for `job`, and must not load the engine."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("spark_bridge.transform.spark_transform"), name)
