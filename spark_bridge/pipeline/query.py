"""One query as Spark runs it: what it has done since one last looked, whether it is at work, what it died of."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spark_bridge.pipeline.faults import Fault, explain, explain_error
from spark_bridge.pipeline.offsets import txid_of
from spark_bridge.pipeline.progress import BatchDone


class RunningQuery:
    """A StreamingQuery, classic or of Spark Connect, that has been started."""

    def __init__(self, name: str, query: Any) -> None:
        self.name: Final = name
        self._query = query
        self._seen = -1
        """The newest micro-batch that was told of."""

    def batches(self) -> Iterator[BatchDone]:
        """Yield the micro-batches that it has finished since the last look."""
        last = self._query.lastProgress
        if last is None or last.batchId <= self._seen:
            return
        for progress in [last] if last.batchId == self._seen + 1 else self._query.recentProgress:
            told = json.loads(progress.json)
            if told["batchId"] > self._seen and "addBatch" in told["durationMs"]:  # without it: it looked for rows, and there were none
                self._seen = told["batchId"]
                yield done_by(self.name, told)

    def fault(self) -> Fault | None:
        """Return why it has died; None while it lives."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        return Fault("passing", "it was stopped from elsewhere") if error is None else explain(str(error))

    @property
    def is_starting(self) -> bool:
        """True until its sources are there. Spark gives the Python of each ten seconds, and so many at once may need more."""
        return bool(self._query.isActive and self._query.status["message"] == "Initializing sources")

    @property
    def is_at_work(self) -> bool:
        """True while a micro-batch is under way."""
        status = self._query.status
        return bool(self._query.isActive and status["isTriggerActive"] and status["isDataAvailable"])

    def stop(self) -> Fault | None:
        """End it, wherever it is; its checkpoint knows what to do again. Return what went wrong."""
        try:
            self._query.stop()
        except Exception as error:  # noqa: BLE001 - of py4j, of Spark, of gRPC: the process ends next, and the query with it
            return explain_error(error)
        return None


def done_by(query: str, told: Mapping[str, Any]) -> BatchDone:
    """Return what a progress report of Spark says."""
    ends = [txid_of(source["endOffset"]) for source in told["sources"]]
    known = [txid for txid in ends if txid is not None]
    states = [operator["numRowsTotal"] for operator in told["stateOperators"]]
    return BatchDone(
        query,
        told["batchId"],
        min(known, default=None),
        sum(source["numInputRows"] for source in told["sources"]),
        float(told["batchDuration"]),
        sum(states) if states else None,
    )
