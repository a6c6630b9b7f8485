"""Runs the queries of a pipeline in Spark's process, in one long call. The driver starts, watches, restarts and stops queries."""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from engine.clock import Clock
from engine.errors import EngineError
from spark_bridge.handover import HandoverError, StorageUnavailable
from spark_bridge.pipeline.definition import PipelineSettings
from spark_bridge.pipeline.errors import PipelineError, folder_error
from spark_bridge.pipeline.faults import Fault, fault_in_text, fault_of_error
from spark_bridge.pipeline.folder_checks import check_declared
from spark_bridge.pipeline.offsets import txid_of
from spark_bridge.pipeline.plan import Plan
from spark_bridge.pipeline.progress import BatchDone, Event, NewestSeen, Note, QueriesKnown, StatusChanged
from spark_bridge.pipeline.restarts import Restarts, next_to_start
from spark_bridge.source import register

POLL_SECS: Final = 0.2
STOP_POLL_SECS: Final = 0.02
NEWEST_SECS: Final = 0.5
_CONF: Final = {
    "spark.sql.streaming.pollingDelay": "50ms",  # at the default, 10 ms, idle queries use a whole core: each poll calls a Python process
    "spark.sql.streaming.stopTimeout": "10s",
}


class DriverCall(Protocol):
    """The part of `spark_bridge.process.child.calls.Call` that a driver uses."""

    @property
    def stopping(self) -> bool:
        """True after a request to stop the pipeline."""

    def emit(self, event: object) -> None:
        """Send an event to the engine's process. Raises CallCancelled."""

    def wait(self, secs: float) -> bool:
        """Wait up to `secs` for a request to stop. Return `stopping`. Raises CallCancelled."""


def drive(spark: Any, call: DriverCall, settings: PipelineSettings) -> EngineError | None:
    """Run the pipeline until it is stopped, or fails in a way that no restart repairs. Return the error, or None if it was stopped."""
    try:
        register(spark)
        for name, value in _CONF.items():
            if spark.conf.get(name, None) is None:
                spark.conf.set(name, value)
        return Driver(spark, call, settings).run()
    except EngineError as error:
        return error
    except HandoverError as error:
        return folder_error(error)


def wait_until_idle(spark: Any, call: DriverCall, names: tuple[str, ...]) -> bool:
    """Wait until these queries have processed everything, including batches that only update state.

    Return False if a query does not run.
    """
    for name in names:
        query = next((query for query in spark.streams.active if query.name == name), None)
        if query is None:
            return False
        query.processAllAvailable()
        if not query.isActive:
            return False
    return True


class Driver:
    """The queries of one pipeline, running or waiting for a restart."""

    def __init__(self, spark: Any, call: DriverCall, settings: PipelineSettings) -> None:
        self._spark = spark
        self._call = call
        self._settings = settings
        self._now = Clock().now
        self._handover = settings.handover()
        self._plan = Plan(spark, settings)
        self._restarts = {name: Restarts(most=settings.most_restarts) for name in self._plan.names}
        self._running: dict[str, RunningQuery] = {}
        self._start_due: dict[str, float] = {}
        """Time of the next start of each query that does not run."""
        self._newest_due = 0.0

    def run(self) -> EngineError | None:
        """See `drive`."""
        self._begin()
        try:
            error = self._watch()
            self._stop_gracefully()
            return error
        finally:
            for query in self._running.values():
                query.stop()

    def _begin(self) -> None:
        for warning in check_declared(self._handover, self._plan.names):
            self._emit(Note(warning))
        self._emit(QueriesKnown({name: self._handover.consumer(name).read().planned for name in self._plan.names}))
        self._start_due = dict.fromkeys(self._plan.names, self._now())

    def _watch(self) -> PipelineError | None:
        """Watch the queries until a request to stop. Return the error of a query that is not restarted."""
        while not self._call.wait(POLL_SECS):
            self._report_newest()
            error = self._start_next()
            if error is not None:
                return error
            for query in list(self._running.values()):
                self._report_batches(query)
                fault = query.fault()
                if fault is not None:
                    error = self._note_fault(query.name, fault)
                    if error is not None:
                        return error
        return None

    def _start_next(self) -> PipelineError | None:
        are_starting = any(query.is_starting for query in self._running.values())
        name = next_to_start(self._start_due, self._now(), are_starting=are_starting)
        return None if name is None else self._start(name)

    def _start(self, name: str) -> PipelineError | None:
        del self._start_due[name]
        try:
            self._running[name] = RunningQuery(name, self._plan.start_query(name))
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - raised by the user's writer or by Spark: reported to a person
            fault = fault_of_error(error)
            # No batch has run, so a restart cannot repair an error of the code.
            return self._note_fault(name, Fault("final", fault.text, fault.hint) if fault.kind == "code" else fault)
        self._emit(StatusChanged(name, "running"))
        return None

    def _note_fault(self, name: str, fault: Fault) -> PipelineError | None:
        """Report a failure and schedule the restart. Return an error if there is no restart."""
        query = self._running.pop(name, None)
        if query is not None:
            self._report_batches(query)
        pause = self._restarts[name].pause_after(fault.kind)
        if pause is None:
            self._emit(StatusChanged(name, "failed", fault.text))
            return PipelineError(f"query {name!r} failed: {fault.text}", query=name, hint=fault.hint or _hint(fault, self._settings))
        self._start_due[name] = self._now() + pause
        self._emit(StatusChanged(name, "restarting", fault.text, pause))
        return None

    def _report_batches(self, query: "RunningQuery") -> None:
        for batch in query.new_batches():
            self._restarts[query.name].note_batch()
            self._emit(batch)

    def _report_newest(self) -> None:
        if self._newest_due > self._now():
            return
        self._newest_due = self._now() + NEWEST_SECS
        try:
            self._emit(NewestSeen(self._handover.newest()))
        except StorageUnavailable as error:
            self._emit(Note(f"{error.message}; until it is available, the lag is not known"))
            self._newest_due += 10 * NEWEST_SECS

    # The end

    def _stop_gracefully(self) -> None:
        """Let each query finish its current micro-batch within `stop_secs`, then stop it before the next one."""
        deadline = self._now() + self._settings.stop_secs
        pause = threading.Event()
        finished = dict.fromkeys(self._running, 0)
        while self._running:
            for query in list(self._running.values()):
                for batch in query.new_batches():
                    finished[query.name] += 1
                    self._emit(batch)
                if finished[query.name] or not query.is_busy or self._now() > deadline:
                    self._stop(query)
            pause.wait(STOP_POLL_SECS)

    def _stop(self, query: "RunningQuery") -> None:
        was_busy = query.is_busy
        fault = query.stop()
        self._report_batches(query)
        del self._running[query.name]
        if fault is not None:
            self._emit(Note(f"query {query.name!r} did not stop: {fault.text}"))
        elif was_busy:
            self._emit(Note(f"query {query.name!r} was stopped during a micro-batch, which is repeated at the next start"))
        self._emit(StatusChanged(query.name, "stopped"))

    def _emit(self, event: Event) -> None:
        self._call.emit(event)


