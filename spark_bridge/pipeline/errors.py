"""Why a pipeline does not start, or cannot go on."""

from engine.errors import EngineError
from spark_bridge.handover import HandoverError


class PipelineFileError(EngineError):
    """A pipeline file cannot be read, does not import, or holds no pipeline."""

    exit_status = 2


class PipelineRefused(EngineError):
    """The hand-over folder, a consumer or a checkpoint is not what the pipeline needs; nothing was begun."""

    exit_status = 2


class PipelineError(EngineError):
    """A query failed for good; `query` names it, None where it is Spark itself."""

    def __init__(self, message: str, *, query: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.query = query


def refusal(error: HandoverError) -> PipelineRefused:
    """Return what is wrong with a folder as an error of the engine's side."""
    return PipelineRefused(error.message, hint=error.hint)
