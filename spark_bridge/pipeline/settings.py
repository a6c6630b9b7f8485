"""What Spark's process is told about a pipeline: plain values, and the function where none is in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_bridge.handover import Handover
from spark_bridge.pipeline.definition import Definition

STOP_SECS: Final = 60.0
MOST_RESTARTS: Final = 5


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """One pipeline over one hand-over folder."""

    pipeline: str | Definition
    """`file.py[:name]`, or the function itself."""
    folder: str
    checkpoints: str
    """A folder in which each query has one of its own, called like the query."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the data source, for all queries, such as `maxTransactionsPerBatch`."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the folder's file system, as the options say."""
    stop_secs: float = STOP_SECS
    """How long a micro-batch under way gets to finish when the pipeline is stopped."""
    most_restarts: int = MOST_RESTARTS
    """So many deaths in a row, without a batch between them, are survived."""

    def handover(self) -> Handover:
        """Return the hand-over; raise HandoverError where there is none."""
        return Handover.open(self.folder, self.storage)

    @property
    def name(self) -> str:
        """What the pipeline is called."""
        return self.pipeline if isinstance(self.pipeline, str) else self.pipeline.name

    def checkpoint(self, query: str) -> str:
        """Return the checkpoint of a query."""
        return f"{self.checkpoints.rstrip('/')}/{query}"
