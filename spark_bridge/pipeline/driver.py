"""The one long call of a pipeline in Spark's process: it starts the queries, watches them, starts them again, and stops them."""

import threading
from typing import Any, Final, Protocol

from engine.clock import Clock
from engine.errors import EngineError
from spark_bridge.handover import HandoverError, StorageUnavailable
from spark_bridge.pipeline.consumers import check_declared
from spark_bridge.pipeline.errors import PipelineError, refusal
from spark_bridge.pipeline.faults import Fault, explain_error
from spark_bridge.pipeline.plan import Plan
from spark_bridge.pipeline.progress import Event, NewestSeen, QueriesKnown, StatusChanged, Told
from spark_bridge.pipeline.query import RunningQuery
from spark_bridge.pipeline.restarts import Restarts, next_to_start
from spark_bridge.pipeline.settings import PipelineSettings
from spark_bridge.source import register

LOOK_SECS: Final = 0.2
STOP_LOOK_SECS: Final = 0.02
NEWEST_SECS: Final = 0.5
_CONF: Final = {
    "spark.sql.streaming.pollingDelay": "50ms",  # 10 by default: each look asks a Python process, and idle queries take a core
    "spark.sql.streaming.stopTimeout": "10s",
}


class CallFace(Protocol):
    """What is used of a call (`spark_bridge.process`)."""

    @property
    def stopping(self) -> bool:
        """True once the pipeline is to stop."""

    def emit(self, event: object) -> None:
        """Tell the engine's process; raises where it was cancelled."""

    def wait(self, secs: float) -> bool:
        """Wait so long, or until it is to stop; raises where it was cancelled."""


def drive(spark: Any, call: CallFace, settings: PipelineSettings) -> EngineError | None:
    """Run the pipeline until it is to stop, or cannot go on; return what ended it, None where it was stopped."""
    try:
        register(spark)
        for name, value in _CONF.items():
            if spark.conf.get(name, None) is None:
                spark.conf.set(name, value)
        return Driver(spark, call, settings).run()
    except EngineError as error:
        return error
    except HandoverError as error:
        return refusal(error)


def settle(spark: Any, call: CallFace, names: tuple[str, ...]) -> bool:
    """Wait until these queries have done all there is, batches for the state alone included; False where one of them does not run."""
    for name in names:
        query = next((query for query in spark.streams.active if query.name == name), None)
        if query is None:
            return False
        query.processAllAvailable()
        if not query.isActive:
            return False
    return True


class Driver:
    """The queries of one pipeline, those that run and those that wait to be started again."""

    def __init__(self, spark: Any, call: CallFace, settings: PipelineSettings) -> None:
        self._spark = spark
        self._call = call
        self._settings = settings
        self._now = Clock().now
        self._handover = settings.handover()
        self._plan = Plan(spark, settings)
        self._restarts = {name: Restarts(most=settings.most_restarts) for name in self._plan.names}
        self._running: dict[str, RunningQuery] = {}
        self._due: dict[str, float] = {}
        """When a query is started again."""
        self._look_due = 0.0

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
        for text in check_declared(self._handover, self._plan.names):
            self._emit(Told(text))
        self._emit(QueriesKnown({name: self._handover.consumer(name).read().planned for name in self._plan.names}))
        self._due = dict.fromkeys(self._plan.names, self._now())

    def _watch(self) -> PipelineError | None:
        """Look after the queries until it is to stop; return why one of them cannot go on."""
        while not self._call.wait(LOOK_SECS):
            self._look_for_newest()
            error = self._start_next()
            if error is not None:
                return error
            for query in list(self._running.values()):
                self._tell_batches(query)
                fault = query.fault()
                if fault is not None:
                    error = self._died(query.name, fault)
                    if error is not None:
                        return error
        return None

    def _start_next(self) -> PipelineError | None:
        are_starting = any(query.is_starting for query in self._running.values())
        name = next_to_start(self._due, self._now(), are_starting=are_starting)
        return None if name is None else self._start(name)

    def _start(self, name: str) -> PipelineError | None:
        del self._due[name]
        try:
            self._running[name] = RunningQuery(name, self._plan.start(name))
        except EngineError:
            raise
        except Exception as error:  # noqa: BLE001 - of the user's writer, of Spark: it is told to a person
            fault = explain_error(error)
            return self._died(name, Fault("final", fault.text, fault.hint) if fault.kind == "code" else fault)
        self._emit(StatusChanged(name, "running"))
        return None

    def _died(self, name: str, fault: Fault) -> PipelineError | None:
        """Note why a query does not run; return an error where it is not started again."""
        query = self._running.pop(name, None)
        if query is not None:
            self._tell_batches(query)
        pause = self._restarts[name].pause_after(fault.kind)
        if pause is None:
            self._emit(StatusChanged(name, "failed", fault.text))
            return PipelineError(f"query {name!r} failed: {fault.text}", query=name, hint=fault.hint or _hint(fault, self._settings))
        self._due[name] = self._now() + pause
        self._emit(StatusChanged(name, "restarting", fault.text, pause))
        return None

    def _tell_batches(self, query: RunningQuery) -> None:
        for batch in query.batches():
            self._restarts[query.name].progressed()
            self._emit(batch)

    def _look_for_newest(self) -> None:
        if self._look_due > self._now():
            return
        self._look_due = self._now() + NEWEST_SECS
        try:
            self._emit(NewestSeen(self._handover.newest()))
        except StorageUnavailable as error:
            self._emit(Told(f"{error.message}; the lag is not known meanwhile"))
            self._look_due += 10 * NEWEST_SECS

    # The end

    def _stop_gracefully(self) -> None:
        """Let each micro-batch under way finish, within the time for that, and stop its query between two of them."""
        deadline = self._now() + self._settings.stop_secs
        pause = threading.Event()
        done = dict.fromkeys(self._running, 0)
        while self._running:
            for query in list(self._running.values()):
                for batch in query.batches():
                    done[query.name] += 1
                    self._emit(batch)
                if done[query.name] or not query.is_at_work or self._now() > deadline:
                    self._stop(query)
            pause.wait(STOP_LOOK_SECS)

    def _stop(self, query: RunningQuery) -> None:
        was_at_work = query.is_at_work
        fault = query.stop()
        self._tell_batches(query)
        del self._running[query.name]
        if fault is not None:
            self._emit(Told(f"query {query.name!r} did not stop: {fault.text}"))
        elif was_at_work:
            self._emit(Told(f"query {query.name!r} was stopped at work: a micro-batch that was under way comes again at the next start"))
        self._emit(StatusChanged(query.name, "stopped"))

    def _emit(self, event: Event) -> None:
        self._call.emit(event)


def _hint(fault: Fault, settings: PipelineSettings) -> str:
    if fault.kind == "passing":
        return f"Nothing is lost: start again when that is over, and each query goes on where it stood ({settings.checkpoints})."
    twice = " It failed twice at the same micro-batch." if fault.kind == "code" else ""
    return f"Correct it and start again: nothing is lost, each query goes on where it stood.{twice}"
