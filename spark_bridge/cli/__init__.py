"""The command line of the bridge: one command per file. `run_pipeline_in_terminal` gives any program what `run` has."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.cli.pipeline_session import run_pipeline_in_terminal as run_pipeline_in_terminal
    from spark_bridge.cli.pipeline_views import PipelineOutcome as PipelineOutcome

_HOMES: Final = {"PipelineOutcome": "pipeline_views", "run_pipeline_in_terminal": "pipeline_session"}
"""name: the module that has it. Imported on first use: a command that looks at a folder needs no pyspark."""

__all__ = ["PipelineOutcome", "run_pipeline_in_terminal"]


def __getattr__(name: str) -> Any:
    """Return a name that is imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
