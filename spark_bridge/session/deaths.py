"""In words: why there is no session, and what Spark died of."""

from engine.errors import EngineError
from spark_bridge.session import wire
from spark_bridge.session.child.statuses import describe_status
from spark_bridge.session.config import SparkConfig
from spark_bridge.session.errors import SparkDied, SparkMissing, SparkUnavailable


def refused(config: SparkConfig, refusal: wire.Refusal, log: str, tail: str) -> EngineError:
    """Return the error of a child that could make no session."""
    kind = SparkUnavailable if refusal.passes else SparkMissing
    more = f"; the end of its log {log}:\n{tail}" if refusal.shows_log else f" (log: {log})"
    return kind(f"Spark ({config.master}): {refusal.message}{more}", hint=refusal.hint)


def silent(config: SparkConfig, log: str, tail: str) -> EngineError:
    """Return the error of a child that made no session in time."""
    return SparkUnavailable(
        f"Spark ({config.master}) was not ready within {config.start_timeout_secs:g} s; the end of its log {log}:\n{tail}",
        hint="See whether the cluster has room for it; or raise start_timeout_secs.",
    )


def died(config: SparkConfig, told: str | None, status: int, log: str, tail: str) -> SparkDied:
    """Return the error of a child that has ended by itself."""
    what = told or f"Spark's process {describe_status(status)}"
    reason, hint = _likely(what, tail)
    return SparkDied(f"Spark ({config.master}) died: {what}{reason}; the end of its log {log}:\n{tail}", hint=hint)


def _likely(what: str, tail: str) -> tuple[str, str | None]:
    """Return the likely reason, and what to do about it."""
    if "OutOfMemoryError" in tail or "status 52" in what:
        return " (out of memory)", "Raise driver_memory (executor_memory on a cluster), or make the batches smaller."
    if "SIGKILL" in what:
        return " (by hand, or by the system for want of memory)", "If nobody killed it, see dmesg, and lower driver_memory or the batches."
    return "", None
