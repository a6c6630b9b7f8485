"""Errors of Spark's process, raised in the engine's process."""

from engine.errors import EngineError, FatalError
from spark_bridge.process.child.diagnosis import describe_status, likely_cause
from spark_bridge.process.config import SparkConfig
from spark_bridge.process.messages import StartFailure


class SparkError(EngineError):
    """A function that was called in Spark's process raised an error, or its Spark job failed.

    `condition` is Spark's name of the error, such as DIVIDE_BY_ZERO, or None. `place` is the line of the user's file, such as
    `etl.py:12 in clean`, or None if it is not known.
    """

    def __init__(self, message: str, *, condition: str | None = None, place: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.condition = condition
        self.place = place


class SparkDied(EngineError):
    """Spark's JVM, its process or its server ended during its start or a call. The next call starts a new process."""


class SparkUnavailable(EngineError):
    """Spark cannot start at the moment, because its master or server is down, or a port is taken. The next call tries again."""


class SparkMissing(FatalError):
    """Spark cannot start on this machine. Pyspark, Java or a package is missing, or Spark refuses the configuration."""

    exit_status = 2


def start_error(config: SparkConfig, failure: StartFailure, log: str, log_tail: str) -> EngineError:
    """Return the error of a child process that could not open a session."""
    error_class = SparkDied if failure.is_death else SparkUnavailable if failure.is_temporary else SparkMissing
    details = f"; the end of its log {log}:\n{log_tail}" if failure.shows_log else f" (log: {log})"
    return error_class(f"Spark ({config.master}): {failure.message}{details}", hint=failure.hint)


def start_timeout_error(config: SparkConfig, log: str, log_tail: str) -> EngineError:
    """Return the error of a child process that opened no session within `start_timeout_secs`."""
    return SparkUnavailable(
        f"Spark ({config.master}) was not ready within {config.start_timeout_secs:g} s; the end of its log {log}:\n{log_tail}",
        hint="Check that the cluster has free cores and memory, or raise start_timeout_secs.",
    )


def death_error(config: SparkConfig, death_report: str | None, status: int, log: str, log_tail: str) -> SparkDied:
    """Return the error of a child process that ended unexpectedly. `death_report`: the child's last message about its death."""
    exit_text = death_report or f"Spark's process {describe_status(status)}"
    cause, hint = likely_cause(exit_text, log_tail)
    return SparkDied(f"Spark ({config.master}) died: {exit_text}{cause}; the end of its log {log}:\n{log_tail}", hint=hint)
