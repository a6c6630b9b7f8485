"""Errors of pipelines."""

from engine.errors import EngineError
from spark_bridge.handover import HandoverError


class PipelineFileError(EngineError):
    """A pipeline file cannot be read or imported, or defines no pipeline."""

    exit_status = 2


class PipelineRefused(EngineError):
    """The hand-over folder, a consumer or a checkpoint does not fit the pipeline. Nothing was started."""

    exit_status = 2


class PipelineError(EngineError):
    """A query failed, and is not restarted. `query` is its name, or None if Spark's process failed."""

    def __init__(self, message: str, *, query: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.query = query


def folder_error(error: HandoverError) -> PipelineRefused:
    """Convert an error of a folder to an error of the engine."""
    return PipelineRefused(error.message, hint=error.hint)
