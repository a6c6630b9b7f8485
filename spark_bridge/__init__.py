"""Bridge from the engine's committed batches to Spark (docs/decisions/0005).

Imports names on first use, because Spark's executors do not have the engine.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.cli import run_pipeline_in_terminal as run_pipeline_in_terminal
    from spark_bridge.handover import Handover as Handover
    from spark_bridge.handover import HandoverError as HandoverError
    from spark_bridge.pipeline import run_pipeline as run_pipeline
    from spark_bridge.process import SparkChild as SparkChild
    from spark_bridge.process import SparkConfig as SparkConfig
    from spark_bridge.process import SparkDied as SparkDied
    from spark_bridge.process import SparkError as SparkError
    from spark_bridge.sinks import Delta as Delta
    from spark_bridge.sinks import Parquet as Parquet
    from spark_bridge.sinks import Postgres as Postgres
    from spark_bridge.sinks import SinkBatch as SinkBatch
    from spark_bridge.sinks import Sqlite as Sqlite
    from spark_bridge.source import StormcellDataSource as StormcellDataSource
    from spark_bridge.source import package_zip as package_zip
    from spark_bridge.source import register as register
    from spark_bridge.topology import on_spark as on_spark
    from spark_bridge.topology import run as run
    from spark_bridge.transform import SparkTransform as SparkTransform
    from spark_bridge.writer import SparkHandover as SparkHandover

_HOMES: Final = {
    "Delta": "spark_bridge.sinks",
    "Handover": "spark_bridge.handover",
    "HandoverError": "spark_bridge.handover",
    "Parquet": "spark_bridge.sinks",
    "Postgres": "spark_bridge.sinks",
    "SinkBatch": "spark_bridge.sinks",
    "SparkChild": "spark_bridge.process",
    "SparkConfig": "spark_bridge.process",
    "SparkDied": "spark_bridge.process",
    "SparkError": "spark_bridge.process",
    "SparkHandover": "spark_bridge.writer",
    "SparkTransform": "spark_bridge.transform",
    "Sqlite": "spark_bridge.sinks",
    "StormcellDataSource": "spark_bridge.source",
    "on_spark": "spark_bridge.topology",
    "package_zip": "spark_bridge.source",
    "register": "spark_bridge.source",
    "run": "spark_bridge.topology",
    "run_pipeline": "spark_bridge.pipeline",
    "run_pipeline_in_terminal": "spark_bridge.cli",
}
"""Package of each public name."""

__all__ = [
    "Delta",
    "Handover",
    "HandoverError",
    "Parquet",
    "Postgres",
    "SinkBatch",
    "SparkChild",
    "SparkConfig",
    "SparkDied",
    "SparkError",
    "SparkHandover",
    "SparkTransform",
    "Sqlite",
    "StormcellDataSource",
    "on_spark",
    "package_zip",
    "register",
    "run",
    "run_pipeline",
    "run_pipeline_in_terminal",
]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