def _hint(fault: Fault, settings: PipelineSettings) -> str:
    if fault.kind == "passing":
        return f"Nothing is lost. Repair the cause and start again: each query continues from its checkpoint ({settings.checkpoints})."
    twice = " It failed twice on the same micro-batch." if fault.kind == "code" else ""
    return f"Nothing is lost. Correct it and start again: each query continues from its checkpoint.{twice}"


class RunningQuery:
    """A started StreamingQuery, classic or of Spark Connect."""

    def __init__(self, name: str, query: Any) -> None:
        self.name: Final = name
        self._query = query
        self._reported = -1
        """Newest micro-batch that `new_batches` has yielded."""

    def new_batches(self) -> Iterator[BatchDone]:
        """Yield the micro-batches that were finished since the last call."""
        last = self._query.lastProgress
        if last is None or last.batchId <= self._reported:
            return
        for progress in [last] if last.batchId == self._reported + 1 else self._query.recentProgress:
            report = json.loads(progress.json)
            if report["batchId"] > self._reported and "addBatch" in report["durationMs"]:  # without this field the trigger found no rows
                self._reported = report["batchId"]
                yield parse_batch(self.name, report)

    def fault(self) -> Fault | None:
        """Return the cause of its failure, or None if it runs."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        return Fault("passing", "another program stopped it") if error is None else fault_in_text(str(error))

    @property
    def is_starting(self) -> bool:
        """True until its sources are open. See `next_to_start`."""
        return bool(self._query.isActive and self._query.status["message"] == "Initializing sources")

    @property
    def is_busy(self) -> bool:
        """True during a micro-batch."""
        status = self._query.status
        return bool(self._query.isActive and status["isTriggerActive"] and status["isDataAvailable"])

    def stop(self) -> Fault | None:
        """Stop the query at once. A query that starts from the same checkpoint repeats an unfinished micro-batch.

        Return the error of Spark, or None.
        """
        try:
            self._query.stop()
        except Exception as error:  # noqa: BLE001 - of py4j, Spark or gRPC: the process ends next, and the query with it
            return fault_of_error(error)
        return None


def parse_batch(query: str, report: Mapping[str, Any]) -> BatchDone:
    """Return the content of a progress report of Spark."""
    ends = [txid_of(source["endOffset"]) for source in report["sources"]]
    known = [txid for txid in ends if txid is not None]
    state_counts = [operator["numRowsTotal"] for operator in report["stateOperators"]]
    return BatchDone(
        query,
        report["batchId"],
        min(known, default=None),
        sum(source["numInputRows"] for source in report["sources"]),
        float(report["batchDuration"]),
        sum(state_counts) if state_counts else None,
    )
