"""Command line of the bridge. `run_pipeline_in_terminal` gives any program the terminal session of `run`."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.cli.pipeline_session import run_pipeline_in_terminal as run_pipeline_in_terminal
    from spark_bridge.cli.pipeline_views import PipelineOutcome as PipelineOutcome

_HOMES: Final = {"PipelineOutcome": "pipeline_views", "run_pipeline_in_terminal": "pipeline_session"}
"""Module of each public name. Imported on first use, because `look` and `consumers` need no pyspark."""

__all__ = ["PipelineOutcome", "run_pipeline_in_terminal"]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
