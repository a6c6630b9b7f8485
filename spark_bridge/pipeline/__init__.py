"""Runs queries of Spark over a hand-over folder. Has `run_pipeline` and the decorators of pipeline files (SP-1, SP-5).

`run` and `progress` run in the process of the caller. `driver`, `plan`, `faults` and `offsets` run in Spark's process. `definition` runs in
both.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.pipeline.definition import per_batch as per_batch
    from spark_bridge.pipeline.definition import pipeline as pipeline
    from spark_bridge.pipeline.errors import PipelineError as PipelineError
    from spark_bridge.pipeline.errors import PipelineFileError as PipelineFileError
    from spark_bridge.pipeline.errors import PipelineRefused as PipelineRefused
    from spark_bridge.pipeline.progress import PipelineSnapshot as PipelineSnapshot
    from spark_bridge.pipeline.progress import QuerySnapshot as QuerySnapshot
    from spark_bridge.pipeline.run import run_pipeline as run_pipeline

_HOMES: Final = {
    "PipelineError": "errors",
    "PipelineFileError": "errors",
    "PipelineRefused": "errors",
    "PipelineSnapshot": "progress",
    "QuerySnapshot": "progress",
    "per_batch": "definition",
    "pipeline": "definition",
    "run_pipeline": "run",
}
"""Module of each public name. Imported on first use, because a Connect server that calls a per-batch function has only `offsets`."""

__all__ = [
    "PipelineError",
    "PipelineFileError",
    "PipelineRefused",
    "PipelineSnapshot",
    "QuerySnapshot",
    "per_batch",
    "pipeline",
    "run_pipeline",
]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
